"""`hf-vaswani corpus`: writes the built-in corpus to files."""

import argparse

from ..files import OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    corpus = commands.add_parser(
        "corpus",
        help="write the built-in German–English corpus to files",
        usage="hf-vaswani corpus FOLDER",
        description="Write the built-in German–English corpus (dataset 'built-in' of a recipe) to text files.",
    )
    corpus.add_argument(
        "folder",
        type=OutputPath,
        metavar="FOLDER",
        help="folder to create for train.de, train.en, validation.de and so on",
    )
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..data.sources import built_in
    from ..data.sources.text_source import BUILT_IN, TextSource, iterate_pairs
    from ..ledger import check_new, new_folder

    check_new(options.folder)
    with new_folder(options.folder) as folder:
        for split in built_in.SPLITS:
            pairs = iterate_pairs(TextSource(dataset=BUILT_IN, split=split), built_in.LANGUAGES)
            for language, side in zip(built_in.LANGUAGES, zip(*pairs)):
                (folder / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")

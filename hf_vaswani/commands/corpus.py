"""`hf-vaswani corpus`: the embedded corpus as files."""

import argparse

from ..paths import OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    corpus = commands.add_parser(
        "corpus",
        help="write the built-in German–English corpus to files",
        usage="hf-vaswani corpus FOLDER",
        description="Write the built-in German–English corpus (dataset 'embedded' of a recipe) to text files.",
    )
    corpus.add_argument(
        "folder",
        type=OutputPath,
        metavar="FOLDER",
        help="folder to make; gets train.de, train.en, validation.de and so on",
    )
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..data.corpus import generate_corpus
    from ..interop.folders import check_new, new_folder

    check_new(options.folder)
    corpus = generate_corpus()
    with new_folder(options.folder) as folder:
        for split, pairs in corpus.items():
            for language, side in zip(("de", "en"), zip(*pairs)):
                (folder / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")

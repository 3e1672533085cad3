"""`hf-vaswani corpus`: the embedded corpus as files."""

import argparse
from pathlib import Path

from ..errors import InputError, reason


def add_parser(commands: argparse._SubParsersAction) -> None:
    corpus = commands.add_parser("corpus", help="write the embedded German–English corpus to files")
    corpus.add_argument("folder", help="gets train.de, train.en, validation.de, …")
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    folder = Path(options.folder)
    from ..data import built_in
    from ..data.sources import EMBEDDED, TextSource, iterate_pairs
    from ..interop.folders import check_new

    check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for split in built_in.SPLITS:
            pairs = iterate_pairs(TextSource(dataset=EMBEDDED, split=split), built_in.LANGUAGES)
            for language, side in zip(built_in.LANGUAGES, zip(*pairs)):
                (folder / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {reason(error)}") from None

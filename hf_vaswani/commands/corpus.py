"""`hf-vaswani corpus`: the embedded corpus as files."""

import argparse
from pathlib import Path

from ..errors import InputError, reason
from ..paths import OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    corpus = commands.add_parser("corpus", help="write the embedded German–English corpus to files")
    corpus.add_argument("folder", type=OutputPath, help="gets train.de, train.en, validation.de, …")
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    folder = Path(options.folder)
    from ..data.corpus import generate_corpus
    from ..interop.folders import check_new

    check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for split, pairs in generate_corpus().items():
            for language, side in zip(("de", "en"), zip(*pairs)):
                (folder / f"{split}.{language}").write_text("\n".join(side) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {reason(error)}") from None

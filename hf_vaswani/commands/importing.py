"""`hf-vaswani import`: another system's model as a folder of this one."""

import argparse
import sys

from ..paths import InputPath, OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    importing = commands.add_parser(
        "import",
        help="turn another system's model into a folder of this one",
        usage="hf-vaswani import SOURCE OUTPUT [--vocabularies FOLDER]",
        description="Import a MarianMT or FSMT model (folder or Hub id), or a checkpoint of fairseq or OpenNMT-py.",
    )
    importing.add_argument("source", type=InputPath, metavar="SOURCE", help="folder, .pt file or id on the Hub")
    importing.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to make")
    importing.add_argument(
        "--vocabularies",
        type=InputPath,
        metavar="FOLDER",
        help="folder with fairseq's dict.LANGUAGE.txt and subword model (default: the folder of SOURCE)",
    )
    importing.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..interop import import_checkpoint

    splitting = import_checkpoint(options.source, options.output, vocabularies=options.vocabularies)
    if splitting:
        print(f"{options.output} holds the model and its tokenizer: {splitting}.")
    else:
        print(
            f"{options.output} holds the model alone: there is no tokenizer in {options.source}, or it does not say "
            "which languages its dictionaries are of.",
            file=sys.stderr,
        )

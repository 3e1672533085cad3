"""`hf-vaswani import`: converts another toolkit's model to one of this package."""

import argparse
import sys

from ..files import InputPath, OutputPath


def add_parser(commands: argparse._SubParsersAction) -> None:
    importing = commands.add_parser(
        "import",
        help="convert another toolkit's model to one of this package",
        usage="hf-vaswani import SOURCE OUTPUT [--vocabularies FOLDER]",
        description="Convert a MarianMT or FSMT model (folder or Hub id), or a checkpoint of fairseq or OpenNMT-py, "
        "to a model of this package, which gives the same outputs.",
    )
    importing.add_argument("source", type=InputPath, metavar="SOURCE", help="folder, .pt file or id on the Hub")
    importing.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to create")
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
        print(f"{options.output} contains the model and its tokenizer: {splitting}.")
    else:
        print(
            f"{options.output} contains only the model: {options.source} has no tokenizer, or does not name the "
            "languages of its dictionaries.",
            file=sys.stderr,
        )

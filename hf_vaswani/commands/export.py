"""`hf-vaswani export`: converts a model to transformers' MarianMT."""

import argparse
from pathlib import Path

from ..errors import InputError
from ..files import InputPath, OutputPath
from .common.options import MODEL


def add_parser(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser(
        "export",
        help="convert a model to transformers' MarianMT",
        usage="hf-vaswani export MODEL OUTPUT",
        description="Convert a model of this package to a folder that transformers loads as a MarianMT.",
    )
    export.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    export.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to create")
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..interop import export_checkpoint
    from ..translation.load import load

    model, tokenizer = load(options.model)
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"{options.model} is a {type(model).__name__}; only models of this package can be exported.")
    export_checkpoint(model, tokenizer, options.output)
    tokenizers = sorted(path.name for path in Path(options.output).glob("*_tokenizer"))
    print(f"{options.output} holds the model as a MarianMT and {' and '.join(tokenizers) or 'its tokenizer'}.")

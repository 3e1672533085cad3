"""`hf-vaswani export`: converts a model for another engine, and checks that it translates the same there."""

import argparse
from pathlib import Path

from ..errors import InputError, counted
from ..files import InputPath, OutputPath
from .common.options import INPUT_FILE, MODEL

FORMATS = ("marian", "ctranslate2")
# Not taken from CTranslate2, whose import would slow down every command.
QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
DESCRIPTION = """\
Convert a model of this package for another engine. marian: a folder that transformers loads as a MarianMT.
ctranslate2: a folder for CTranslate2, which all commands take like a model. It is opened and compared with the model;
where it does not translate the same, nothing is written."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser(
        "export",
        help="convert a model to MarianMT or CTranslate2",
        usage="hf-vaswani export MODEL OUTPUT [--to FORMAT] [options]",
        description=DESCRIPTION,
    )
    export.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    export.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to create")
    export.add_argument("--to", choices=FORMATS, default="marian", help="format (default: marian)")
    export.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        metavar="TYPE",
        help=f"of ctranslate2's weights: {', '.join(QUANTIZATIONS)} (default: float32)",
    )
    export.add_argument(
        "--sample", **INPUT_FILE, help="sentences to compare translations on (default: sentences of random tokens)"
    )
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..translation.load import load

    texts = _sample(options)
    if options.to == "ctranslate2":
        from ..engines.extras import import_extra

        import_extra("ctranslate2")
    model, tokenizer = load(options.model)
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"{options.model} is a {type(model).__name__}; only models of this package can be exported.")
    if options.to == "marian":
        from ..interop import export_checkpoint

        export_checkpoint(model, tokenizer, options.output)
        tokenizers = sorted(path.name for path in Path(options.output).glob("*_tokenizer"))
        print(f"{options.output} holds the model as a MarianMT and {' and '.join(tokenizers) or 'its tokenizer'}.")
        return
    from ..engines.export import export_model

    result = export_model(model, tokenizer, options.output, options.quantization, texts)
    same = result.sentences - result.different
    print(
        f"{options.output} holds the model for CTranslate2, {result.size / 1e6:.1f} MB. It translates {same} of "
        f"{counted(result.sentences, 'sentence')} by the model's own tokens."
    )


def _sample(options: argparse.Namespace) -> list[str]:
    """The sentences of `--sample`.

    Raises:
        InputError: where it cannot be read, or options do not go together.
    """
    errors = [
        f"--{name} is for --to ctranslate2."
        for name in ("quantization", "sample")
        if getattr(options, name) and options.to == "marian"
    ]
    if errors:
        raise InputError.of(errors)
    if not options.sample:
        return []
    from ..data.sources.parallel_files import read_lines

    texts = [line for line in read_lines(options.sample) if line.strip()]
    if not texts:
        raise InputError(f"{options.sample} has no text. Name a file with a sentence per line.")
    return texts

"""`hf-vaswani export`: converts a model for another engine, and checks that it translates the same there."""

import argparse
from pathlib import Path

from ..errors import InputError, counted
from ..files import InputPath, OutputPath
from .common.options import INPUT_FILE, MODEL

FORMATS = ("marian", "ctranslate2", "onnx", "transformers.js")
# Not taken from CTranslate2, whose import would slow down every command.
CTRANSLATE2_TYPES = (
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
    "float32",
)
QUANTIZATIONS = {"ctranslate2": CTRANSLATE2_TYPES, "onnx": ("int8", "float32"), "transformers.js": ("int8", "float32")}
# What must be installed, and the extra that installs it, where that has another name.
LIBRARIES = {
    "ctranslate2": [("ctranslate2", None)],
    "onnx": [("onnx", None), ("onnxruntime", "onnx")],
    "transformers.js": [("onnx", None), ("onnxruntime", "onnx")],
}
DESCRIPTION = """\
Convert a model of this package for another engine. marian: a folder that transformers loads as a MarianMT.
ctranslate2 and onnx: a folder for CTranslate2 or ONNX Runtime, which all commands take like a model.
transformers.js: a folder for browsers and Node, searched greedily. All but marian are opened and compared with the
model; where they do not translate the same, nothing is written."""


def add_parser(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser(
        "export",
        help="convert a model to MarianMT, CTranslate2, ONNX or transformers.js",
        usage="hf-vaswani export MODEL OUTPUT [--to FORMAT] [options]",
        description=DESCRIPTION,
    )
    export.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    export.add_argument("output", type=OutputPath, metavar="OUTPUT", help="folder to create")
    export.add_argument("--to", choices=FORMATS, default="marian", help="format (default: marian)")
    export.add_argument(
        "--quantization",
        choices=CTRANSLATE2_TYPES,
        metavar="TYPE",
        help=f"of the weights: int8 or float32; for ctranslate2 one of {', '.join(CTRANSLATE2_TYPES)} "
        "(default: float32)",
    )
    export.add_argument(
        "--sample", **INPUT_FILE, help="sentences to compare translations on (default: sentences of random tokens)"
    )
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..translation.load import load

    texts = _sample(options)
    if libraries := LIBRARIES.get(options.to):
        from ..engines.extras import import_extra

        for library, extra in libraries:
            import_extra(library, extra)
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

    result = export_model(model, tokenizer, options.output, options.quantization, texts, options.to)
    same = result.sentences - result.different
    print(
        f"{options.output} holds the model for {result.engine}, {result.size / 1e6:.1f} MB. It translates {same} of "
        f"{counted(result.sentences, 'sentence')} by the model's own tokens."
    )


def _sample(options: argparse.Namespace) -> list[str]:
    """The sentences of `--sample`.

    Raises:
        InputError: where it cannot be read, or options do not go together.
    """
    others = ", ".join(name for name in FORMATS if name != "marian")
    errors = [
        f"--{name} is for --to {others}."
        for name in ("quantization", "sample")
        if getattr(options, name) and options.to == "marian"
    ]
    known = QUANTIZATIONS.get(options.to, CTRANSLATE2_TYPES)
    if options.quantization not in (None, *known):
        errors.append(
            f"--quantization {options.quantization} is for --to ctranslate2; here it is {' or '.join(known)}."
        )
    if errors:
        raise InputError.of(errors)
    if not options.sample:
        return []
    from ..data.sources.parallel_files import read_lines

    texts = [line for line in read_lines(options.sample) if line.strip()]
    if not texts:
        raise InputError(f"{options.sample} has no text. Name a file with a sentence per line.")
    return texts

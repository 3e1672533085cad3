"""`hf-vaswani export`: converts a model for another engine, and checks that it translates the same there."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, counted
from ..files import InputPath, OutputPath, check_new, collect_errors, new_folder
from .common.options import INPUT_FILE, INPUT_FILES, MODEL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..hub.export_card import Comparison

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
model; where they do not translate the same, nothing is written. The folder has a card, which says what 8 or 16 bits
cost in BLEU and chrF if there is a test set."""
NAME = "model name in title and code of the card: you/de-en-int8 (default: name of the folder)"
# Not for a MarianMT, which is the model itself under other names.
OF_ENGINES = ("quantization", "sample", "source", "reference")


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
    test_set = export.add_argument_group("test set, which the model and the exported one translate for the card")
    test_set.add_argument("--source", **INPUT_FILE, help="source sentences")
    test_set.add_argument(
        "--reference", **INPUT_FILES, action="extend", help="reference translations; several files are several of each"
    )
    export.add_argument("--name", help=NAME)
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..hub.export_card import export_card
    from ..hub.origin import read_origin
    from ..translation.load import load

    texts = _checked_texts(options)
    model, tokenizer = load(options.model)
    if not isinstance(model, VaswaniForConditionalGeneration):
        raise InputError(f"{options.model} is a {type(model).__name__}; only models of this package can be exported.")
    comparison, origin = None, read_origin(options.model, model, tokenizer)
    with new_folder(options.output) as folder:
        if options.to == "marian":
            words, size = _write_marian(model, tokenizer, folder)
        else:
            words, size = _write_for_engine(options, model, tokenizer, folder, texts.get(options.sample))
            if options.source:
                comparison = _compared(options, model, tokenizer, folder, texts)
        name = options.name or Path(options.output).resolve().name
        card = export_card(name, options.to, options.quantization, size, origin, comparison)
        (folder / "README.md").write_text(card, encoding="utf-8")
    print(
        f"{options.output} holds the model {words} Weights: {size / 1e6:.1f} MB, the model's {origin.size / 1e6:.1f}."
    )
    if comparison:
        print(comparison.summary())


def _write_marian(
    model: "VaswaniForConditionalGeneration", tokenizer: "PreTrainedTokenizerBase", folder: Path
) -> tuple[str, int]:
    """Write a MarianMT; what came of it in words, and the bytes of its weights."""
    from ..engines.folders import weights_size
    from ..interop.folders import write_marian

    write_marian(model, tokenizer, folder)
    tokenizers = sorted(path.name for path in folder.glob("*_tokenizer"))
    return f"as a MarianMT and {' and '.join(tokenizers) or 'its tokenizer'}.", weights_size(folder)


def _write_for_engine(
    options: argparse.Namespace,
    model: "VaswaniForConditionalGeneration",
    tokenizer: "PreTrainedTokenizerBase",
    folder: Path,
    sample: list[str] | None,
) -> tuple[str, int]:
    """The same for an engine."""
    from ..engines.export import write_checked

    texts = [line for line in sample or () if line.strip()]
    result = write_checked(model, tokenizer, folder, options.quantization, texts, options.to)
    same = result.sentences - result.different
    return (
        f"for {result.engine}. It translates {same} of {counted(result.sentences, 'sentence')} by the model's own "
        "tokens.",
        result.size,
    )


def _compared(
    options: argparse.Namespace,
    model: "VaswaniForConditionalGeneration",
    tokenizer: "PreTrainedTokenizerBase",
    folder: Path,
    texts: dict[str, list[str]],
) -> "Comparison":
    from ..engines.formats import FORMATS
    from .common.comparison import compare

    target = FORMATS[options.to]
    references = [texts[path] for path in options.reference]
    exported, is_greedy = target.open(folder, model), target.num_beams == 1
    return compare(model, exported, tokenizer, options.source, texts[options.source], references, is_greedy)


def _checked_texts(options: argparse.Namespace) -> dict[str, list[str]]:
    """The lines of the files that the options name.

    Raises:
        InputError: lists all that is wrong with options, files and output, and libraries that are missing.
    """
    from ..data.sources.parallel_files import line_errors, read_lines
    from ..engines.extras import import_extra

    errors = _option_errors(options)
    collect_errors(errors, partial(check_new, options.output))
    read = partial(collect_errors, errors)
    texts = {path: read(partial(read_lines, path)) for path in (options.sample, options.source) if path}
    texts |= {path: read(partial(read_lines, path)) for path in options.reference or () if path not in texts}
    if options.source and options.reference:
        test_set = (options.source, *options.reference)
        errors += line_errors(options.source, {path: texts[path] for path in test_set})
    for library, extra in LIBRARIES.get(options.to, ()):
        read(partial(import_extra, library, extra))
    if errors:
        raise InputError.of(list(dict.fromkeys(errors)))
    return texts


def _option_errors(options: argparse.Namespace) -> list[str]:
    others = ", ".join(name for name in FORMATS if name != "marian")
    errors = [
        f"--{name} is for --to {others}." for name in OF_ENGINES if getattr(options, name) and options.to == "marian"
    ]
    known = QUANTIZATIONS.get(options.to, CTRANSLATE2_TYPES)
    if options.quantization not in (None, *known):
        errors.append(
            f"--quantization {options.quantization} is for --to ctranslate2; here it is {' or '.join(known)}."
        )
    if options.source and not options.reference:
        errors.append("--source needs the reference translations of its sentences: --reference FILE.")
    if options.reference and not options.source:
        errors.append("--reference needs the sentences that it translates: --source FILE.")
    return errors

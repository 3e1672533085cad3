"""`hf-vaswani export`: converts a model for another engine, and checks that it translates the same there."""

import argparse
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from ..backends import BACKENDS, CTRANSLATE2, ONNX
from ..errors import InputError, counted
from ..files import InputPath, OutputPath, collect_errors
from ..ledger import check_new, new_folder
from .options import (
    INPUT_FILE,
    MODEL,
    add_language_options,
    add_reference_option,
    check_language_options,
    languages,
    option_names,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..hub.export_card import Comparison

# Formats of ONNX graphs, besides ONNX Runtime's folders.
GRAPHS = ("transformers.js", "web")
FORMATS = ("marian", *BACKENDS, *GRAPHS)
CTRANSLATE2_TYPES = CTRANSLATE2.quantizations
QUANTIZATIONS = {
    **{name: record.quantizations for name, record in BACKENDS.items()},
    **dict.fromkeys(GRAPHS, ONNX.quantizations),
}
WEB_TYPE = "int8"
METRICS = ("bleu", "chrf")
DESCRIPTION = """\
Convert a model of this package for another engine. marian: a folder that transformers loads as a MarianMT.
ctranslate2 and onnx: a folder for CTranslate2 or ONNX Runtime, for use with translate, evaluate, app, and push.
transformers.js: a folder for browsers and Node, with greedy search. web: a page that contains the model and translates
in the browser, for any static host. The folder is opened and compared with the model; if its translations differ in
float32, nothing is written. With a test set (--source and --reference), its card reports how much BLEU and chrF the
export loses, as it may with 8 or 16 bits."""
NAME = "model name in the card's title and code: you/de-en-int8 (default: name of the folder)"
RUNTIME = (
    "for web: a node_modules folder with onnxruntime-web and @huggingface/tokenizers (default: the one in the current "
    "folder, or else npm downloads them)"
)


def add_parser(commands: argparse._SubParsersAction) -> None:
    export = commands.add_parser(
        "export",
        help="convert a model to MarianMT, CTranslate2, ONNX, transformers.js or a web page",
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
        help=f"type of the weights: int8 or float32; for ctranslate2 one of {', '.join(CTRANSLATE2_TYPES)} "
        "(default: float32; for web int8)",
    )
    export.add_argument("--sample", **INPUT_FILE, help="sentences to compare translations on (default: random tokens)")
    export.add_argument(
        "--shortlist",
        type=InputPath,
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="for ctranslate2: sentence pairs, such as the training text, from which it is learned which tokens each "
        "source token may become; CTranslate2 chooses among these only, which is faster, with nearly the same results "
        "(default: the model's own shortlist, which training.shortlist makes)",
    )
    test_set = export.add_argument_group("test set, translated by both models for the card")
    test_set.add_argument("--source", **INPUT_FILE, help="source sentences")
    add_reference_option(test_set)
    add_language_options(test_set)
    export.add_argument("--name", help=NAME)
    export.add_argument("--runtime", type=InputPath, metavar="FOLDER", help=RUNTIME)
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    texts = _checked_texts(options)
    if options.to != "web":
        _export(options, texts)
        return
    from ..engines.web_page import fetched_runtime, find_runtime

    # This comes first, since npm may have to fetch the runtime.
    with fetched_runtime(find_runtime(options.runtime)) as runtime:
        _export(options, texts, runtime)


def _export(options: argparse.Namespace, texts: dict[str, list[str]], runtime: Path | None = None) -> None:
    from ..core.modeling_vaswani import VaswaniForConditionalGeneration
    from ..engines.checked_export import page_languages, write_checked
    from ..engines.web_page import write_page
    from ..hub.export_card import export_card, read_origin
    from ..interop.marian import lost_settings
    from ..models.load import load
    from ..text.language_marks import marked_sources
    from ..text.normalization import is_blank

    model, tokenizer = load(options.model)
    if not isinstance(model, VaswaniForConditionalGeneration):
        name = type(model).__name__
        raise InputError(f"{options.model} has the class {name}; only models of this package can be exported.")
    chosen = check_language_options(options, model, tokenizer)
    with option_names():
        marked_sources(model, tokenizer, texts[options.source] if options.source else (), chosen)
    comparison, origin = None, read_origin(options.model, model, tokenizer)
    sample = [line for line in texts.get(options.sample) or () if not is_blank(line)]
    shortlist = _shortlist(options, texts, model, tokenizer) if options.to == "ctranslate2" else None
    name = options.name or Path(options.output).resolve().name
    quantization = options.quantization or (WEB_TYPE if options.to == "web" else None)
    with new_folder(options.output) as folder:
        result = write_checked(model, tokenizer, folder, quantization, sample, options.to, shortlist)
        if options.source:
            comparison = _compare(options, model, tokenizer, folder, texts)
        card = export_card(name, options.to, quantization, result.size, origin, comparison)
        (folder / "README.md").write_text(card, encoding="utf-8")
        if runtime:
            write_page(folder, runtime, name.rpartition("/")[2], *page_languages(model, tokenizer))
        tokenizers = sorted(path.name for path in folder.glob("*_tokenizer"))
    also = f", with {' and '.join(tokenizers)}" if tokenizers else ""
    same = result.sentences - result.different
    # Rounding changes the translation of nonsense more easily than of a real sentence.
    what = counted(result.sentences, "sentence" if sample else "random sequence")
    hint = "" if sample or not result.different else " (to compare on your own sentences, use --sample FILE)"
    print(
        f"{options.output} contains the model for {result.engine}{also}. It gives the same tokens as "
        f"the model for {same} of {what}{hint}. Weights: {result.size / 1e6:.1f} MB (original: "
        f"{origin.size / 1e6:.1f} MB)."
    )
    if options.to == "marian" and (lost := lost_settings(model.generation_config)):
        print(f"MarianMT's search lacks {' and '.join(lost)}, so some translations may differ.")
    if shortlist:
        print("It chooses target tokens from a shortlist, vmap.txt; to do without it, delete that file.")
    if comparison:
        print(comparison.summary())
    if runtime:
        print(f"To view it: python -m http.server --bind 127.0.0.1 --directory {quote(options.output)}")


def _shortlist(
    options: argparse.Namespace,
    texts: dict[str, list[str]],
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
) -> str | None:
    """The shortlist learned from the given text, or else the one that is next to the model, if any."""
    from ..engines.shortlist import learn_shortlist, read_shortlist

    if options.shortlist:
        return learn_shortlist(zip(*(texts[path] for path in options.shortlist)), tokenizer, model.config)
    return read_shortlist(options.model)


def _compare(
    options: argparse.Namespace,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    folder: Path,
    texts: dict[str, list[str]],
) -> "Comparison":
    """Translate the test set with a model and with its export, by the model's own search, and compare the scores."""
    from ..engines.formats import formats
    from ..evaluation.score import scores
    from ..evaluation.score_settings import score_settings
    from ..hub.export_card import Comparison, MetricLoss, ShortlistGain
    from ..text.language_marks import mark_target
    from ..text.languages import own_languages
    from ..text.normalization import is_blank
    from ..translator.pipeline import translate

    target = formats()[options.to]
    exported, is_greedy = target.open(folder, model), target.num_beams == 1
    beams = 1 if is_greedy else model.generation_config.num_beams or 1
    sources, references = texts[options.source], [texts[path] for path in options.reference]
    run = partial(
        translate, tokenizer=tokenizer, texts=sources, show_progress=True, num_beams=beams,
        zero_shot=options.zero_shot, **languages(options),
    )  # fmt: skip
    outputs = [run(model, engine="torch"), run(exported)]
    requested = options.source_language, options.target_language
    settings = score_settings(tokenizer, own_languages(model.config, tokenizer, requested)[1]).arguments()
    losses = [
        MetricLoss(own.name, own.value, other.value, own.signature)
        for own, other in zip(*(scores(output, references, METRICS, **settings) for output in outputs))
    ]
    same = sum(own == other for own, other in zip(*outputs))
    shortlist = None
    if getattr(exported, "uses_shortlist", False):
        speed, without = _compare_shortlist(exported, run)
        values = {metric.name: metric.value for metric in scores(without, references, METRICS, **settings)}
        shortlist = ShortlistGain(values, speed)
    marked = mark_target(tokenizer, sources, own_languages(model.config, tokenizer, requested)[1])
    example = next((pair for pair in zip(marked, outputs[1]) if not is_blank(pair[0])), (sources[0], outputs[1][0]))
    search = f"beam {beams}" if beams > 1 else "greedy"
    computed_by = getattr(exported, "computed_by", "PyTorch")
    return Comparison(Path(options.source).name, search, computed_by, len(sources), same, losses, example, shortlist)


def _compare_shortlist(exported: object, run: Callable[..., list[str]]) -> tuple[float, list[str]]:
    """How many times as fast an export is with its shortlist as without, and its translations without."""
    seconds, outputs = {True: math.inf, False: math.inf}, {}
    for exported.uses_shortlist in (True, False) * 2:
        start = time.perf_counter()
        outputs[exported.uses_shortlist] = run(exported, return_warnings=False)
        seconds[exported.uses_shortlist] = min(seconds[exported.uses_shortlist], time.perf_counter() - start)
    return seconds[False] / seconds[True], outputs[False]


def _checked_texts(options: argparse.Namespace) -> dict[str, list[str]]:
    """Check the options, and return the lines of the files that they name.

    Raises:
        InputError: lists everything that is wrong with the options, files and output, and missing libraries.
    """
    from ..data.sources.text_files import line_errors, read_lines
    from ..hub.repository import check_name
    from ..runtime.imports import import_extra

    errors = _option_errors(options)
    collect_errors(errors, partial(check_new, options.output))
    read = partial(collect_errors, errors)
    if options.name and options.to != "web":  # where it is only a title
        read(partial(check_name, options.name))
    texts = {path: read(partial(read_lines, path)) for path in (options.sample, options.source) if path}
    others = (*(options.reference or ()), *(options.shortlist or ()))
    texts |= {path: read(partial(read_lines, path)) for path in dict.fromkeys(others) if path not in texts}
    if options.source and options.reference:
        test_set = (options.source, *options.reference)
        errors += line_errors(options.source, {path: texts[path] for path in test_set})
    if options.shortlist:
        source, target = options.shortlist
        errors += line_errors(source, {path: texts[path] for path in (source, target)})
    if options.to == "web":
        from ..engines.web_page import find_runtime

        read(partial(find_runtime, options.runtime))
    if record := ONNX if options.to in GRAPHS else BACKENDS.get(options.to):
        for library in record.libraries:
            read(partial(import_extra, library, record.name))
    if errors:
        raise InputError.of(errors)
    return texts


def _option_errors(options: argparse.Namespace) -> list[str]:
    errors = []
    known = QUANTIZATIONS.get(options.to, CTRANSLATE2_TYPES)
    if options.quantization and options.to == "marian":
        errors.append(f"--quantization is for --to {', '.join(name for name in FORMATS if name != 'marian')}.")
    elif options.quantization not in (None, *known):
        errors.append(
            f"--quantization {options.quantization} is for --to ctranslate2; here it is {' or '.join(known)}."
        )
    if options.shortlist and options.to != "ctranslate2":
        errors.append("--shortlist is for --to ctranslate2.")
    if options.runtime and options.to != "web":
        errors.append("--runtime is for --to web.")
    if options.source and not options.reference:
        errors.append("--source needs the reference translations of its sentences: --reference FILE.")
    if options.reference and not options.source:
        errors.append("--reference needs the sentences that it translates: --source FILE.")
    return errors

"""`hf-vaswani translate --format html` and the like: a document keeps its structure and gets its text translated."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents.formats import DOCUMENTS, NO_TEXT, OFFICE, format_of
from ..errors import InputError
from ..files import atomic_write, reading, writing
from ..runtime.imports import quiet
from .reports import SHOWN, LineReports, progress_bar

if TYPE_CHECKING:
    from accelerate import PartialState

    from ..documents.reading import Document
    from ..documents.tag_placement import Alignment
    from ..runtime.process_group import SingleProcess
    from ..translator.lines import LineTranslator
    from ..translator.translator import Translator


def default_format(options: argparse.Namespace) -> str:
    """The format of a document whose suffix both input and output have; else text."""
    kind = format_of(options.input or "")
    return kind if kind in DOCUMENTS and kind == format_of(options.output or "") else "text"


def format_errors(options: argparse.Namespace) -> list[str]:
    """Errors in the combination of `--format` with other options."""
    if options.format in DOCUMENTS:
        names = [
            name
            for name in ("n_best", "scores", "confidence", "alignments", "prefix", "resume")
            if getattr(options, name)
        ]
        return [f"--{name} cannot be combined with --format {options.format}; leave it out." for name in names]
    if (kind := format_of(options.input or "")) in OFFICE:
        return [f"{options.input} is a document, not a file of lines. Add --format {kind}."]
    return []


def check_lines(options: argparse.Namespace) -> None:
    """Check files whose format is not named, and which would be translated line by line.

    Raises:
        InputError: one of them is a document, or no text at all.
    """
    files = [name for name in (options.input, options.output) if name]
    if strange := [name for name in files if name.lower().endswith(NO_TEXT)]:
        raise InputError(
            f"{strange[0]} is neither text nor a document in one of these formats: {', '.join(DOCUMENTS)}."
        )
    documents = [(name, kind) for name in files if (kind := format_of(name)) in DOCUMENTS]
    if options.format in DOCUMENTS or not documents:
        return
    name, kind = documents[0]
    remedy = f"Add --format {kind}" + (f", or name the other file *.{kind}, too" if len(files) > 1 else "")
    lines = "" if kind in OFFICE else ", or add --format text to translate lines"
    raise InputError(f"{name} is a document, not a file of lines. {remedy}{lines}.")


def translate_document(
    options: argparse.Namespace,
    processes: "PartialState | SingleProcess",
    load: "Callable[[], tuple[Any, Any, LineTranslator]]",
    find_errors: Callable[[int], list[str]],
) -> None:
    """Translate a document with all processes; the main one reads and writes it.

    Args:
        load: loads the model and its tokenizer, and makes the translator.
        find_errors: finds errors in the options and files, for a number of processes.
    """
    from ..runtime.processes import first_on_each_machine, on_main_process, over_processes
    from ..text.languages import language_code, own_languages
    from ..translator.documents import as_filled
    from ..translator.documents import translate_document as translated
    from ..translator.lines import sequential, translate_window
    from .text_warnings import text_warnings

    document: Document | None = None

    def check() -> bool:
        """Read the document; whether there is anything to translate."""
        nonlocal document
        document = _open(options, find_errors(processes.num_processes))
        return bool(document.texts)

    if on_main_process(processes, check):
        if options.split_sentences is None:
            options.split_sentences = True  # a paragraph is longer than the lines that models are trained on
        model, tokenizer, translate = first_on_each_machine(processes, load)
        if not processes.is_main_process:
            for _ in over_processes(processes, partial(translate_window, translate, as_filled)):
                pass
            return
        name, reports = options.input or "standard input", LineReports("text", SHOWN)
        glossary, last = translate.translator.glossary, translate.translator.last
        keep, chosen = options.keep or (), translate.translator.first.options
        requested = chosen.src_lang, chosen.tgt_lang
        for warning in text_warnings(name, document.texts, requested, model, tokenizer, glossary, keep):
            print(warning, file=sys.stderr)
        with quiet("hf_vaswani.translator"), progress_bar(len(set(document.texts))) as bar:
            translate.progress = bar.update
            content = translated(
                document,
                translate,
                partial(_align, options, translate.translator),
                language_code(
                    own_languages(last.model.config, last.tokenizer, (last.options.src_lang, last.options.tgt_lang))[1]
                ),
                reports.of(name),
                reports.of_translations(name),
                lambda done: bar.update(done - bar.n),
                partial(over_processes, processes) if processes.num_processes > 1 else sequential,
            )
        reports.summarize()
        _write(options.output, content)
    elif processes.is_main_process:
        _write(options.output, document.fill([]))


def _align(
    options: argparse.Namespace,
    translator: "Translator",
    texts: "Sequence[str]",
    translations: "Sequence[str]",
    has_tags: "Sequence[bool]",
) -> "Sequence[Alignment | None]":
    """Alignments of the texts with tags, by the models' own weights, whatever has translated."""
    from ..translator.chain import ChainTranslator, align_over

    if isinstance(translator, ChainTranslator):
        steps = (translator.first, options.model), (translator.second, options.second_model or options.model)
        tagged = [text for text, has in zip(texts, has_tags) if has]
        pivots = dict(zip(tagged, translator.pivot_texts(tagged)))
        alignments = align_over(
            texts, [pivots.get(text, "") for text in texts], translations, has_tags,
            *(partial(_align_step, *step, options.dtype) for step in steps),
        )  # fmt: skip
    else:
        alignments = _align_step(translator, options.model, options.dtype, texts, translations, has_tags)
    glossary = translator.glossary
    return glossary.link_terms(texts, translations, alignments) if glossary else alignments


def _align_step(
    translator: "Translator",
    path: str,
    dtype: str | None,
    texts: "Sequence[str]",
    translations: "Sequence[str]",
    has_tags: "Sequence[bool]",
) -> "Sequence[Alignment | None]":
    """Alignments by the model of a translator, which is loaded from its folder if an engine translates."""
    from ..engines.engine_model import EngineModel
    from ..models.ensemble import Ensemble
    from ..models.load import load
    from ..text.languages import Languages
    from ..translator.documents import align_texts

    model, tokenizer, own = translator.model, translator.tokenizer, translator.options
    if isinstance(model, EngineModel | Ensemble):
        model, tokenizer = load(path, dtype)
    spoken = Languages(own.src_lang, own.tgt_lang).arguments()
    return align_texts(model, tokenizer, texts, translations, has_tags, **spoken)


def _open(options: argparse.Namespace, errors: list[str]) -> "Document":
    from ..data.resumable_output import output_error
    from ..documents.reading import read_document

    output = Path(options.output) if options.output else None
    if output and (not output.exists() or output.is_file() or output.is_dir()):  # not a device or a pipe
        if error := output_error(output):
            errors.append(error)
        elif output.exists() and not options.overwrite:
            errors.append(f"{output} exists. Choose another file, or replace it (--overwrite).")
    if errors:
        raise InputError.of(errors)
    name = options.input or "standard input"
    with reading(name, "Choose another file."):
        content = Path(name).read_bytes() if options.input else sys.stdin.buffer.read()
    try:
        return read_document(options.format, content)
    except InputError as error:
        raise InputError(f"{name} cannot be read as {options.format}: {error}") from None


def _write(output: str | None, content: bytes) -> None:
    path = Path(output).resolve() if output else None
    with writing(output or "standard output"):
        if path is None:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        elif path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            with atomic_write(path) as part:
                part.write_bytes(content)

"""`hf-vaswani translate`: translates text line by line."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..documents.formats import DOCUMENTS
from ..errors import InputError, counted
from ..files import InputPath, collect_errors, descriptor_of, file_digest, is_same_file
from ..runtime.imports import quiet
from .options import (
    ENSEMBLE,
    INPUT_FILE,
    MODEL,
    OUTPUT_FILE,
    SECOND_MODEL,
    add_language_options,
    add_ranking_options,
    add_speed_options,
    add_translation_options,
    languages,
    option_names,
    reranking_errors,
    seed,
    temperature,
    translation_options,
    up_to,
)
from .reports import LineReports, progress_bar
from .translate_document import check_lines, default_format, format_errors, translate_document
from .translate_pairs import (
    SELECTION,
    add_pair_options,
    are_finished,
    candidates_file,
    check_pair_options,
    finish_pairs,
    iterate_texts,
    provenance,
)

if TYPE_CHECKING:
    from accelerate import PartialState
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..data.resumable_output import ResumableOutput, StreamOutput
    from ..runtime.process_group import SingleProcess
    from ..translator.lines import Line, LineTranslator
    from ..translator.translator_settings import TranslatorSettings

# Options that do not affect the translations, and names of models and files, of which only the content matters.
NO_SETTINGS = {
    "command", "run", "model", "second_model", "ensemble", "rerank_with", "input", "output", "prefix", "overwrite",
    "resume", "num_workers", "engine", "zero_shot", "needs_torch", "saves_memory",
}  # fmt: skip
# These affect only the order in which random numbers are drawn.
BATCHES = {"batch_tokens", "batch_size"}

DESCRIPTION = """\
Translate text line by line, in order. Line n of the output translates line n of the input; an empty line stays empty.
A line that cannot be translated gets an empty translation and a warning; bytes that are not valid UTF-8 become U+FFFD,
and a warning counts their lines. The exit status is 0 in both cases. At the end, a warning counts the translations
that may be wrong: those that repeat themselves, or are far shorter or longer than usual.

Lines are translated in windows, of 128 at first and 4096 later, and written after each window; lines that are typed,
or arrive slowly from another program, are translated as they come.

accelerate launch -m hf_vaswani translate and torchrun -m hf_vaswani translate divide the windows among the processes
that they start, on one machine or several; the output is the same."""

FORMAT = """\
text: one translation per line; jsonl: one object per line, {"source": ..., "translations": [{"text": ..., ...}, ...]},
best first, with scores, confidence and alignments if requested, and a "warning" if it may be wrong; "error" instead if
there is no translation; or a document, in which all but the text stays as it is (default: the document's format if
both files have its suffix, else text)"""
GLOSSARY = """\
terms that translations must use where lines have their sources: .tsv, .csv (source term, target term or
several with | between them, and optionally the case rule exact or ignore), or .tbx"""
SAMPLE = "sample instead of searching; 1 is the model's own distribution, as for back-translation"


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "translate",
        help="translate text, line by line",
        usage="hf-vaswani translate MODEL [--input FILE] [--output FILE] [options]",
        description=DESCRIPTION,
    )
    parser.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    files = parser.add_argument_group("files")
    files.add_argument("--input", **INPUT_FILE, help="file to translate; also .gz .zst (default: standard input)")
    files.add_argument("--output", **OUTPUT_FILE, help="file to write; also .gz .zst (default: standard output)")
    files.add_argument("--format", choices=["text", "jsonl", *DOCUMENTS], help=FORMAT)
    existing = files.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace an existing output")
    existing.add_argument("--resume", action="store_true", help="continue an unfinished output")
    what = parser.add_argument_group("what to write for each line; needs --format jsonl")
    add_translation_options(what, "n_best", "return_scores", "return_confidence", "return_alignments")
    add_search_options(parser)
    add_pair_options(parser)
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--prefix", **INPUT_FILE, help="file with the beginning of each translation, one per line, in whole words"
    )
    add_length_options(lines)
    add_batch_options(parser.add_argument_group("speed"))
    parser.set_defaults(run=run, saves_memory="Lower --batch_size or --num_workers.")


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the group of options that control the search for translations."""
    search = parser.add_argument_group("search", "Defaults come from the model's generation_config.")
    search.add_argument("--second_model", type=InputPath, metavar="MODEL", help=SECOND_MODEL)
    search.add_argument("--ensemble", type=InputPath, nargs="+", default=[], metavar="MODEL", help=ENSEMBLE)
    add_ranking_options(search)
    search.add_argument("--glossary", **INPUT_FILE, help=GLOSSARY)
    add_translation_options(search, "keep", nargs="+", metavar="KIND_OR_REGEX")
    add_translation_options(search, "on_missing_term")
    search.add_argument("--max_new_tokens", type=up_to(100000), metavar="N", help="maximum tokens of a translation")
    search.add_argument("--mbr", choices=["chrf", "bleu"], help="minimum Bayes risk decoding with this utility")
    search.add_argument("--samples", type=up_to(10000), metavar="N", help="candidates for --mbr (default: 32)")
    search.add_argument("--sample", type=temperature, metavar="TEMPERATURE", help=SAMPLE)
    search.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="random seed of --mbr and --sample (default: 0)"
    )


def add_length_options(lines: argparse._ActionsContainer) -> None:
    """Add the options for languages and long lines."""
    add_language_options(lines)
    add_translation_options(lines, "via", metavar="CODE")
    add_translation_options(lines, "max_source_length", "split_sentences")


def add_batch_options(speed: argparse._ActionsContainer) -> None:
    """Add the options of speed: batches, processes, 8-bit weights, and the dtype."""
    add_translation_options(speed, "batch_tokens")
    add_speed_options(speed)
    speed.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        help="dtype to compute in (default: the dtype of the weights)",
    )


def run(options: argparse.Namespace) -> None:
    from ..runtime.process_group import launched_processes
    from ..runtime.processes import on_main_process

    has_default_format = options.format is None
    options.format = options.format or default_format(options)
    with launched_processes() as processes:
        if has_default_format:
            on_main_process(processes, lambda: check_lines(options))
        on_main_process(processes, lambda: check_pair_options(options))
        if options.pairs:
            _make_pairs(options, processes)
        elif options.format in DOCUMENTS:
            translate_document(options, processes, partial(_translator, options), partial(_document_errors, options))
        else:
            _run(options, processes)


def _make_pairs(options: argparse.Namespace, processes: "PartialState | SingleProcess") -> None:
    """Translate into a file next to the pairs, which is resumed, and choose the pairs from it."""
    from ..runtime.processes import on_main_process

    options.output, options.format = candidates_file(options.pairs), "jsonl"
    options.resume, options.scores = not options.overwrite, not options.mbr
    made = on_main_process(processes, lambda: provenance(options, output_settings(options)))
    if on_main_process(processes, lambda: are_finished(options, made)):
        return
    seconds = _run(options, processes)
    on_main_process(processes, lambda: finish_pairs(options, made, seconds))


def _run(options: argparse.Namespace, processes: "PartialState | SingleProcess") -> float:
    """Translate with all processes; the main one reads the input and writes the output. Returns the seconds taken."""
    from accelerate.utils import gather_object

    from ..data.resumable_output import ResumableOutput
    from ..runtime.processes import first_on_each_machine, in_all_processes, on_main_process, over_processes
    from ..training.synthetic_pairs import as_candidates
    from ..translator.lines import as_json, as_text, sequential, translate_lines, translate_window
    from .text_warnings import file_warnings

    output = None

    def check() -> bool:
        """Whether there is anything to do."""
        nonlocal output
        output = _check(options, processes.num_processes)
        return output is not None

    if not on_main_process(processes, check):
        if processes.is_main_process and not options.pairs:
            is_newer = options.input and os.stat(options.input).st_mtime > os.stat(options.output).st_mtime
            why = f"{options.input} is newer" if is_newer else "Which text and model it is from is not recorded"
            print(
                f"{options.output} is finished: it has a line for each line of {_name(options)}. Nothing to do. "
                f"({why}; to translate again, use --overwrite.)",
                file=sys.stderr,
            )
        return 0.0
    model, tokenizer, translate = first_on_each_machine(processes, lambda: _translator(options))
    if options.sample and not getattr(model, "samples_follow_seed", True) and processes.is_main_process:
        print(f"note: {model.computed_by}: samples differ each time, regardless of --seed.", file=sys.stderr)
    own = translator_settings(options).content_digest()
    if processes.num_processes > 1 and len(set(gather_object([own]))) > 1:  # copies on several machines
        error = InputError(f"{options.model} is not the same model in all processes. Copy it to all machines again.")
        raise in_all_processes(processes, error)
    write_line = as_json if options.format == "jsonl" else as_text
    if options.pairs:
        last = translate.translator.last
        write_line = partial(as_candidates, last)
        if target_language := last.options.tgt_lang:
            last.tokenizer.tgt_lang = target_language  # to count the tokens of its translations
    reports = LineReports()
    is_resumable, samples = isinstance(output, ResumableOutput), bool(options.sample or options.mbr)
    lines = is_waiting = None  # in the main process alone

    def begin() -> None:
        nonlocal lines, is_waiting
        chosen, glossary = translate.translator.first.options, translate.translator.glossary
        requested = chosen.src_lang, chosen.tgt_lang
        for warning in file_warnings(options.input, requested, model, tokenizer, glossary, options.keep or ()):
            print(warning, file=sys.stderr)
        lines, is_waiting = _lines(options, reports)
        if is_resumable:
            output.begin({"model": own, **output_settings(options), "prefix": bool(options.prefix)}, lines)

    on_main_process(processes, begin)
    if lines is None:
        for _ in over_processes(processes, partial(translate_window, translate, write_line)):
            pass
        return 0.0
    # The bar must not appear in between translations on the same terminal.
    is_shown = not (options.output is None and sys.stdout.isatty())
    bar = progress_bar(_count_lines(options.input), output.progress.lines, is_shown)
    with quiet("hf_vaswani.translator"), bar:
        translate.progress = bar.update
        try:
            translate_lines(
                lines,
                translate,
                write_line,
                output,
                reports.of(_name(options)),
                lambda done: bar.update(done - bar.n),
                # A file must have the same windows whether it is written in one go or resumed; and the random numbers
                # of samples depend on the window.
                is_waiting if sys.stdin.isatty() or not (is_resumable or samples) else lambda: False,
                partial(over_processes, processes) if processes.num_processes > 1 else sequential,
                reports.of_translations(_name(options)),
            )
        except KeyboardInterrupt:
            if not is_resumable:
                raise
            done = counted(output.progress.lines, "line")
            if options.pairs:
                how = " without --overwrite" if options.overwrite else ""
            else:
                how = " with --resume instead of --overwrite" if options.overwrite else " with --resume"
            raise KeyboardInterrupt(
                f"Interrupted after {done}. Run the same command again{how} to continue."
            ) from None
    reports.summarize()
    return output.progress.seconds


def output_settings(options: argparse.Namespace, further: Collection[str] = ()) -> dict[str, Any]:
    """The options that an output depends on; it can only be resumed with the same ones.

    Args:
        further: names of more options that the output does not depend on.
    """
    left_out = NO_SETTINGS if options.sample or options.mbr else NO_SETTINGS | BATCHES
    left_out |= {"pairs", *SELECTION} if getattr(options, "pairs", None) else set()
    settings = {name: value for name, value in vars(options).items() if name not in left_out and name not in further}
    return settings | ({"glossary": file_digest(options.glossary)} if options.glossary else {})


def _check(options: argparse.Namespace, processes: int) -> "ResumableOutput | StreamOutput | None":
    """Run all checks that do not need the model, and return the output; `None` if it is already finished."""
    from ..data.resumable_output import NothingToResume, ResumableOutput, StreamOutput
    from ..data.sources.text_files import check_lines

    errors = option_errors(options) + format_errors(options) + _stream_errors(options, processes)
    if errors and processes > 1:
        raise InputError.of(errors)
    for path in filter(None, (options.input if not options.pairs else None, options.prefix)):
        collect_errors(errors, partial(check_lines, path))
    path = Path(options.output) if options.output else None
    errors += _same_file_errors(options)
    if path is None and sys.stdout is None:
        raise InputError.of(errors)
    if path is None or (path.exists() and not path.is_file() and not path.is_dir()):
        if options.resume:
            errors.append("--resume needs --output, a file that can be resumed.")
        output = StreamOutput(sys.stdout.buffer if path is None else open(path, "wb"), path)  # noqa: SIM115
    else:
        try:
            continues = "Run the same command again to continue." if options.pairs else "Resume later with --resume."
            output = ResumableOutput(path, options.overwrite, options.resume, continues)
        except NothingToResume as error:
            if not errors and _has_a_line_for_each(path, options):
                return None
            errors.append(str(error))
        except InputError as error:
            errors.append(str(error))
    if errors:
        raise InputError.of(errors)
    return output


def _document_errors(options: argparse.Namespace, processes: int) -> list[str]:
    """All errors that can be found before a document is read."""
    errors = option_errors(options) + format_errors(options) + _stream_errors(options, processes)
    return errors + _same_file_errors(options)


def _stream_errors(options: argparse.Namespace, processes: int) -> list[str]:
    """An error for each stream that is closed, or that several processes cannot divide."""
    if processes > 1:
        return [
            f"{processes} processes can divide a file among them, but not a stream. Specify a file with --{name}."
            for name, path in (("input", options.input), ("output", options.output))
            if path is None or (Path(path).exists() and not Path(path).is_file() and not options.pairs)
        ]
    streams = (("input", options.input, sys.stdin), ("output", options.output, sys.stdout))
    return [
        f"Standard {name} is closed. Specify a file with --{name}."
        for name, path, stream in streams
        if path is None and stream is None
    ]


def _same_file_errors(options: argparse.Namespace) -> list[str]:
    """An error for each input that the output would overwrite."""
    output = options.output or descriptor_of(sys.stdout)
    inputs = {
        "input": options.input or descriptor_of(sys.stdin),
        "file of prefixes": options.prefix,
        "glossary": options.glossary,
    }
    return [
        f"{options.output or 'Standard output'} is the {name}. Choose another file for the output."
        for name, path in inputs.items()
        if output is not None and path is not None and is_same_file(output, path)
    ]


def _has_a_line_for_each(output: Path, options: argparse.Namespace) -> bool:
    """Whether an output has as many lines as the input."""
    from ..data.sources.text_files import iterate_lines

    written = iterate_lines(output, lambda *_: None)
    return sum(1 for _ in written) == sum(1 for _ in _texts(options, lambda *_: None))


def option_errors(options: argparse.Namespace) -> list[str]:
    """An error for each combination of options that is not allowed."""
    errors = []

    def given(*names: str) -> str:
        return ", ".join(f"--{name}" for name in names if getattr(options, name))

    if options.format == "text" and (names := given("n_best", "scores", "confidence", "alignments")):
        errors.append(f"{names}: text has only one translation per line. Add --format jsonl.")
    if options.ensemble and options.confidence:
        errors.append("--confidence is calibrated for a single model and cannot be combined with --ensemble.")
    if options.ensemble and options.alignments:
        errors.append("--alignments come from the attention of a single model and cannot be combined with --ensemble.")
    if options.mbr:
        if names := given("num_beams", "length_penalty", "sample", "scores", "confidence", "alignments", "prefix"):
            errors.append(f"{names} cannot be combined with --mbr, which ranks samples by their expected utility.")
    elif options.samples:
        errors.append("--samples needs --mbr chrf or --mbr bleu.")
    if options.rerank_with and (names := given("mbr", "sample")):
        errors.append(f"{names} cannot be combined with --rerank_with, which chooses among a beam's translations.")
    errors += reranking_errors(options)
    if options.via or options.second_model:
        errors += _chain_errors(options)
    if options.glossary and (names := given("mbr", "sample")):
        errors.append(f"{names} cannot be combined with --glossary, whose terms are searched for with beams.")
    if options.keep and options.mbr:
        errors.append("--keep cannot be combined with --mbr.")
    if options.glossary or options.keep:
        collect_errors(errors, partial(translator_settings, options))
    elif options.on_missing_term:
        errors.append("--on_missing_term is for the terms of a --glossary and for --keep.")
    if options.sample and (names := given("num_beams", "length_penalty")):
        errors.append(f"{names}: these are options of search, which --sample replaces.")
    if options.samples == 1:
        errors.append("--samples must be 2 or more: --mbr chooses among them.")
    if options.prefix and options.split_sentences:
        errors.append(
            "--prefix and --split_sentences cannot be combined: it is unknown which piece the prefix belongs to."
        )
    most, name = (options.samples or 32, "samples") if options.mbr else (options.num_beams, "num_beams")
    if options.n_best and most and options.n_best > most:
        errors.append(f"--n_best {options.n_best} is more than --{name} {most}.")
    return errors


def _chain_errors(options: argparse.Namespace) -> list[str]:
    """An error for each option that cannot be combined with a translation over a third language."""
    how = "--second_model" if options.second_model else "--via"
    reasons = {
        "alignments": "over a third language, source and translation have no alignments",
        "rerank_with": "it ranks the translations of a single model",
    }
    return [
        f"--{name} cannot be combined with {how}: {reason}." for name, reason in reasons.items()
        if getattr(options, name)
    ]  # fmt: skip


def translator_settings(options: argparse.Namespace) -> "TranslatorSettings":
    """The models that translate and their settings, from the options."""
    from ..data.glossary_files import read_glossary
    from ..text.keep_patterns import keep_patterns
    from ..translator.translator_settings import TranslatorSettings

    pair = options.source_language, options.target_language
    spoken = languages(options) | ({"via": options.via} if options.via else {})
    arguments = {
        **{name: value for name, value in translation_options(options).items() if name not in spoken},
        "terms": read_glossary(options.glossary, pair) if options.glossary else None,
        "keep": keep_patterns(options.keep) if options.keep else None,
        "utility": options.mbr,
        "samples": options.samples,
        "seed": options.seed,
        "num_beams": options.num_beams,
        "length_penalty": options.length_penalty,
        "max_new_tokens": options.max_new_tokens,
    }
    if options.sample:
        arguments |= {"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 1.0, "temperature": options.sample}
    models = (options.model, *options.ensemble)
    reranking = options.rerank_with, options.rerank_weight
    return TranslatorSettings(
        models, options.dtype, options.quantize, options.engine or "auto", spoken, arguments, *reranking,
        options.second_model,
    )  # fmt: skip


def _translator(options: argparse.Namespace) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase, LineTranslator]":
    """Load the model and its tokenizer, and make the translator."""
    settings = translator_settings(options)
    if size := _input_size(options):
        settings = replace(settings, expected_bytes=size)
    with option_names():
        translate = settings.open(bool(options.prefix))
    return translate.translator.model, translate.translator.tokenizer, translate


def _input_size(options: argparse.Namespace) -> int:
    """The size of the input in bytes, if it is a file that is not compressed; else 0."""
    path = Path(options.input or "")
    return path.stat().st_size if path.is_file() and path.suffix.lower() not in (".gz", ".zst") else 0


def _name(options: argparse.Namespace) -> str:
    return options.input or "standard input"


def _lines(options: argparse.Namespace, reports: LineReports) -> "tuple[Iterator[Line], Callable[[], bool]]":
    """The lines of the input, and a function that tells whether the next one has not arrived yet."""
    from ..data.sources.text_files import iterate_lines
    from ..translator.lines import Line

    texts = _texts(options, reports.of(_name(options)))
    is_waiting = getattr(texts, "is_waiting", lambda: False)
    if not options.prefix:
        return map(Line, texts), is_waiting
    return _with_prefixes(texts, iterate_lines(options.prefix, reports.of(options.prefix)), options), is_waiting


def _texts(options: argparse.Namespace, report: Callable[[int, str], None]) -> Iterator[str]:
    """The lines of the input file, or of standard input."""
    from ..data.sources.text_files import iterate_lines
    from ..translator.lines import IncomingLines

    if options.pairs:
        return (text for text, _ in iterate_texts(options))
    if options.input:
        return iterate_lines(options.input, report)
    return IncomingLines(sys.stdin.buffer, "standard input", report)


def _with_prefixes(texts: Iterator[str], prefixes: Iterator[str], options: argparse.Namespace) -> "Iterator[Line]":
    from ..translator.lines import Line

    for number, (text, prefix) in enumerate(zip_longest(texts, prefixes)):
        if text is None or prefix is None:
            shorter = _name(options) if text is None else options.prefix
            raise InputError(
                f"{shorter} ends after {counted(number, 'line')}: input and --prefix must have the same number "
                "of lines."
            )
        yield Line(text, prefix)


def _count_lines(path: str | None) -> int | None:
    """The number of lines of an uncompressed file, to show the time left on a terminal; `None` elsewhere."""
    if path is None or not sys.stderr.isatty():
        return None
    if not Path(path).is_file() or Path(path).suffix.lower() in (".gz", ".zst"):
        return None
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))

"""`hf-vaswani evaluate`: scores translations by models or from files, and tests whether one system beats another."""

import argparse
import json
import re
import sys
from dataclasses import asdict
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, counted
from ..files import InputPath, atomic_write, collect_errors, is_same_file, writing
from .options import (
    INPUT_FILE,
    INPUT_FILES,
    MODEL,
    OUTPUT_FILE,
    add_language_options,
    add_ranking_options,
    add_reference_option,
    add_speed_options,
    check_language_options,
    languages,
    option_names,
    reranking_errors,
    search,
    seed,
    speed,
    up_to,
)
from .reports import write_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..evaluation.alignment_error import AlignmentScore, GoldAlignment
    from ..evaluation.markup import MarkupScore
    from ..evaluation.terms import TermScore
    from ..translator.backends.selection import BackendSelection
    from ..translator.reranking import Reranker

USAGE = """hf-vaswani evaluate MODEL --source FILE --reference FILE [options]
       hf-vaswani evaluate --hypotheses FILE --reference FILE [options]
       hf-vaswani evaluate --hypotheses BASELINE FILE ... --reference FILE [options]"""
DESCRIPTION = (
    "Score translations with sacreBLEU and show its signatures. Of several systems, the first is the baseline, and "
    "the others are compared with it by paired bootstrap resampling; models come before files of translations."
)
# Not taken from sacreBLEU, whose import would slow down every command.
GLOSSARY = """\
also count how many of these terms the translations use, out of those in the --source: .tsv, .csv or .tbx, as for
hf-vaswani translate, which alone puts terms into translations"""
GOLD_ALIGNMENTS = """\
also compare the models' alignments of the source with the first reference with these, line by line: links of words,
0-0 1-2, or 0p1 if only possible (alignment error rate)"""
MARKUP = """\
the lines of all files have inline XML: models translate them as documents, scores ignore the tags, and lines with
valid markup and with the reference's tree are counted, too"""
METRIC_NAMES = ("bleu", "chrf", "ter")
# Below this BLEU, translations and references have next to nothing in common.
MEANINGLESS = 1
# Options that have no effect on files of translations.
FOR_MODELS = (
    "source", "output", "overwrite", "num_beams", "length_penalty", "rerank_with", "batch_size", "num_workers",
    "engine", "quantize", "source_language", "gold_alignments",
)  # fmt: skip


def add_parser(commands: argparse._SubParsersAction) -> None:
    evaluate = commands.add_parser(
        "evaluate", help="score translations of a test set, compare systems", usage=USAGE, description=DESCRIPTION
    )
    models = evaluate.add_argument("models", type=InputPath, nargs="+", default=[], metavar="MODEL", help=MODEL)
    models.required = False  # nargs="*" would miss models that follow an option
    evaluate.add_argument("--source", **INPUT_FILE, help="source sentences for models to translate")
    several = {"action": "extend", "default": []}
    evaluate.add_argument("--hypotheses", **INPUT_FILES, **several, help="translations, one file for each system")
    add_reference_option(evaluate, required=True)
    evaluate.add_argument("--glossary", **INPUT_FILE, help=GLOSSARY)
    evaluate.add_argument("--markup", action="store_true", help=MARKUP)
    evaluate.add_argument("--gold_alignments", **INPUT_FILE, help=GOLD_ALIGNMENTS)
    evaluate.add_argument(
        "--output",
        **OUTPUT_FILE,
        **several,
        nargs="+",
        help="write the models' translations to these files, one for each model; also .gz .zst",
    )
    evaluate.add_argument("--overwrite", action="store_true", help="replace existing output files")
    evaluate.add_argument(
        "--format", choices=("text", "json"), default="text", help="json: all results (default: text)"
    )
    _add_metric_options(evaluate.add_argument_group("metrics, as in the sacrebleu command"))
    _add_bootstrap_options(evaluate.add_argument_group("bootstrap"))
    add_ranking_options(evaluate)
    add_speed_options(evaluate)
    add_language_options(evaluate)
    evaluate.set_defaults(run=run, saves_memory="Lower --batch_size or --num_workers.")


def _add_metric_options(group) -> None:
    group.add_argument(
        "--metrics", nargs="+", choices=METRIC_NAMES, default=list(METRIC_NAMES), help="what to compute (default: all)"
    )
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="BLEU's tokenizer: 13a, none, intl, zh, char, ... (default: the one for the target language)",
    )
    group.add_argument(
        "--lowercase",
        action=argparse.BooleanOptionalAction,
        help="BLEU of lowercased text (default: BLEU and chrF, if a model writes no capitals)",
    )
    group.add_argument("--force", action="store_true", help="do not warn about text that looks tokenized")
    group.add_argument(
        "--chrf_word_order",
        type=int,
        choices=range(3),
        default=0,
        help="order of chrF's word n-grams; 2 is chrF++ (default: %(default)s)",
    )
    group.add_argument("--sentences", action="store_true", help="also score each sentence; needs --format json")


def _add_bootstrap_options(group) -> None:
    group.add_argument("--confidence", action="store_true", help="95%% confidence intervals, even for one system")
    group.add_argument(
        "--resamples", type=up_to(100000), default=1000, metavar="N", help="number of resamples (default: %(default)s)"
    )
    group.add_argument(
        "--seed",
        type=seed,
        default=12345,
        metavar="N",
        help="random seed of the resamples (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> None:
    from ..data.glossary_files import read_glossary
    from ..data.sources.text_files import line_errors, read_lines
    from ..evaluation.alignment_error import read_gold_alignments
    from ..evaluation.markup import check_structures, score_markup, without_markup
    from ..evaluation.score import make_metrics, scores, sentence_scores
    from ..evaluation.seed_bootstrap import bootstrap
    from ..evaluation.terms import score_terms
    from ..models.load import load
    from .text_warnings import score_arguments, score_warnings

    errors = _option_errors(options) + _output_errors(options)
    selections = collect_errors(errors, partial(_selections, options)) or []
    collect_errors(errors, lambda: make_metrics(options.metrics, **score_arguments(options, [])))
    pair = options.source_language, options.target_language
    glossary = collect_errors(errors, lambda: options.glossary and read_glossary(options.glossary, pair))
    paths = [*options.reference, *options.hypotheses, *([options.source] if options.source else [])]
    texts = {path: collect_errors(errors, partial(read_lines, path)) for path in paths}
    errors += line_errors(options.reference[0], texts)
    if options.markup and not errors:
        for path in filter(None, [options.source, *options.reference]):
            collect_errors(errors, partial(check_structures, path, texts[path]))
    gold = None
    if options.gold_alignments and options.source and not errors:
        pairs = texts[options.source], texts[options.reference[0]]
        gold = collect_errors(errors, lambda: read_gold_alignments(options.gold_alignments, *pairs))
    errors += [
        f"{path} has JSON records of hf-vaswani translate. Translate with --format text, one translation per line."
        for path in options.hypotheses
        if (lines := texts[path]) and re.match(r'{"source": .*"translations": \[', lines[0])
    ]
    models = [collect_errors(errors, partial(load, name)) for name in options.models if not Path(name).is_file()]
    for model in filter(None, models):
        collect_errors(errors, partial(check_language_options, options, *model))
    if gold:
        errors += [
            f"--gold_alignments needs attention weights, which {model[0].engine_name} does not return: {name}. Name "
            "the original model."
            for name, model in zip(options.models, models)
            if model and hasattr(model[0], "engine_name")
        ]
    for selection, model in zip(selections, models):
        collect_errors(errors, partial(_check_engine, selection, model))
    reranker = collect_errors(errors, lambda: _reranker(options, list(filter(None, models))))
    if errors:
        raise InputError.of(errors)

    settings = score_arguments(options, models)
    tagged = texts
    if options.markup:
        texts = {path: list(map(without_markup, lines)) for path, lines in texts.items()}
    references = [texts[path] for path in options.reference]
    for warning in score_warnings(options, models, settings, texts):
        print(warning, file=sys.stderr)
    systems = _translate(models, selections, reranker, tagged.get(options.source), options)
    systems += [tagged[path] for path in options.hypotheses]
    markup: list[MarkupScore | None] = [None] * len(systems)
    if options.markup:
        tokenize = settings["bleu"]["tokenize"]
        markup = [score_markup(lines, [tagged[path] for path in options.reference], tokenize) for lines in systems]
        systems = [list(map(without_markup, lines)) for lines in systems]
    if options.confidence or len(systems) > 1:
        results = bootstrap(systems, references, options.metrics, options.resamples, options.seed, **settings)
    else:
        results = [scores(systems[0], references, options.metrics, **settings)]
    if any(score.name == "BLEU" and score.value < MEANINGLESS for system in results for score in system):
        print(
            f"hint: a BLEU below {MEANINGLESS} says nothing. Does line n of the references translate line n of the "
            "source? Are source and target swapped? Is the model of these languages, and trained long enough?",
            file=sys.stderr,
        )
    names = options.models + options.hypotheses
    judges = [*models, *[next(iter(models), (None, None))] * len(options.hypotheses)]
    terms = [
        score_terms(glossary, texts[options.source], hypotheses, references, *judge, **languages(options))
        if glossary else None
        for hypotheses, judge in zip(systems, judges)
    ]  # fmt: skip
    alignments = [_alignment_score(model, gold, texts, options) if gold else None for model in models]
    alignments += [None] * len(options.hypotheses)
    if options.format == "text":
        print("\n".join([_text(names, results), *_lines(names, terms), *_lines(names, markup),
                         *_lines(names, alignments)]))  # fmt: skip
        return
    sentences = [
        sentence_scores(hypotheses, references, options.metrics, **settings) if options.sentences else None
        for hypotheses in systems
    ]
    engines = [_engine(selection) for selection in selections] + [{}] * len(options.hypotheses)
    record = _json(names, options.reference, engines, results, sentences, terms, markup, alignments)
    write_result(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _option_errors(options: argparse.Namespace) -> list[str]:
    errors = []
    if not options.models and not options.hypotheses:
        errors.append("Nothing to evaluate. Specify a model, before all options, or files with --hypotheses.")
    errors += [
        f"{name} is a file, not a model. Specify files of translations with --hypotheses."
        for name in options.models
        if Path(name).is_file()
    ]
    if not options.source and not all(Path(name).is_file() for name in options.models):
        errors.append("A model needs text to translate. Specify its file with --source.")
    if not options.models:
        errors += [
            f"--{name} is for models, and none is given. Specify one, before all options, or omit --{name}."
            for name in FOR_MODELS
            if getattr(options, name) and not (options.glossary and name.startswith("source"))
        ]
    if options.markup and options.gold_alignments:
        errors.append("--gold_alignments are of text without tags. Leave out --markup.")
    if options.glossary and not options.source:
        errors.append("--glossary needs --source, in which its terms occur.")
    errors += reranking_errors(options)
    if options.sentences and options.format != "json":
        errors.append("--sentences needs --format json.")
    return errors


def _output_errors(options: argparse.Namespace) -> list[str]:
    from ..data.resumable_output import output_error

    paths, errors = options.output, []
    if options.models and paths and len(paths) != len(options.models):
        names = f"{counted(len(paths), 'file')} for {counted(len(options.models), 'model')}"
        errors.append(f"--output names {names}. Specify one for each.")
    read = [path for path in (options.source, *options.reference, *options.hypotheses) if path]
    for number, path in enumerate(paths):
        if any(is_same_file(path, same := other) for other in (*read, *paths[:number])):
            errors.append(f"--output {path} is the same file as {same}. Choose another.")
        elif error := output_error(path):
            errors.append(error)
        elif Path(path).exists() and not options.overwrite:
            errors.append(f"{path} already exists. Choose another file, or replace it with --overwrite.")
    return errors


def _reranker(options: argparse.Namespace, models: list) -> "Reranker | None":
    """The reranker for the translations of all models, or `None`."""
    from ..text.languages import language_pairs
    from ..translator.reranking import open_reranker

    if not (options.rerank_with and options.models):
        return None
    translated = [language_pairs(model, tokenizer) for model, tokenizer in models]
    return open_reranker(options.rerank_with, options.rerank_weight, translated, languages(options))


def _selections(options: argparse.Namespace) -> "list[BackendSelection]":
    """The choice of an engine for each model; an `InputError` if that is not installed."""
    from ..translator.backends.selection import BackendSelection

    with option_names():
        return [BackendSelection(options.engine or "auto", options.quantize) for _ in options.models]


def _check_engine(selection: "BackendSelection", model: "tuple | None") -> None:
    """Raise an `InputError` if the engine that was requested cannot compute a model."""
    if model:
        with option_names():
            selection.check(model[0])


def _engine(selection: "BackendSelection") -> dict[str, str]:
    """The engines that computed a model's translations, by the names of the options."""
    quantized = {"quantize": selection.quantize} if selection.quantize else {}
    return {"engine": ", ".join(sorted(selection.used)), **quantized}


def _translate(
    models: list,
    selections: "list[BackendSelection]",
    reranker: "Reranker | None",
    sources: list[str] | None,
    options: argparse.Namespace,
) -> list[list[str]]:
    """Translate with each model, and write its translations as soon as they are complete."""
    from ..translator.documents import translate_markup
    from ..translator.lines import write_translations
    from ..translator.pipeline import translate

    systems = []
    for (model, tokenizer), selection, path in zip_longest(models, selections, options.output):
        settings = {**search(options), **languages(options), **speed(options), "reranker": reranker}
        settings |= {"engine": selection, "quantize": None, "zero_shot": options.zero_shot}
        translated = partial(
            translate, model, tokenizer, batch_size=options.batch_size, show_progress=True, **settings
        )
        with option_names():
            if options.markup:
                systems.append(translate_markup(model, tokenizer, sources, translated, **languages(options)))
            else:
                systems.append(translated(sources))
        if path:
            with writing(path), atomic_write(Path(path).resolve()) as part:
                write_translations(part, systems[-1], path)
    return systems


def _alignment_score(
    model: tuple, gold: "list[GoldAlignment]", texts: dict[str, list[str]], options: argparse.Namespace
) -> "AlignmentScore":
    """How a model's alignments of the source with the first reference compare with gold alignments."""
    from ..evaluation.alignment_error import score_alignments
    from ..translator.pairs import align_pairs

    pairs = list(zip(texts[options.source], texts[options.reference[0]]))
    found = align_pairs(*model, pairs, **languages(options))
    if too_long := found.count(None):
        print(f"warning: {counted(too_long, 'pair')} too long to be aligned: without links.", file=sys.stderr)
    return score_alignments([links or set() for links in found], gold)


def _text(names: list[str], results: list[list]) -> str:
    """The results as text: a line per score for one system; a table and the signatures for several."""
    from ..evaluation.seed_bootstrap import SIGNIFICANT

    if len(results) == 1:
        return "\n".join(str(score) for score in results[0])
    table = [["", *(score.name for score in results[0])]]
    for name, scores in zip(names, results):
        cells = [f"{score.value:.2f} ± {score.ci:.2f}" for score in scores]
        if table[1:]:
            marks = ["*" if score.p_value < SIGNIFICANT else " " for score in scores]
            cells = [f"{cell}  p={score.p_value:.4f}{mark}" for cell, score, mark in zip(cells, scores, marks)]
        table.append([name, *cells])
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    lines += [
        "",
        "±: half of the 95% confidence interval",
        f"p: paired bootstrap against {names[0]}; * below {SIGNIFICANT}",
        *(f"{score.name}: {score.signature}" for score in results[0]),
    ]
    return "\n".join(lines)


def _lines(names: list[str], scores: "Sequence[TermScore | MarkupScore | AlignmentScore | None]") -> list[str]:
    """A line for each system that has such a score, with its name if there are several."""
    found = [(name, score) for name, score in zip(names, scores) if score is not None]
    return [f"{name}: {score}" if len(names) > 1 else str(score) for name, score in found]


def _json(
    names: list[str],
    references: list[str],
    engines: list[dict[str, str]],
    results: list[list],
    sentences: list,
    terms: "list[TermScore | None]",
    markup: "list[MarkupScore | None]",
    alignments: "list[AlignmentScore | None]",
) -> dict:
    """All results in full precision, with the engine that computed the translations of models."""
    systems = []
    columns = zip(names, engines, results, sentences, terms, markup, alignments)
    for name, engine, scores, each, found, structure, aligned in columns:
        systems.append({"system": name, **engine, "scores": [_score(score) for score in scores]})
        if each is not None:
            systems[-1]["sentences"] = [
                {"name": score.name, "signature": score.signature, "scores": score.values} for score in each
            ]
        if found is not None:
            shares = {name: getattr(found, name) for name in ("share", "share_in_reference", "share_placed")}
            systems[-1]["terms"] = asdict(found) | shares
        if structure is not None:
            systems[-1]["markup"] = asdict(structure)
        if aligned is not None:
            systems[-1]["alignment"] = asdict(aligned)
    return {"references": references, "systems": systems}


def _score(score) -> dict:
    values = {name: value for name, value in asdict(score).items() if value is not None}
    return {("score" if name == "value" else name): value for name, value in values.items()}

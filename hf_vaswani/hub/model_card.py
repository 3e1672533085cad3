"""The model card of a trained model, written from measurements only: every number comes from a run.

The frame is `model_card_template.md`; this module makes its values from the recipe and the run's report. Whatever is
not made as [`Markdown`] is escaped where it is filled in, so that it shows as plain text (`markdown.py`).
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import quote

import jinja2
import yaml
from huggingface_hub import ModelCardData

from ..backends import backend_title
from ..cleaning.repairs import SHOWN as REPAIRED
from ..cleaning.rules import REASONS
from ..configuration.keys import Keys, Sections
from ..errors import counted
from ..ledger import Provenance
from ..records.run_report import RunReport, Source
from .card_wording import (
    duration,
    energy,
    mbr_search,
    optimization,
    regularization,
    scientific,
    search_name,
    tokenizer_words,
)
from .markdown import (
    Markdown,
    code,
    direction_words,
    fenced,
    in_html,
    plain,
    several_targets,
    table,
    usage_code,
)
from .metadata import HUB_METRICS, hub_languages, known_languages, metadata, test_title
from .repository import file_names

TEMPLATE = Path(__file__).with_name("model_card_template.md")
# How many attention figures a card shows, and the names of those that say most.
MOST_FIGURES = 4
# Candidates of minimum Bayes risk decoding if a command does not name a number.
DEFAULT_SAMPLES = 32
CROSS_ATTENTION = re.compile(r"_cross(_layer_\d+)?\.png$")


def card_text(
    name: str,
    recipe: Sections,
    report: RunReport,
    shared_recipe: Sections,
    figures_in: str = "",
    *,
    falls_to_end: bool,
) -> str:
    """A model card: metadata in YAML and text in Markdown.

    Args:
        name: the model's name.
        recipe: the recipe's sections, as `Recipe.to_dict()` returns them.
        report: the run's report.
        shared_recipe: the recipe that the card shows.
        figures_in: folder of the figures, relative to the card; "" for the card's own folder.
        falls_to_end: whether the learning rate depends on `max_steps`, as it decays until then.
    """
    # Values are not templates: braces in them stay as they are.
    recipe_file = yaml.safe_dump(shared_recipe, sort_keys=False, allow_unicode=True).strip()
    made = report.provenance()
    # Without the run itself, which the recipe describes.
    provenance = made.model_copy(update={"settings": {}, "results": {}})
    text = _template().render(
        metadata=Markdown(metadata(name, recipe, report).to_yaml()),
        name=name,
        summary=_summary(recipe, report),
        usage=_usage(name, report),
        without_the_package=Markdown(without_the_package(report.class_name)),
        is_tokenized=_is_tokenized(recipe),
        scores=_scores(recipe, report),
        signatures=_signatures(report),
        engines=_engines(report),
        terms=_terms(recipe, report),
        unreachable=_unreachable(recipe, report),
        report=report,
        texts=_texts(recipe, report),
        filters=_filters(report),
        cleaned=_cleaned(report),
        text_license=recipe["data"].get("license"),
        model_license=recipe["training"].get("license"),
        tokenizer=tokenizer_words(recipe, report),
        optimization=optimization(recipe["training"], report.processes),
        regularization=regularization(recipe, report),
        energy=energy(report),
        earlier=_earlier(made),
        total_seconds=report.seconds + sum(before.seconds for _, before in made.earlier()),
        start=file_names(recipe["training"]["start_from"]),
        replayed=next((name for name, _ in made.replayable()), None),
        teacher=_teacher(report),
        has_moving_average=bool(recipe["training"]["ema_decay"]),
        analysis=report.analysis,
        tested=_tested(recipe, report),
        max_length_offset=recipe["generation"]["max_length_offset"],
        again=reproduce_command(recipe["training"], report, falls_to_end),
        recipe=fenced(recipe_file, "yaml"),
        trail=fenced(report.trail.shown().to_json().strip(), "json") if report.trail else None,
        provenance=fenced(provenance.to_json(), "json") if report.inputs else None,
        **_figures(report.figures, figures_in),
    )
    return text.encode("utf-8", "replace").decode()


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=plain,
    )
    environment.filters |= {"code": code, "html": in_html, "markdown": Markdown}
    environment.filters |= {"number": "{:,}".format, "duration": duration, "scientific": scientific}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def _summary(recipe: Sections, report: RunReport) -> str:
    pairs = report.pairs["train"]
    direction = direction_words(known_languages(recipe, report), report.directions) or "from one language to another"
    start = recipe["training"]["start_from"]
    origin = f"fine-tuned from {plain(file_names(start))}" if start else "trained from scratch"
    if earlier := list(report.provenance().earlier()):
        commands = f"by {len(earlier) + 1} commands"
        is_own = not start or report.has_made("training.start_from")
        origin = f"trained {commands}" if is_own else f"{origin}, {commands}"
    part = f"{report.epochs:.2g} epochs of " if _saw_a_part(report) else ""
    size = f" on {part}{counted(pairs, 'sentence pair')}" if pairs else ""
    size += f" of {plain(report.text)}" if size and report.text else ""
    return Markdown(
        f"Translates single sentences {direction}. An encoder–decoder Transformer ([Vaswani et al. "
        f"2017](https://arxiv.org/abs/1706.03762)) of {report.parameters:,} parameters, {origin}{size} with "
        "`hf_vaswani`."
    )


def _usage(name: str, report: RunReport) -> str:
    example = report.analysis and report.analysis.example
    target = next(iter(several_targets(report.directions)), None)
    shown = (example.source, example.translation) if example else ()
    return fenced(usage_code(name, *shown, target=target), "python")


def _is_tokenized(recipe: Sections) -> bool:
    """Whether the text was already tokenized, so that BLEU counts its own tokens."""
    return recipe["evaluation"]["tokenize"] == "none"


def _scores(recipe: Sections, report: RunReport) -> str:
    beams = recipe["generation"]["num_beams"]
    rows = []
    for name, scores in report.tests.items():
        sentences = scores.sentences or (report.pairs["test"] if name == "test" else None)
        searches = {"": search_name(beams), **({"greedy_": search_name(1)} if beams > 1 else {})}
        if scores.mbr_bleu is not None:
            searches["mbr_"] = mbr_search(recipe["evaluation"]["mbr"], recipe["evaluation"]["samples"])
        if scores.reranked_bleu is not None:
            evaluation = recipe["evaluation"]
            other = file_names(evaluation["rerank_with"])
            searches["reranked_"] = f"beam {evaluation['rerank_beams']}, reranked by {other}"
        if scores.glossary_bleu is not None:
            searches["glossary_"] = f"{search_name(beams)}, terms of {file_names(recipe['evaluation']['glossary'])}"
        for prefix, search in searches.items():
            values = [getattr(scores, prefix + key) for key in HUB_METRICS]
            if values[0] is not None:
                cells = [test_title(name, recipe, report), f"{sentences:,}" if sentences else "–", search]
                rows.append([*cells, *("–" if value is None else f"{value:.2f}" for value in values)])
    rows += _means(report, beams)
    return table(["test set", "sentences", "search", "BLEU", "chrF2"], rows) if rows else ""


def _means(report: RunReport, beams: int) -> list[list[str]]:
    """A row of the table of scores with the means of all directions, if there are several."""
    names = ["-".join(map(str, pair)) for pair in report.directions]
    found = [report.tests[name] for name in names if name in report.tests]
    if len(found) < 2 or len(found) < len(names):
        return []
    columns = ([getattr(scores, key) for scores in found] for key in HUB_METRICS)
    means = ["–" if None in values else f"{sum(values) / len(values):.2f}" for values in columns]
    sizes = [scores.sentences for scores in found]
    return [
        [f"mean of {len(found)} directions", "–" if None in sizes else f"{sum(sizes):,}", search_name(beams), *means]
    ]


def _signatures(report: RunReport) -> list[tuple[str, str]]:
    found = [
        (title, signature)
        for key, (_, title) in HUB_METRICS.items()
        for scores in report.tests.values()
        if (signature := getattr(scores, f"{key}_signature"))
    ]
    return list(dict.fromkeys(found))


def _engines(report: RunReport) -> str:
    """The engines that computed the translations that were scored; empty if the report does not name them."""
    keys = dict.fromkeys(scores.engine for scores in report.tests.values() if scores.engine)
    return " and ".join(map(backend_title, keys))


def _terms(recipe: Sections, report: RunReport) -> str:
    """How many terms of the glossary each test set's translations have; empty without a glossary."""
    return "; ".join(
        f"{plain(test_title(name, recipe, report))}, {shares.found:,} of {shares.in_sources:,} without the glossary, "
        f"{shares.found_with_glossary:,} with it"
        for name, scores in report.tests.items()
        if (shares := scores.terms)
    )


def _unreachable(recipe: Sections, report: RunReport) -> str:
    """How many references of each test set the model cannot write, and why; may be empty."""
    found = {test_title(name, recipe, report): scores.unreachable or {} for name, scores in report.tests.items()}
    causes = {
        name: ", ".join(f"{count:,} with {cause}" for cause, count in counts.items()) for name, counts in found.items()
    }
    return "; ".join(f"{plain(name)}, {plain(words)}" for name, words in causes.items() if words)


def _texts(recipe: Sections, report: RunReport) -> str:
    rows = []
    for split, number in report.pairs.items():
        if number == 0:
            continue
        sources = report.sources.get(split)
        share = recipe["data"].get(f"{split}_share")
        held_out = f"{100 * share:g}% of the text, held out at random" if share else "–"
        origin = Markdown("; ".join(map(_origin, sources))) if sources else held_out
        rows.append([split, origin, f"{number:,}" if number else "streamed"])
    return table(["split", "from", "pairs"], rows)


def _origin(source: Source) -> str:
    weight = ", reversed" if source.reversed else ""
    weight += f", weight {source.weight:g}" if source.weight else ""
    if source.files is not None:
        return ", ".join(map(plain, source.files)) + weight
    name = source.dataset
    words = f"[{plain(name)}](https://huggingface.co/datasets/{quote(name)})" if source.on_hub else plain(name)
    if name == "built-in":
        words = "the corpus of `hf_vaswani`, made from a grammar"
    details = [plain(value) for value in (source.config, source.split, source.revision) if value]
    return ", ".join([words, *details]) + weight


def _saw_a_part(report: RunReport) -> bool:
    """Whether training ended within its first epoch."""
    return bool(report.epochs and report.epochs < 1)


def _filters(report: RunReport) -> str:
    """What was left out of the training text, and what was found in it but kept."""
    counts, kept = report.filters, report.pairs["train"]
    if not counts:
        return "The number of training pairs that were left out was not counted."
    found = [error for error in report.pair_errors if error.pairs]
    words = [
        ", ".join(f"{error.pairs:,} {error.meaning}" for error in found if error.left_out is left_out)
        for left_out in (True, False)
    ]
    read = f"Read before the first epoch or the run ended: {counted(counts['pairs'], 'training pair')}."
    if kept is not None:
        read = f"Of {counted(counts['pairs'], 'training pair')} read, {kept:,} are trained on"
        read += "; training ended before it had seen them all." if _saw_a_part(report) else "."
    return (
        read
        + (f" Left out: {words[0]}." if words[0] else " Nothing was left out.")
        + (f" Kept: {words[1]}." if words[1] else "")
    )


def _cleaned(report: RunReport) -> str:
    """What `hf-vaswani clean` did to the training text; empty if it did nothing, or if that is unknown."""
    parts = []
    for text in report.cleaned:
        words = [
            f"`hf-vaswani clean` made it from {', '.join(map(plain, text.sources))}: of "
            f"{counted(text.read, 'pair')}, {text.kept:,} were kept."
        ]
        for what, counts, meanings in (("Left out", text.reasons, REASONS), ("Repaired", text.repairs, REPAIRED)):
            found = sorted(counts.items(), key=lambda item: -item[1])
            shown = "; ".join(f"{count:,}, {plain(meanings.get(name, name))}" for name, count in found)
            words += [f"{what}: {shown}."] if shown else []
        parts.append(" ".join(words))
    return Markdown("\n\n".join(parts))


def _earlier(run: Provenance) -> str:
    """A table of what was made before a run; empty if nothing was, or if that is unknown."""
    rows = [
        [name, _in_words(_what_was_done, made), _in_words(_what_came_of_it, made), duration(made.seconds)]
        for name, made in run.earlier()
    ]
    return table(["product", "made by", "result", "time"], rows) if rows else ""


def _in_words(describe: Callable[[Provenance], str], made: Provenance) -> str:
    try:
        return describe(made)
    except (AttributeError, KeyError, TypeError, ValueError):  # it is as another program or version wrote it
        return "–"


def _what_was_done(made: Provenance) -> str:
    names: dict[str, str] = {}
    for source in made.inputs:
        names[source.role] = f"{names[source.role]} + {source.name}" if source.role in names else source.name
    if made.command == "train":
        data = made.settings.get("data", {})
        text = data.get("text") or ["own"]
        weights = [f"{name} {weight:g}" for name, weight in text.items()] if isinstance(text, dict) else text
        words = f"training on {', '.join(weights)}" + (", reversed" if data.get("reversed") else "")
        for role, how in (("training.start_from", "from"), ("training.distill_from", "distilling")):
            words += f", {how} {names[role]}" if role in names else ""
        return words
    if made.command == "translate":
        settings = made.settings
        return (
            f"{names.get('model')} translates {names.get('input')}, {settings.get('side')} side: {_search(settings)}"
        )
    return f"mean of {names.get('model')}"


def _search(settings: Keys) -> str:
    """The search of a command that translated, in words."""
    if settings.get("mbr"):
        words = mbr_search(settings["mbr"], settings.get("samples") or DEFAULT_SAMPLES)
    elif settings.get("sample"):
        words = f"samples at temperature {settings['sample']:g}"
    else:
        beams = settings.get("num_beams")
        words = search_name(beams) if beams else "the model's own search"
    best, closest = settings.get("n_best", 1), settings.get("keep_closest")
    words += f", {best} best" if best > 1 else ""
    return words + (f", of these the closest to the text's own ({closest})" if closest else "")


def _what_came_of_it(made: Provenance) -> str:
    found = made.results
    if made.command == "train":
        tests = found.get("tests", {})
        scores = [f"{name} {test['bleu']:.2f} BLEU" for name, test in tests.items() if test.get("bleu")]
        loss = f"validation loss {found['validation_loss']:.4f}"
        return "; ".join([f"{counted(found['steps'], 'step')}, {found['parameters']:,} parameters", loss, *scores])
    if made.command == "translate":
        reasons = ("failed", "repeated", "empty", "cut", "farther", "low")
        left_out = ", ".join(f"{found[why]:,} {why}" for why in reasons if found.get(why))
        pairs = f"{counted(found['pairs'], 'pair')} of {counted(found['lines'], 'line')}"
        return pairs + (f"; left out: {left_out}" if left_out else "")
    return "–"


def _teacher(report: RunReport) -> str:
    """A table that compares the final model with its teacher, and a summary in words; empty without a teacher."""
    found = report.teacher
    if found is None:
        return ""
    rows = []
    for who, parameters, of in (
        ("teacher: " + " + ".join(found.models), found.parameters, found.teacher),
        ("this model", report.parameters, found.student),
    ):
        scores = [f"{of.bleu:.2f}", f"{of.chrf2:.2f}", f"{of.sentences_per_second:,.1f}"]
        rows.append([who, f"{parameters:,}", of.search, *scores])
    ratio = found.student.sentences_per_second / found.teacher.sentences_per_second
    size = f" Its weights take {found.int8_bytes / 1e6:.2f} MB in 8 bits for CTranslate2." if found.int8_bytes else ""
    return Markdown(
        table(["", "parameters", "search", "BLEU", "chrF2", "sentences/s"], rows)
        + f"\n\nMeasured on {counted(found.sentences, 'sentence')} ({plain(found.test)}), one model after the other, "
        f"on the machine of the last run. This model is {ratio:.1f} times as fast. Its translations have "
        f"{found.agreement:.2f} BLEU against the teacher's.{size}"
    )


def _tested(recipe: Sections, report: RunReport) -> str | None:
    """The title of the test set that was analyzed, which is the first; `None` without any."""
    if report.analysis is None or not report.tests:
        return None
    return test_title(next(iter(report.tests)), recipe, report)


def reproduce_command(training: Keys, report: RunReport, falls_to_end: bool) -> str:
    """The command that trains the model again with the same steps, as far as there is one."""
    command, words = "hf-vaswani train recipe.yaml --output_dir FOLDER", ""
    processes, precision = report.processes or [], report.precision.partition(",")[0]
    if training["mixed_precision"] == "auto":
        # On another machine, "auto" may choose another precision.
        command += f" --mixed_precision {'no' if precision == 'fp32' else precision}"
    if training["max_minutes"] and report.seconds >= 60 * training["max_minutes"]:
        if falls_to_end:
            words = " The time limit ended this run, so it takes different steps on another machine."
        else:
            # The time limit ended the run, which another machine would reach after a different number of steps.
            command += f" --max_minutes null --max_steps {report.steps}"
    how = ""
    if len(processes) == 1 and processes[0] > 1:
        # One process makes the same steps as several if each of its steps has the forward passes of all of them.
        command += f" --gradient_accumulation_steps {training['gradient_accumulation_steps'] * processes[0]}"
        how = f", in one process instead of {processes[0]}"
    start = f", {plain(file_names(training['start_from']))}" if training["start_from"] else ""
    others = start + "".join(f", {plain(file_names(name))}" for name in training.get("distill_from") or [])
    return Markdown(f"{code(command)} with this file{others} and the text above trains the model again{how}.{words}")


def shown_figures(names: list[str]) -> list[str]:
    """The figures that a card shows: curves, then attention, with cross-attention first, as it says most."""
    attention = [name for name in names if not _is_of_curves(name)]
    attention.sort(key=lambda name: not CROSS_ATTENTION.search(name))
    return [name for name in names if _is_of_curves(name)] + attention[:MOST_FIGURES]


def _is_of_curves(name: str) -> bool:
    return Path(name).stem == "curves"


def _figures(names: list[str], folder: str) -> dict[str, list[object]]:
    """The figures of curves and of attention, with their paths relative to the card."""
    # Quoted, since Markdown ends an address at a space.
    paths = {name: Markdown(quote(f"{folder}/{name}" if folder else name)) for name in shown_figures(names)}
    return {
        "curves": [path for name, path in paths.items() if _is_of_curves(name)],
        "attention": [
            {"title": Path(name).stem.replace("_", " "), "path": path}
            for name, path in paths.items()
            if not _is_of_curves(name)
        ],
    }


def without_the_package(class_name: str | None) -> str:
    """How a model is loaded with transformers alone, in Markdown.

    Args:
        class_name: the model's class, if it is one of transformers' own.
    """
    if not class_name:
        return "Without the package, leave out its import and pass `trust_remote_code=True` to `pipeline`."
    loads = "`AutoModelForSeq2SeqLM` and `AutoTokenizer` of transformers load it without the package."
    return f"It is a {code(class_name)}: {loads}"


def unfinished_card(
    name: str,
    step: int,
    languages: list[str],
    license: str | None,
    is_adapter: bool = False,
    class_name: str | None = None,
) -> str:
    """A model card: metadata in YAML and text in Markdown.

    Args:
        name: the model's name on the Hub.
        step: optimizer steps done.
        languages: codes of the source and target languages that are known.
        license: the model's license, by its Hub identifier.
        is_adapter: whether the repository holds a PEFT adapter instead of a model.
        class_name: the model's class, if it is one of transformers' own.
    """
    metadata = ModelCardData(
        language=hub_languages(languages),
        license=license,
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag="translation",
        tags=[*([] if class_name else ["vaswani"]), "transformer", "encoder-decoder"],
    )
    return f"""\
---
{metadata.to_yaml()}
---

# {plain(name)}

A translation model that is still being trained with `hf_vaswani`: its weights after {counted(step, "step")}. The
finished model will have a full model card with scores.

## Use

{fenced(usage_code(name), "python")}

{without_the_package(class_name)}
"""

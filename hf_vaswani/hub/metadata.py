"""The metadata of a model card, which the Hub uses to find and show a model.

`license` is the model's, not its training text's; `datasets` are ids on the Hub, and so is `base_model`.
Specification: https://github.com/huggingface/hub-docs/blob/main/modelcard.md
"""

import re
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from ..configuration.keys import Sections
from ..records.run_report import RunReport, Source, TestScores
from ..text.languages import LANGUAGE
from .card_wording import emissions, search_name

LANGUAGE_KEYS = ("source_language", "target_language")
# The Hub's id of each metric, and its name.
HUB_METRICS = {"bleu": ("bleu", "BLEU"), "chrf2": ("chrf", "chrF2")}
COMMIT = re.compile("[0-9a-f]{40}")


def metadata(name: str, recipe: Sections, report: RunReport) -> ModelCardData:
    """A card's metadata, without what is not known.

    Args:
        name: the model's name.
        recipe, report: as in [`hf_vaswani.hub.model_card.card_text`].
    """
    training = recipe["training"]
    languages = known_languages(recipe, report)
    sources = [source for split in report.sources.values() for source in split]
    datasets = [source.dataset for source in sources if source.on_hub]
    scores = evaluations(recipe, report)
    # A merged adapter leaves nothing for PEFT to load.
    is_adapter = report.adapter is not None and not report.adapter.merged
    tags = [] if report.class_name else ["vaswani"]
    return ModelCardData(
        language=hub_languages(languages),
        license=training["license"],
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag="translation",
        tags=[*tags, "transformer", "encoder-decoder", *["lora", "transformers"] * is_adapter],
        base_model=report.base_model,
        **{"base_model_relation": "adapter"} if is_adapter and report.base_model else {},
        datasets=list(dict.fromkeys(datasets)) or None,
        co2_eq_emissions=emissions(recipe, report),
        metrics=list(dict.fromkeys(score.metric_type for score in scores)) or None,
        model_name=name if scores else None,
        eval_results=scores or None,
    )


def hub_languages(codes: list[str]) -> list[str] | None:
    """Language codes as the Hub expects them, without script and region; or `None`.

    A recipe's languages may also be column names, which are left out.
    """
    return [found[1].lower() for code in codes if (found := LANGUAGE.fullmatch(code))] or None


def known_languages(recipe: Sections, report: RunReport) -> list[str]:
    """The source and target languages of the model that are known, from the model itself or else from the recipe."""
    if report.directions:
        return list(dict.fromkeys(code for pair in report.directions for code in pair))
    data = recipe["data"]
    if "reversed" in (data.get("text") or ()):
        return []  # it translates in both directions
    given = [data[name] for name in LANGUAGE_KEYS]
    given = given[::-1] if data.get("reversed") else given
    return [code for pair in zip(report.languages, given) if (code := pair[0] or pair[1])]


def evaluations(recipe: Sections, report: RunReport) -> list[EvalResult]:
    """The scores of all test sets, with the search settings that the model is saved with."""
    found, places = [], []
    for name, scores in report.tests.items():
        source, title = find_source(name, recipe, report), test_title(name, recipe, report)
        place = (
            {"dataset_type": source.dataset, "dataset_config": source.config, "dataset_split": source.split,
             "dataset_revision": source.revision}
            if source and source.on_hub
            else {"dataset_type": title}
        )  # fmt: skip
        if place in places:  # the Hub would take both for one
            title, place = f"{title}, {name}", {"dataset_type": f"{title}, {name}"}
        places.append(place)
        found += [
            EvalResult(
                task_type="translation",
                dataset_name=title,
                metric_type=metric,
                metric_value=round(score, 2),
                metric_name=f"{metric_title} ({getattr(scores, f'{key}_signature')})",
                **place,
            )
            for key, (metric, metric_title) in HUB_METRICS.items()
            if (score := getattr(scores, key)) is not None
        ]
    return found


def is_held_out(name: str, recipe: Sections) -> bool:
    """Whether a test set is a share of the training text."""
    return name == "test" and bool(recipe["data"].get("test_share"))


def find_source(name: str, recipe: Sections, report: RunReport) -> Source | None:
    """The source of a test set; `None` if it has several."""
    sources = report.sources.get("train" if is_held_out(name, recipe) else name) or []
    return sources[0] if len(sources) == 1 else None


def test_title(name: str, recipe: Sections, report: RunReport) -> str:
    """The title of a test set: its name in the recipe or, for the main one, its dataset or file."""
    data, source, text = recipe["data"], find_source(name, recipe, report), report.text
    if name != "test" or not source or source.files:
        parts = [text, source.files[0].partition(".")[0] if name == "test" and source else name]
    else:
        dataset = "hf_vaswani's corpus" if source.dataset == "built-in" else source.dataset
        parts = [dataset, source.config, source.split]
    if is_held_out(name, recipe):
        parts.append(f"{100 * data['test_share']:g}% held out, seed {data['split_seed']}")
    return ", ".join(part for part in parts if part)


def eval_results(recipe: Sections, report: RunReport) -> str:
    """The content of [`EVAL_RESULTS`]; empty without scores on a whole split of a Hub dataset.

    A dataset's task has one score: BLEU, by the recipe's search. The notes say how it was computed.

    Args:
        recipe, report: as in [`hf_vaswani.hub.model_card.card_text`].
    """
    # Not among the imports above: a run without such test sets does not need it.
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries: dict[tuple[str, str], Any] = {}
    for name, scores in report.tests.items():
        source = find_source(name, recipe, report)
        is_whole = source and source.on_hub and not is_held_out(name, recipe) and "[" not in (source.split or "")
        if not (source and is_whole and source.dataset and scores.bleu is not None):
            continue
        revision = source.revision if COMMIT.fullmatch(source.revision or "") else None
        entries.setdefault(
            (source.dataset, source.config or "default"),
            EvalResultEntry(
                dataset_id=source.dataset,
                task_id=source.config or "default",
                value=round(scores.bleu, 2),
                dataset_revision=revision,
                notes=_notes(recipe, report, source.split, scores),
            ),
        )
    data = eval_result_entries_to_yaml(list(entries.values()))
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True) if data else ""


def _notes(recipe: Sections, report: RunReport, split: str | None, scores: TestScores) -> str:
    languages = [code for code in report.languages if code]
    parts = [
        f"BLEU ({scores.bleu_signature})",
        f"chrF2 {scores.chrf2:.2f}" if scores.chrf2 is not None else "",
        " to ".join(languages),
        f"split {split}" if split else "",
        search_name(recipe["generation"]["num_beams"]),
    ]
    return ", ".join(part for part in parts if part)

"""The scores on test sets that are Hub datasets, in the file that the Hub reads for a dataset's leaderboard.

Format: https://huggingface.co/docs/hub/eval-results
"""

import re
from typing import Any

import yaml

from .metadata import is_held_out, source_of
from .run_report import EVAL_RESULTS, RunReport, TestScores
from .wording import search_name

COMMIT = re.compile("[0-9a-f]{40}")

__all__ = ["EVAL_RESULTS", "eval_results"]


def eval_results(recipe: dict[str, dict[str, Any]], report: RunReport) -> str:
    """The content of the file; empty without scores on a whole split of a Hub dataset.

    A dataset's task has one score: BLEU, by the recipe's search. The notes say how it was computed.

    Args:
        recipe, report: as in [`hf_vaswani.hub.card.card_text`].
    """
    # Not among the imports above: a run without such test sets does not need it.
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries: dict[tuple[str, str], Any] = {}
    for name, scores in report.tests.items():
        source = source_of(name, recipe, report)
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


def _notes(recipe: dict[str, dict[str, Any]], report: RunReport, split: str | None, scores: TestScores) -> str:
    languages = [code for code in report.languages if code]
    parts = [
        f"BLEU ({scores.bleu_signature})",
        f"chrF2 {scores.chrf2:.2f}" if scores.chrf2 is not None else "",
        " to ".join(languages),
        f"split {split}" if split else "",
        search_name(recipe["generation"]["num_beams"]),
    ]
    return ", ".join(part for part in parts if part)

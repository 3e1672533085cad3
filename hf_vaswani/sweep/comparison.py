"""Compares the combinations of a sweep by the translations that their runs wrote."""

import json
import math
from functools import partial

from ..errors import InputError, reason
from ..evaluation.score import bleu
from ..evaluation.score_settings import ScoreSettings
from ..evaluation.seed_bootstrap import Difference, seed_bootstrap
from ..files import collect_errors
from ..hub.run_report import RunReport
from ..training.checkpoints.artifacts import TRANSLATIONS
from ..training.setup.splits import load_test_sets, own_text, parse_sources
from .runs import Run

Finished = list[tuple[Run, RunReport]]


def compare(combinations: dict[str, Finished]) -> tuple[dict[str, dict[str, Difference]], list[str]]:
    """The differences in BLEU from the first combination.

    Args:
        combinations: name → finished runs.

    Returns:
        Name → test set → difference; and a line for each reason why one is missing.
    """
    found: dict[str, dict[str, Difference]] = {name: {} for name in combinations}
    notes: list[str] = []
    members = next(iter(combinations.values()))
    if len(combinations) < 2 or not members:
        return found, notes
    run, report = members[0]
    data = own_text(run.recipe.data)
    tests = collect_errors(notes, lambda: load_test_sets(data, parse_sources(data))) or {}
    for test, pairs in tests.items():
        settings = ScoreSettings(run.recipe.evaluation.tokenize, "case:lc" in str(report.tests.get(test)))
        score = partial(bleu, references=[pair[1] for pair in pairs], **settings.arguments()["bleu"])
        read = {name: partial(_read_translations, combinations[name], test, score) for name in combinations}
        systems = {name: texts for name in combinations if (texts := collect_errors(notes, read[name]))}
        if next(iter(combinations)) in systems and len(systems) > 1:
            differences = seed_bootstrap(list(systems.values()), **score.keywords)
            for name, difference in zip(list(systems)[1:], differences):
                found[name][test] = difference
    return found, notes


def losses_compare(finished: Finished) -> bool:
    """Whether validation losses can be compared: per token of one vocabulary, on one text."""
    texts = {str(report.trail and report.trail.texts.get("validation")) for _, report in finished}
    files = [sorted(run.folder.glob("*tokenizer.json")) for run, _ in finished]
    tokens = {str([json.loads(path.read_bytes())["model"]["vocab"] for path in paths]) for paths in files}
    return len(texts) < 2 and len(tokens) < 2


def _read_translations(members: Finished, test: str, score: partial) -> list[list[str]]:
    """The translations of a test set by each run.

    Raises:
        InputError: one cannot be read, or its run computed another BLEU for it: it had other references or settings.
    """
    systems = []
    for run, report in members:
        path = run.folder / f"{test}{TRANSLATIONS}"
        try:
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {reason(error)}.") from None
        value = score(lines).value if len(lines) == len(score.keywords["references"]) else math.nan
        if test not in report.tests or not math.isclose(value, report.tests[test].bleu, abs_tol=1e-6):
            raise InputError(f"{path}: not compared, as it was scored on another text or in another way.")
        systems.append(lines)
    return systems

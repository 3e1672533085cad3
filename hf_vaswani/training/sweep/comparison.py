"""Compares the combinations of a sweep by the translations that their runs wrote."""

import math
from functools import partial

from ...data.sources.parallel_files import Pair
from ...errors import InputError, reason
from ...evaluation.score import bleu
from ...evaluation.score_settings import ScoreSettings
from ...evaluation.seed_bootstrap import seed_bootstrap
from ...evaluation.significance import RESAMPLES
from ...files import collect_errors
from ..recipe.recipe import Recipe
from ..reporting.artifacts import TRANSLATIONS, read_results
from ..setup.splits import load_test_sets, own_text, parse_sources
from .plan import Run
from .report import BleuDifference, RunResult

Finished = list[tuple[Run, RunResult]]


def differences(
    combinations: list[tuple[str, Finished]], resamples: int = RESAMPLES
) -> tuple[dict[str, dict[str, BleuDifference]], list[str]]:
    """The differences in BLEU from the first combination.

    Args:
        combinations: the name and the finished runs of each.

    Returns:
        Name of the combination → test set → difference; and a line for each reason why one is missing.
    """
    found: dict[str, dict[str, BleuDifference]] = {name: {} for name, _ in combinations}
    notes: list[str] = []
    baseline, runs = combinations[0]
    if len(combinations) < 2:
        return found, notes
    if not runs:
        return found, [f"No run of {baseline} is finished: there is nothing to compare the others with."]
    texts: dict[str, dict[str, list[Pair]]] = {}  # by the description of the texts
    for test, pairs in _test_sets(runs[0][0].recipe, texts, notes).items():
        settings = _settings(runs[0][0], test)
        systems = {}
        for name, members in combinations:
            # Only scores of the same sentences, counted in the same way, can be compared.
            is_same = members and settings == _settings(members[0][0], test)
            if is_same and _test_sets(members[0][0].recipe, texts, notes).get(test) == pairs:
                references = [reference for _, reference in pairs]
                systems[name] = collect_errors(notes, partial(_translations, members, test, references))
            elif members:
                notes.append(f"{name} has a different test set {test}, or computes BLEU differently.")
        others = {name: lines for name, lines in systems.items() if lines and name != baseline}
        if systems[baseline] and others:
            compared = [systems[baseline], *others.values()]
            values = seed_bootstrap(compared, [reference for _, reference in pairs], resamples, **settings)
            for name, value in zip(others, values):
                found[name][test] = BleuDifference(
                    value=value.value, low=value.low, high=value.high, p_value=value.p_value
                )
    return found, list(dict.fromkeys(notes))


def _settings(run: Run, test: str) -> dict:
    """The settings with which a run computed the BLEU of a test set."""
    is_lowercase = "case:lc" in str(read_results(run.folder).get("tests", {}).get(test))
    return ScoreSettings(run.recipe.evaluation.tokenize, is_lowercase).arguments()["bleu"]


def _test_sets(recipe: Recipe, known: dict[str, dict[str, list[Pair]]], notes: list[str]) -> dict[str, list[Pair]]:
    """The test sets of a recipe, each read only once."""
    data = own_text(recipe.data)
    key = str(data)
    if key not in known:
        known[key] = {}
        try:
            known[key] = load_test_sets(data, parse_sources(data))
        except (InputError, OSError) as error:
            notes.append(f"The test sets cannot be read again: {reason(error)}")
    return known[key]


def _translations(members: Finished, test: str, references: list[str]) -> list[list[str]]:
    """The translations of a test set by each run of a combination.

    Raises:
        InputError: if a file cannot be read, or is not what its run scored.
    """
    systems = []
    for run, result in members:
        path = run.folder / f"{test}{TRANSLATIONS}"
        try:
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {reason(error)}.") from None
        is_own = len(lines) == len(references)
        if is_own:
            score = bleu(lines, references, **_settings(run, test)).value
            is_own = math.isclose(score, result.tests[test].bleu, abs_tol=1e-6)
        if not is_own:
            raise InputError(f"{path} is not what its run scored, so its combination is not compared.")
        systems.append(lines)
    return systems

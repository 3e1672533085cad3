"""Compares the combinations of a sweep by the translations that their runs wrote."""

import json
import math
from functools import partial
from typing import Any

from ..errors import InputError, reason
from ..evaluation.score import bleu
from ..evaluation.score_settings import ScoreSettings
from ..evaluation.seed_bootstrap import Difference, seed_bootstrap
from ..files import collect_errors
from ..hub.run_report import RunReport
from ..training.reporting.artifacts import TRANSLATIONS
from ..training.setup.splits import load_test_sets, own_text, parse_sources
from .runs import Run

Finished = list[tuple[Run, RunReport]]
# By test set: the references, and how BLEU is computed.
Tests = dict[str, tuple[list[str], dict[str, Any]]]


def compare(combinations: dict[str, Finished]) -> tuple[dict[str, dict[str, Difference]], list[str]]:
    """The differences in BLEU from the first combination.

    Args:
        combinations: name → finished runs.

    Returns:
        Name → test set → difference; and a line for each reason why one is missing.
    """
    found: dict[str, dict[str, Difference]] = {name: {} for name in combinations}
    notes: list[str] = []
    if len(combinations) < 2:
        return found, notes
    texts: dict[str, dict[str, list]] = {}
    tests = {name: _load_tests(members[0], texts, notes) for name, members in combinations.items() if members}
    baseline = next(iter(combinations))
    for test, (references, settings) in tests.get(baseline, {}).items():
        systems = {}
        for name in tests:
            # Only scores of the same sentences, counted in the same way, can be compared.
            if tests[name].get(test) == (references, settings):
                read = partial(_read_translations, combinations[name], test, references, settings)
                systems[name] = collect_errors(notes, read)
            else:
                notes.append(f"{name} has a different test set {test}, or computes BLEU differently.")
        names = [name for name in systems if systems[name]]
        if baseline in names and len(names) > 1:
            differences = seed_bootstrap([systems[name] for name in names], references, **settings)
            found |= {name: {**found[name], test: value} for name, value in zip(names[1:], differences)}
    return found, list(dict.fromkeys(notes))


def find_changed_texts(finished: Finished) -> list[str]:
    """Notes on runs whose texts have changed since another run read the same files."""
    first: dict[str, tuple[str, dict]] = {}
    notes = []
    for run, report in finished:
        texts = {split: text.digest for split, text in report.trail.texts.items()} if report.trail else {}
        name, before = first.setdefault(str(run.recipe.data), (run.folder.name, texts))
        if changed := [split for split in texts if before.get(split) != texts[split]]:
            notes.append(
                f"{run.folder.name} had different {' and '.join(changed)} text than {name}, from the same files."
            )
    return notes


def losses_compare(finished: Finished) -> bool:
    """Whether validation losses can be compared: per token of one vocabulary, on one text."""
    texts = {str(report.trail and report.trail.texts.get("validation")) for _, report in finished}
    files = [sorted(run.folder.glob("*tokenizer.json")) for run, _ in finished]
    tokens = {str([json.loads(path.read_bytes())["model"]["vocab"] for path in paths]) for paths in files}
    return len(texts) < 2 and len(tokens) < 2


def _load_tests(member: tuple[Run, RunReport], known: dict[str, dict[str, list]], notes: list[str]) -> Tests:
    """The test sets of a run; each text is read only once."""
    run, report = member
    data = own_text(run.recipe.data)
    if str(data) not in known:
        known[str(data)] = {}
        try:
            known[str(data)] = load_test_sets(data, parse_sources(data))
        except (InputError, OSError) as error:
            notes.append(f"The test sets cannot be read again: {reason(error)}")
    tests = {}
    for test, pairs in known[str(data)].items():
        settings = ScoreSettings(run.recipe.evaluation.tokenize, "case:lc" in str(report.tests.get(test)))
        tests[test] = [reference for _, reference in pairs], settings.arguments()["bleu"]
    return tests


def _read_translations(
    members: Finished, test: str, references: list[str], settings: dict[str, Any]
) -> list[list[str]]:
    """The translations of a test set by each run.

    Raises:
        InputError: a file cannot be read, or is not what its run scored.
    """
    systems = []
    for run, report in members:
        path = run.folder / f"{test}{TRANSLATIONS}"
        try:
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {reason(error)}.") from None
        score = bleu(lines, references, **settings).value if len(lines) == len(references) else math.nan
        if not math.isclose(score, report.tests[test].bleu, abs_tol=1e-6):
            raise InputError(f"{path} is not what its run scored, so its combination is not compared.")
        systems.append(lines)
    return systems

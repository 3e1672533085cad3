"""A sweep from its request to its table."""

import math
import statistics
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError, reason
from ..evaluation.curves import draw_curves
from ..files import check_types, collect_errors, read_json, replace_files
from ..ledger import check_new
from ..records.run_report import RunReport, read_report
from ..runtime.imports import import_extra
from ..training.checkpoints.artifacts import CURVES_FILE, LOG_FILE, locked_output
from .request import BASELINE, Combination, Run, SweepRequest, combine, key_errors, load_runs
from .search import Search, Space, make_ends, parse_space
from .table import BLEU, LOSS, Finished, Row, RunResult, SweepReport, compare, losses_compare

# The first also marks a folder as that of a sweep.
RESULT_FILE, PAGE_FILE = "sweep.json", "README.md"
DEFAULT_TRIALS = 20
# Without --jobs, at most this share of a search's trials run side by side, as they cannot learn from each other.
SIDE_BY_SIDE = 5


@dataclass
class Sweep:
    """A sweep that is ready to start or to be resumed.

    Attributes:
        space: of a search; empty for others.
        runs: those of each combination, by its name; those that a search proposes are added.
        outcomes: by the folder of each run that has ended, its report, or what went wrong.
    """

    request: SweepRequest
    folder: Path
    space: Space
    runs: dict[str, list[Run]]
    outcomes: dict[Path, RunReport | str] = field(default_factory=dict)


def check_sweep(request: SweepRequest, errors: list[str]) -> Sweep:
    """Check a request by loading the recipe of each run. Nothing is written.

    Raises:
        InputError: all errors at once, with those found so far; or an extra is not installed.
    """
    errors = [*errors, *key_errors(request)]
    if not request.output_dir:
        errors.append("--output_dir is missing: the folder of the sweep, with a folder in it for each run")
    if request.search and (request.rows or request.grid):
        errors.append("a search proposes the values itself: use either --search, or a grid and rows")
    if request.trials and not request.search:
        errors.append("--trials is the number of combinations of a search: add --search, or leave it out")
    folder = Path(request.output_dir or "sweep")
    stored = collect_errors(errors, partial(_read_stored, folder)) or {}
    if stored and bool(stored["search"]) != bool(request.search):
        errors.append(f"--output_dir {folder} contains another sweep. Choose another folder.")
    space = parse_space(request.search, errors) if request.search else {}
    if space:
        load_runs(replace(request, seeds=request.seeds[:1]), make_ends(space), errors)
    known = [Combination(row["name"], row["keys"]) for row in stored.get("rows", []) if space]
    runs: dict[str, list[Run]] = {}
    for run in load_runs(request, known or combine(request.rows, request.grid), errors):
        runs.setdefault(run.combination.name, []).append(run)
    if errors:
        raise InputError.of(errors)
    return Sweep(request, folder, space, runs)


def run_sweep(sweep: Sweep, jobs: int | None = None) -> SweepReport:
    """Train the runs that are not finished yet, and write the results: `sweep.json`, `README.md` and `curves.png`.

    Args:
        jobs: runs side by side; by default as many as the machines allow.

    Raises:
        InputError: another sweep holds the folder, Ray is not installed or cannot be started.
        TrainingInterrupted: on SIGTERM or Ctrl-C; the same call resumes.
    """
    sweep.folder.mkdir(parents=True, exist_ok=True)
    with locked_output(sweep.folder):
        _mark_folder(sweep)
        _train(sweep, jobs)
        finished = {name: _list_finished(sweep, runs) for name, runs in sweep.runs.items()}
        differences, notes = compare(finished)
        rows = [
            Row(name, runs[0].combination.values, [_make_result(sweep, run) for run in runs], differences[name])
            for name, runs in sweep.runs.items()
        ]
        is_ranked = losses_compare(sum(finished.values(), []))
        report = _make_report(sweep, rows, notes=notes, losses_compare=is_ranked, figure=_draw_curves(sweep))
        files = {PAGE_FILE: report.page(), RESULT_FILE: report.to_json()}
        replace_files({sweep.folder / name: text.encode("utf-8", "replace") for name, text in files.items()})
    return report


def _train(sweep: Sweep, jobs: int | None) -> None:
    """Train all runs, and those that a search proposes."""
    known = [runs[0].combination for name, runs in sweep.runs.items() if name != BASELINE]
    search = Search(sweep.request, sweep.space, known) if sweep.space else None
    total = sweep.request.trials or DEFAULT_TRIALS
    every = list(sweep.runs.values()) if search else [[run] for runs in sweep.runs.values() for run in runs]
    waiting: list[list[Run]] = []

    def next_trial() -> list[Run]:
        if waiting:
            return waiting.pop(0)
        runs = search.propose() if search else []
        if runs:
            sweep.runs[runs[0].combination.name] = runs
            _mark_folder(sweep)
        return runs

    def on_end(runs: list[Run], errors: list[str | None]) -> None:
        losses = []
        for run, error in zip(runs, errors):
            wrong = [error] if error else []
            report = None if error else collect_errors(wrong, partial(read_report, run.folder))
            sweep.outcomes[run.folder] = report or wrong[0]
            losses.append(report.validation_loss if report else math.nan)
        if search:
            search.tell(runs[0].combination, statistics.fmean(losses))

    for runs in every:
        if all(run.is_finished() for run in runs):
            on_end(runs, [None] * len(runs))
        else:
            waiting.append(runs)
    number = len(waiting) + (max(total - len(known), 0) if search else 0)
    if number:
        import_extra("ray.tune", "sweep")
        from .trials import Trials, train_trials

        most = max(total // SIDE_BY_SIDE, 1) if search else len(every)
        threads = max(run.recipe.training.cpu_threads or 0 for runs in every for run in runs)
        train_trials(Trials(sweep.request.recipe, next_trial, on_end), number, sweep.folder, threads, jobs, most)
    if search and len(search.trials) < total:
        print(f"The search ended after {len(search.trials)} trials: it found no new values", file=sys.stderr)


def _list_finished(sweep: Sweep, runs: list[Run]) -> Finished:
    reports = [(run, sweep.outcomes.get(run.folder)) for run in runs]
    return [(run, report) for run, report in reports if isinstance(report, RunReport)]


def _make_report(sweep: Sweep, rows: list[Row], **results: Any) -> SweepReport:
    request = sweep.request
    return SweepReport(request.recipe, request.options, request.search, request.seeds, rows, **results)


def _make_result(sweep: Sweep, run: Run) -> RunResult:
    report = sweep.outcomes.get(run.folder, "it was not started")
    if isinstance(report, str):
        return RunResult(run.folder.name, run.seed, error=report)
    values = {name: getattr(report, name) for name in ("parameters", "steps", "minutes")}
    values[LOSS] = report.validation_loss
    for name, test in report.tests.items():
        values |= {f"{name}{BLEU}": test.bleu, f"{name} chrF2": test.chrf2}
    return RunResult(run.folder.name, run.seed, values)


def _draw_curves(sweep: Sweep) -> str | None:
    """Draw the curves of all runs that have a log, one color for each combination; return the file if that worked."""
    logs = {run.folder / LOG_FILE: name for name, runs in sweep.runs.items() for run in runs}
    logs = {log: name for log, name in logs.items() if log.is_file()}
    try:
        draw_curves(list(logs), sweep.folder / CURVES_FILE, list(logs.values()))
    except Exception as error:  # matplotlib, fonts, the disk: whatever fails, the table is complete
        print(f"{CURVES_FILE} could not be drawn: {reason(error)}", file=sys.stderr)
        return None
    return CURVES_FILE


def _read_stored(folder: Path) -> dict[str, Any]:
    """The results that a folder has; empty if it is new. An [`InputError`] if it holds something else."""
    path = folder / RESULT_FILE
    if not path.exists():
        check_new(folder)
        return {}
    stored = read_json(path, "Replace its content with {}; finished runs are then recognized, and the others resumed.")
    if stored:
        check_types(path, stored, {"search": dict, "rows": list[dict]})
    return stored


def _mark_folder(sweep: Sweep) -> None:
    """Write `sweep.json` without results, so that the folder is known to be a sweep's, with these combinations."""
    rows = [Row(name, runs[0].combination.values) for name, runs in sweep.runs.items()]
    replace_files({sweep.folder / RESULT_FILE: _make_report(sweep, rows).to_json().encode("utf-8", "replace")})

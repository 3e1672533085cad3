"""A sweep from its request to its table."""

import math
import statistics
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..engines.extras import import_extra
from ..errors import InputError, TrainingError, counted, reason
from ..evaluation.curves import draw_curves
from ..files import check_new, check_types, collect_errors, read_json, replace_files
from ..hub.run_report import RunReport, read_report
from ..training.checkpoints.output_folder import CURVES_FILE, LOG_FILE, held
from .comparison import compare, find_changed_texts, losses_compare
from .request import SweepRequest
from .runs import BASELINE, Combination, Run, combine, key_errors, load_runs
from .search import Search, Space, make_ends, parse_space
from .table import Row, RunResult, SweepReport

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

    Args:
        errors: the errors found in the request so far.

    Raises:
        InputError: all errors at once; or an extra is not installed.
    """
    errors = [*errors, *key_errors(request)]
    if not request.output_dir:
        errors.append("--output_dir is missing: the folder of the sweep, with a folder in it for each run")
    if request.search and (request.rows or request.grid):
        errors.append("a search proposes the values itself: use either --search, or a grid and rows")
    if request.trials and not request.search:
        errors.append("--trials is the number of combinations of a search: add --search, or leave it out")
    folder, combinations = Path(request.output_dir or "sweep"), combine(request.rows, request.grid)
    stored = collect_errors(errors, partial(_read_stored, folder))
    if stored and bool(stored.get("search")) != bool(request.search):
        errors.append(f"--output_dir {folder} contains another sweep. Choose another folder.")
    space = parse_space(request.search, errors) if request.search else {}
    if space:
        ends = load_runs(replace(request, seeds=request.seeds[:1]), make_ends(space), errors)
        if len({str(run.recipe.tokenizer.model_copy(update={"bpe_dropout": None})) for run in ends}) > 1:
            errors.append("a search compares losses per token, not across tokenizers: use --grid for them, and BLEU")
        known = [Combination(row["name"], row["keys"]) for row in (stored or {}).get("rows", [])]
        combinations = known or combinations
    runs: dict[str, list[Run]] = {}
    for run in load_runs(request, combinations, errors):
        runs.setdefault(run.combination.name, []).append(run)
    if errors:
        raise InputError.of(errors)
    return Sweep(request, folder, space, runs)


def run_sweep(sweep: Sweep, jobs: int | None = None) -> SweepReport:
    """Train the runs that are not finished yet, and write the results: `sweep.json`, `README.md` and `curves.png`.

    Args:
        jobs: runs side by side; by default as many as the machines allow.

    Returns:
        The report, even if runs have failed.

    Raises:
        InputError: another sweep holds the folder, Ray is not installed or cannot be started.
        TrainingInterrupted: on SIGTERM or Ctrl-C; the same call resumes.
    """
    sweep.folder.mkdir(parents=True, exist_ok=True)
    with held(sweep.folder):
        _write(sweep, RESULT_FILE, _begin_report(sweep).to_json())
        _train(sweep, jobs)
        report = make_report(sweep)
        _write(sweep, PAGE_FILE, report.page())
        _write(sweep, RESULT_FILE, report.to_json())
    return report


def make_report(sweep: Sweep) -> SweepReport:
    """The report on the results of all runs."""
    reports = {path: outcome for path, outcome in sweep.outcomes.items() if isinstance(outcome, RunReport)}
    finished = {name: [(run, reports[run.folder]) for run in runs if run.folder in reports]
                for name, runs in sweep.runs.items()}  # fmt: skip
    every = [member for members in finished.values() for member in members]
    differences, notes = compare(finished)
    return replace(
        _begin_report(sweep),
        rows=[
            Row(name, runs[0].combination.values, [_make_result(sweep, run) for run in runs], differences[name])
            for name, runs in sweep.runs.items()
        ],
        notes=notes + find_changed_texts(every),
        losses_compare=losses_compare(every),
        figure=_draw_curves(sweep),
    )


def failure(report: SweepReport, folder: Path) -> TrainingError | None:
    """The error that ends a sweep with failed runs; `None` if none failed."""
    if not report.failed:
        return None
    number = sum(len(row.runs) for row in report.rows)
    return TrainingError(
        f"{len(report.failed)} of {counted(number, 'run')} failed: {', '.join(run.folder for run in report.failed)}. "
        f"Their logs are in {folder}; run the same command again to retry them."
    )


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
            _write(sweep, RESULT_FILE, _begin_report(sweep).to_json())
        return runs

    def on_end(runs: list[Run], errors: list[str | None]) -> None:
        for run, error in zip(runs, errors):
            wrong = [error] if error else []
            report = None if error else collect_errors(wrong, partial(read_report, run.folder))
            sweep.outcomes[run.folder] = report or wrong[0]
        outcomes = [sweep.outcomes[run.folder] for run in runs]
        losses = [report.validation_loss if isinstance(report, RunReport) else math.nan for report in outcomes]
        if search:
            loss = statistics.fmean(losses)
            search.tell(runs[0].combination, loss if math.isfinite(loss) else None)

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
        print(
            f"The search ended after {counted(len(search.trials), 'trial')}: it found no new values", file=sys.stderr
        )


def _begin_report(sweep: Sweep) -> SweepReport:
    """The report without any results."""
    request = sweep.request
    rows = [Row(name, runs[0].combination.values, [], {}) for name, runs in sweep.runs.items()]
    return SweepReport(request.recipe, request.options, request.search, request.seeds, rows)


def _make_result(sweep: Sweep, run: Run) -> RunResult:
    report = sweep.outcomes.get(run.folder, "it was not started")
    if isinstance(report, str):
        return RunResult(run.folder.name, run.seed, error=report)
    values = {"parameters": report.parameters, "steps": report.steps, "minutes": report.minutes}
    values["validation loss"] = report.validation_loss
    for name, test in report.tests.items():
        values |= {f"{name} BLEU": test.bleu, f"{name} chrF2": test.chrf2}
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
    """The results that a folder has; empty if it is new.

    Raises:
        InputError: it holds something else, or they are damaged.
    """
    path = folder / RESULT_FILE
    if not path.exists():
        check_new(folder)
        return {}
    stored = read_json(path, "Replace its content with {}; finished runs are then recognized, and the others resumed.")
    if stored:
        check_types(path, stored, {"search": dict, "rows": list[dict]})
    return stored


def _write(sweep: Sweep, name: str, text: str) -> None:
    replace_files({sweep.folder / name: text.encode("utf-8", "replace")})

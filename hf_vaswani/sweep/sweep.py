"""A sweep from its request to its table."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import InputError, reason
from ..evaluation.curves import draw_curves
from ..files import check_types, collect_errors, read_json, replace_files
from ..ledger import check_new
from ..runtime.imports import import_extra
from ..training.checkpoints.artifacts import CURVES_FILE, LOG_FILE, locked_output
from .request import BASELINE, Row, Run, SweepRequest, combine, key_errors, load_runs
from .search import Search, make_ends, parse_space
from .table import Sweep, compare, losses_compare

# The first also marks a folder as that of a sweep.
RESULT_FILE, PAGE_FILE = "sweep.json", "README.md"
DEFAULT_TRIALS = 20
# Without --jobs, at most this share of a search's trials run side by side, as they cannot learn from each other.
SIDE_BY_SIDE = 5


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
    known = [Row(row["name"], row["keys"]) for row in stored.get("rows", []) if space]
    rows = known or combine(request.rows, request.grid)
    load_runs(request, rows, errors)
    if errors:
        raise InputError.of(errors)
    return Sweep(request, folder, space, rows)


def run_sweep(sweep: Sweep, jobs: int | None = None) -> Sweep:
    """Train the runs that are not finished yet, and write the results: `sweep.json`, `README.md` and `curves.png`.

    Args:
        jobs: runs side by side; by default as many as the machines allow.

    Returns:
        The sweep, with its results.

    Raises:
        InputError: another sweep holds the folder, Ray is not installed or cannot be started.
        TrainingInterrupted: on SIGTERM or Ctrl-C; the same call resumes.
    """
    sweep.folder.mkdir(parents=True, exist_ok=True)
    with locked_output(sweep.folder):
        _write(sweep, {RESULT_FILE: sweep.to_json()})  # marks the folder as that of this sweep
        _train(sweep, jobs)
        sweep.notes = compare(sweep.rows)
        sweep.losses_compare = losses_compare([run for row in sweep.rows for run in row.finished])
        sweep.figure = _draw_curves(sweep)
        _write(sweep, {PAGE_FILE: sweep.page(), RESULT_FILE: sweep.to_json()})
    return sweep


def _write(sweep: Sweep, texts: dict[str, str]) -> None:
    replace_files({sweep.folder / name: text.encode("utf-8", "replace") for name, text in texts.items()})


def _train(sweep: Sweep, jobs: int | None) -> None:
    """Train all runs, and those that a search proposes."""
    total = sweep.request.trials or DEFAULT_TRIALS
    known = [row for row in sweep.rows if row.name != BASELINE]
    search = Search(sweep.request, sweep.space, known) if sweep.space else None
    every = [row.runs for row in sweep.rows] if search else [[run] for row in sweep.rows for run in row.runs]
    waiting: list[list[Run]] = []

    def on_end(runs: list[Run], errors: list[str | None]) -> None:
        for run, error in zip(runs, errors):
            run.end(error)
        if search:
            [trial] = [row for row in sweep.rows if row.runs is runs]
            search.tell(trial, trial.full_loss)

    def trials() -> Iterator[list[Run]]:
        yield from waiting
        while search and len(search.trials) < total and (trial := search.propose()):
            sweep.rows.append(trial)
            _write(sweep, {RESULT_FILE: sweep.to_json()})
            yield trial.runs

    for runs in every:
        if all(run.is_finished() for run in runs):
            on_end(runs, [None] * len(runs))
        else:
            waiting.append(runs)
    if waiting or (search and len(known) < total):
        import_extra("ray", "sweep")
        from .trials import train_trials

        most = max(total // SIDE_BY_SIDE, 1) if search else len(every)
        threads = max(run.recipe.training.cpu_threads or 0 for runs in every for run in runs)
        train_trials(sweep.request.recipe, trials(), on_end, threads, jobs, most)
    if search and len(search.trials) < total:
        print(f"The search ended after {len(search.trials)} trials: it found no new values", file=sys.stderr)


def _draw_curves(sweep: Sweep) -> str | None:
    """Draw the curves of all runs that have a log, one color for each combination; return the file if that worked."""
    logs = {run.folder / LOG_FILE: row.name for row in sweep.rows for run in row.runs}
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

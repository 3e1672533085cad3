"""A sweep from its request to its table: plan, runs, comparison, report."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ...errors import InputError, TrainingError, counted, reason
from ...evaluation.curves import draw_curves
from ...evaluation.significance import RESAMPLES
from ...files import replace_files
from ...hub.run_report import RESULTS_FILE, RunReport, read_report
from ...hub.trail import Trail
from ..checkpoints.output_folder import CURVES_FILE, LOG_FILE
from .comparison import differences
from .folder import SweepState, content_errors, open_folder, place_errors
from .plan import Run, SweepPlan, losses_compare, make_plan
from .processes import Outcome, log_file, run_all
from .report import CombinationResult, RunResult, SweepReport
from .request import SweepRequest
from .slots import Slot, slots
from .table import page

RESULT_FILE, PAGE_FILE = "sweep.json", "README.md"


def check_sweep(request: SweepRequest, errors: list[str], reads_inputs: bool = True) -> SweepPlan:
    """Check a request for all errors that show before the runs, and return its plan. Nothing is written.

    Args:
        errors: the errors found in the request so far.
        reads_inputs: as for [`make_plan`].

    Raises:
        InputError: all errors at once.
    """
    wrong = place_errors(Path(request.output_dir)) if request.output_dir else []
    plan = make_plan(request, [*errors, *wrong], reads_inputs)
    if found := content_errors(plan):
        raise InputError.of(found)
    return plan


def run_sweep(
    plan: SweepPlan, jobs: int | None = None, failed: Mapping[str, Outcome] | None = None, is_draft: bool = False
) -> SweepReport:
    """Train the runs that are not finished yet, and write the results: `sweep.json`, `README.md` and `curves.png`.

    Args:
        jobs: runs side by side; by default as many as the machine allows.
        failed: name → outcome of the runs that are not tried again.
        is_draft: whether more runs follow, so that nothing is compared or drawn yet.

    Returns:
        The report, even if runs have failed.

    Raises:
        InputError: if another sweep holds the folder.
        TrainingInterrupted: on SIGTERM or Ctrl-C; the same call resumes.
    """
    with open_folder(plan) as state:
        outcomes = _train(plan, state, slots(plan, jobs), failed or {})
        report = make_report(plan, outcomes, is_draft)
        drawn = not is_draft and _draw_curves(plan)
        report = report.model_copy(update={"figure": drawn})
        files = {plan.folder / PAGE_FILE: page(report, CURVES_FILE), plan.folder / RESULT_FILE: report.to_json()}
        replace_files({path: text.encode("utf-8", "replace") for path, text in files.items()})
    return report


def make_report(plan: SweepPlan, outcomes: dict[str, Outcome], is_draft: bool = False) -> SweepReport:
    """The report on the results of all runs.

    Args:
        outcomes: name of each run → how its process ended.
        is_draft: whether to leave out the differences.
    """
    reports = {run.name: _report_of(run) if outcomes[run.name].exit_code == 0 else None for run in plan.runs}
    results = {run.name: _result(run, outcomes[run.name], reports[run.name]) for run in plan.runs}
    finished = [
        (
            combination.name,
            [(run, results[run.name]) for run in plan.runs_of(combination) if results[run.name].state == "finished"],
        )
        for combination in plan.combinations
    ]
    compared, notes = ({}, []) if is_draft else differences(finished)
    notes += _notes_on_texts([(run, report) for run in plan.runs if (report := reports[run.name])])
    return SweepReport(
        recipe=plan.recipe,
        options=list(plan.options),
        seeds=list(plan.seeds),
        resamples=RESAMPLES,
        combinations=[
            CombinationResult.of(
                combination.name,
                combination.values,
                [results[run.name] for run in plan.runs_of(combination)],
                compared.get(combination.name, {}),
            )
            for combination in plan.combinations
        ],
        notes=notes,
        losses_compare=losses_compare([run.recipe for run in plan.runs]),
    )


def _notes_on_texts(finished: list[tuple[Run, RunReport]]) -> list[str]:
    """Notes on runs whose texts have changed since another run read the same files."""
    first: dict[str, tuple[str, Trail]] = {}
    notes = []
    for run, report in finished:
        if report.trail is None:
            continue
        name, trail = first.setdefault(str(run.recipe.data), (run.name, report.trail))
        changed = [
            s for s in trail.texts if (text := report.trail.texts.get(s)) and text.digest != trail.texts[s].digest
        ]
        if changed:
            notes.append(
                f"{run.name} had different {' and '.join(changed)} text than {name}, from the same files. "
                "Train one of them again before you compare them."
            )
    return notes


def _train(
    plan: SweepPlan, state: SweepState, places: list[Slot], failed: Mapping[str, Outcome]
) -> dict[str, Outcome]:
    """Train the runs that are neither finished nor known to fail; return the outcome of each run by its name."""
    done = [run for run in plan.runs if state.is_finished(run.name, run.digest) and _report_of(run) is not None]
    outcomes = {run.name: Outcome(0) for run in done} | dict(failed)
    left = [run for run in plan.runs if run.name not in outcomes]
    if left:
        at_once = min(len(places), len(left))
        _say(f"{counted(len(left), 'run')} to train, {at_once} at a time; {len(done)} finished")
    else:
        _say(f"Nothing to train; {counted(len(done), 'run')} finished")

    def on_start(run: Run) -> None:
        state.note(run.name, None)
        _say(f"{run.name}: started; its log is {log_file(run.folder)}")

    def on_end(run: Run, outcome: Outcome) -> None:
        outcomes[run.name] = outcome
        if outcome.exit_code == 0:
            state.note(run.name, run.digest)
        of_all = f"{len(outcomes)} of {len(plan.runs)}"
        if outcome.error is None:
            _say(f"{run.name}: finished ({of_all}){_scores(run)}")
        else:
            line = f"{run.name}: failed ({of_all}), exit status {outcome.exit_code}: {outcome.error}"
            print(f"{line}\n  its log is {log_file(run.folder)}", file=sys.stderr, flush=True)

    if left:
        run_all(left, plan.recipe, places, state.descriptor, on_start, on_end)
    return outcomes


def _result(run: Run, outcome: Outcome, report: RunReport | None) -> RunResult:
    if report is not None:
        return RunResult.of(run.seed, run.name, report)
    error = outcome.error or f"{RESULTS_FILE} cannot be read"
    return RunResult(seed=run.seed, folder=run.name, state="failed", exit_code=outcome.exit_code, error=error)


def _report_of(run: Run) -> RunReport | None:
    """The report of a finished run; `None` if it cannot be read."""
    try:
        return read_report(run.folder)
    except InputError:
        return None


def _scores(run: Run) -> str:
    """The scores of a run, as the end of a line."""
    report = _report_of(run)
    if report is None:
        return ""
    tests = [f"{name} BLEU {test.bleu:.2f}" for name, test in report.tests.items()]
    return ": " + ", ".join([f"validation loss {report.validation_loss:.4f}", *tests])


def _draw_curves(plan: SweepPlan) -> bool:
    """Draw the curves of all runs that have a log, one color for each combination; return whether that worked."""
    logged = [run for run in plan.runs if (run.folder / LOG_FILE).is_file()]
    if not logged:
        return False
    logs = [run.folder / LOG_FILE for run in logged]
    draw = partial(draw_curves, logs, plan.folder / CURVES_FILE, [run.combination.name for run in logged])
    try:
        draw()
    except Exception as error:  # matplotlib, fonts, the disk: whatever fails, the table is complete
        print(f"{CURVES_FILE} could not be drawn: {reason(error)}", file=sys.stderr)
        return False
    return True


def _say(line: str) -> None:
    """Print a line about progress, on a terminal only."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def failure(report: SweepReport, folder: Path) -> TrainingError | None:
    """The error that ends a sweep with failed runs; `None` if none failed."""
    if not report.failed:
        return None
    number = sum(len(result.runs) for result in report.combinations)
    return TrainingError(
        f"{len(report.failed)} of {counted(number, 'run')} failed: {', '.join(run.folder for run in report.failed)}. "
        f"Their logs are in {folder}; run the same command again to retry them."
    )

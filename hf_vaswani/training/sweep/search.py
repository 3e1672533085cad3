"""A search: a sweep whose combinations are not listed, but proposed one after another by Optuna's TPE.

The rows of such a sweep are the recipe as it is, followed by the trials. Each round proposes as many trials as run
side by side, based on the validation losses of all earlier rounds, and trains them as a sweep with these rows. The
proposals depend on nothing else, so a search that was killed resumes as if it had not been.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011 (the tree-structured Parzen
estimator); https://optuna.org.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InputError, counted
from ...runtime.imports import import_extra
from .folder import stored_combinations
from .grid import combination_name
from .plan import MOST_RUNS, SweepPlan, losses_compare, make_plan
from .processes import Outcome
from .report import SweepReport
from .request import SweepRequest
from .slots import runs_side_by_side
from .space import Choice, Range, Space, corners, holds
from .sweep import check_sweep, run_sweep

# The first row of a search, and the names of the others.
BASELINE, TRIAL = "recipe", "trial_{number}"
# A search ends after this many useless proposals in a row: repeats, or values that make no valid recipe.
PATIENCE = 200
# By default, a search has at least this many rounds: the trials of one round cannot learn from each other.
ROUNDS = 5

Trial = dict[str, str]  # key → text as on the command line


@dataclass(frozen=True)
class Search:
    """A search that is ready to start or to resume.

    Attributes:
        request: without rows and grid.
        space: with its keys written as in a plan.
        trials: the trials that the folder already has.
        plan: of the first row and these trials.
    """

    request: SweepRequest
    space: Space
    trials: list[Trial]
    plan: SweepPlan


def check_search(request: SweepRequest, errors: list[str]) -> Search:
    """Check a search for all errors that show before its runs, and return it. Nothing is written.

    Args:
        errors: the errors found in the request so far.

    Raises:
        InputError: all errors at once, including those of the recipes at the ends of the space; or Optuna is not
            installed.
    """
    errors = list(errors)
    if request.grid or request.rows:
        errors.append("a search proposes the values itself: use either --search, or a grid and rows")
    if (number := (request.trials + 1) * len(request.seeds)) > MOST_RUNS:
        errors.append(
            f"{number:,} runs are too many for one search; the maximum is {MOST_RUNS:,}: use fewer trials or seeds"
        )
    request = replace(request, rows={}, grid={})
    ends = {combination_name("", values): values for values in corners(request.space)}
    at_ends = make_plan(replace(request, rows=ends), errors, reads_inputs=True)
    space = dict(zip(at_ends.combinations[0].values, request.space.values()))
    import_extra("optuna", "search")
    if not losses_compare([run.recipe for run in at_ends.runs]):
        raise InputError(
            "a search compares validation losses per token, which cannot be compared across tokenizers or validation "
            "texts. Try such values with --grid, and compare BLEU"
        )
    stored = stored_combinations(at_ends.folder)
    trials = list(stored.values())[1:]
    is_search = list(stored) == list(_rows(trials)) if stored else True
    if not is_search or not all(holds(space, trial) for trial in trials):
        raise InputError(
            f"--output_dir {at_ends.folder} contains another sweep, or a search with trials outside this space. Widen "
            "the space, or choose another folder."
        )
    return Search(request, space, trials, check_sweep(replace(request, rows=_rows(trials)), []))


def run_search(search: Search, jobs: int | None = None) -> SweepReport:
    """Propose and train trials until there are enough, or nothing new is found; each round writes the table.

    Args:
        jobs: runs side by side; by default as many as the machine allows. With another number, a resumed search
            continues in rounds of another size.

    Raises:
        InputError: if another sweep holds the folder.
        TrainingInterrupted: on SIGTERM or Ctrl-C; the same call resumes.
    """
    request, trials = search.request, search.trials
    if not jobs:
        jobs = min(runs_side_by_side(search.plan), max(request.trials // ROUNDS, 1) * len(request.seeds))
    in_round = max(jobs // len(request.seeds), 1)
    if not trials:  # the first row is part of the first round, whose trials are random
        trials = propose(search, [], [], min(in_round - 1, request.trials))
    failed: dict[str, Outcome] = {}
    while True:
        plan = check_sweep(replace(request, rows=_rows(trials)), [], reads_inputs=False)
        report = run_sweep(plan, jobs, failed, is_draft=True)
        # A failed run is tried again by the next command, not in each round of this one.
        failed = {run.folder: Outcome(run.exit_code, run.error) for run in report.failed}
        losses = [result.full_loss for result in report.combinations[1:]]
        new = propose(search, trials, losses, min(in_round, request.trials - len(trials)))
        if not new:
            if len(trials) < request.trials:
                print(
                    f"The search ended after {counted(len(trials), 'trial')}: it found no new values", file=sys.stderr
                )
            return run_sweep(plan, jobs, failed)
        trials = [*trials, *new]


def propose(search: Search, trials: list[Trial], losses: list[float | None], number: int) -> list[Trial]:
    """New trials: at most `number`, fewer if nothing new is found.

    Args:
        trials: all trials so far.
        losses: the validation loss of each; `None` if it failed.
    """
    optuna: Any = import_extra("optuna", "search")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space, states = search.space, optuna.trial.TrialState
    distributions = {key: _distribution(part) for key, part in space.items()}
    # Seeded with the number of trials, so that a resumed search makes the same proposals.
    sampler = optuna.samplers.TPESampler(seed=len(trials), constant_liar=True)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    for trial, loss in zip(trials, losses):
        state = states.FAIL if loss is None else states.COMPLETE
        values = {key: part.value(trial[key]) for key, part in space.items()}
        study.add_trial(optuna.trial.create_trial(state=state, params=values, distributions=distributions, value=loss))
    found: list[Trial] = []
    misses = 0
    while len(found) < number and misses < PATIENCE:
        asked = study.ask(distributions)
        texts = {key: part.text(asked.params[key]) for key, part in space.items()}
        if texts in trials or texts in found or not _makes_a_recipe(search.request, texts):
            misses += 1  # the trial stays open in the study, which then looks elsewhere
        else:
            found.append(texts)
            misses = 0
    return found


def _distribution(part: Range | Choice) -> Any:
    optuna: Any = import_extra("optuna", "search")
    if isinstance(part, Choice):
        return optuna.distributions.CategoricalDistribution(part.values)
    if part.is_whole:
        return optuna.distributions.IntDistribution(int(part.low), int(part.high), log=part.is_log)
    return optuna.distributions.FloatDistribution(part.low, part.high, log=part.is_log)


def _rows(trials: list[Trial]) -> dict[str, Trial]:
    """The rows of a sweep: the recipe as it is, followed by the trials."""
    return {BASELINE: {}} | {TRIAL.format(number=number): trial for number, trial in enumerate(trials, start=1)}


def _makes_a_recipe(request: SweepRequest, trial: Trial) -> bool:
    """Whether a trial makes a valid recipe that differs from the one that the search starts from."""
    try:
        make_plan(replace(request, rows=_rows([trial])), [])
    except InputError:
        return False
    return True

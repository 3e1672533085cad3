"""Trains the trials of a sweep with Ray Tune, on this machine or on a cluster. Importing this module needs Ray."""

import math
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.search import Searcher

from ..errors import TrainingInterrupted
from ..runtime.launcher import THREADS, is_set, threads_of_user
from ..runtime.ray_actors import ray_session
from ..runtime.signals import StopSignals
from .command import log_file, train_runs
from .request import Run

Errors = list[str | None]  # of the runs of a trial
TRAIN = ("-m", "hf_vaswani", "train")
# Runs end by themselves once they have saved their states, so Ray must not kill them.
SETTINGS = {
    "RAY_kill_child_processes_on_worker_exit": "false", "RAY_worker_niceness": "0", "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "TUNE_DISABLE_SIGINT_HANDLER": "1",
}  # fmt: skip
# Where Ray has its own files, in the sweep's folder until the end.
OF_RAY = ".ray"
# How often a trial is started again, elsewhere if need be, after its machine or process was lost.
RETRIES = 8


class Trials(Searcher):
    """Gives Ray Tune one trial after another: runs that are trained one after another.

    Args:
        recipe: as it was given.
        next_trial: called for the runs of the next trial; none end the sweep.
        on_end: called with the runs of a trial, and what went wrong with each, if anything.
    """

    def __init__(self, recipe: str, next_trial: Callable[[], list[Run]], on_end: Callable[[list[Run], Errors], None]):
        super().__init__(metric="failed", mode="min")
        self._recipe, self._next, self._on_end = recipe, next_trial, on_end
        self._running: dict[str, list[Run]] = {}
        self.options: list[str] = []  # for all runs, after their own

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """The settings of the next trial, for [`train_runs`]."""
        self._running[trial_id] = runs = self._next()
        for run in runs:
            say(f"{run.folder.name}: started; its log is {log_file(run.folder)}")
        commands = [[str(run.folder), *TRAIN, self._recipe, *run.options, *self.options] for run in runs]
        settings = {"commands": commands, "place": os.getcwd(), "threads": os.environ.get(THREADS)}
        return settings if runs else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Pass on how the runs of a trial ended."""
        runs = self._running.pop(trial_id)
        errors = result["errors"] if result else ["its process was lost too many times"] * len(runs)
        for run, wrong in zip(runs, errors):
            say(f"{run.folder.name}: {f'failed: {wrong}' if wrong else 'finished'}")
        self._on_end(runs, errors)

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: the sweep's folder has all that is needed."""

    restore = save


class StopCallback(tune.Callback):
    """Ends a sweep at the first step of Ray Tune after a signal."""

    def __init__(self, stop: StopSignals):
        self._stop = stop

    def on_step_begin(self, iteration: int, trials: list, **info: Any) -> None:
        if self._stop.received:
            message = f"Stopped by {self._stop.name}; runs save their states. Run the same command again to resume."
            raise TrainingInterrupted(message, self._stop.received)


def train_trials(trials: Trials, number: int, folder: Path, threads: int, jobs: int | None, most: int) -> None:
    """Train at most a number of trials in a session of Ray; [`TrainingInterrupted`] on SIGTERM or Ctrl-C.

    Args:
        folder: of the sweep.
        threads, jobs, most: see [`divide_machines`].
    """
    os.environ.update(SETTINGS)
    # The handlers come last, as Ray sets its own.
    with ray_session(), StopSignals() as stop:
        resources, at_once, own = divide_machines(threads, jobs, most)
        trials.options = [f"--training.cpu_threads={own}"] if own else []
        try:
            tune.run(
                train_runs,
                search_alg=trials,
                num_samples=number,
                max_concurrent_trials=at_once,
                resources_per_trial=resources,
                max_failures=RETRIES,
                raise_on_failed_trial=False,
                reuse_actors=True,
                storage_path=str(folder.resolve() / OF_RAY),
                trial_dirname_creator=lambda trial: trial.trial_id,
                callbacks=[StopCallback(stop)],
                verbose=0,
            )
        finally:
            shutil.rmtree(folder / OF_RAY, ignore_errors=True)


def divide_machines(threads: int, jobs: int | None, most: int) -> tuple[dict[str, float], int, int | None]:
    """The resources of each trial, how many run side by side, and the threads of each on a CPU if it has none.

    Args:
        threads: those that recipes ask for; 0 if none does.
        jobs: the number of trials side by side that the user asks for, if any.
        most: their number otherwise, at most.
    """
    total, is_cpu = ray.cluster_resources(), is_set("ACCELERATE_USE_CPU")
    if not is_cpu and (gpus := int(total.get("GPU", 0))):
        at_once = jobs or min(gpus, most)
        return {"cpu": 0, "gpu": 1 / math.ceil(at_once / gpus)}, at_once, None
    if not is_cpu and torch.backends.mps.is_available():
        return {"cpu": 1}, jobs or 1, None
    asked = threads or threads_of_user()
    at_once = jobs or max(min(int(total["CPU"]) // (asked or 1), most), 1)
    largest = int(max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"]))
    share = total["CPU"] / at_once
    own = asked or min(max(int(share), 1), largest)
    return {"cpu": min(own, largest, int(share) or share)}, at_once, None if threads else own


def say(line: str) -> None:
    """Print a line about progress, on a terminal only."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)

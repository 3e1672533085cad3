"""Trains the runs of a sweep with Ray Tune, on this machine or on a cluster, each run as a command with its own log.

A run resumes itself, and ends with the process that started it, so a sweep that was killed is simply started again.
Importing this module needs Ray.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import torch
from ray import tune
from ray.tune.search import Searcher

from ..errors import TrainingInterrupted
from ..files import locked
from ..runtime.launcher import BETWEEN_LOOKS, PARENT, THREADS, is_set, threads_of_user
from ..runtime.ray_actors import ray_session
from ..runtime.signals import StopSignals
from .runs import Run

TRAIN = ("-m", "hf_vaswani", "train")
# Runs end by themselves once they have saved their states, so Ray must not kill them.
SETTINGS = {
    "RAY_kill_child_processes_on_worker_exit": "false", "RAY_worker_niceness": "0", "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "TUNE_DISABLE_SIGINT_HANDLER": "1",
}  # fmt: skip
# For Ray's own files, in the sweep's folder until the end.
OF_RAY = ".ray"
# How often a trial is started again, elsewhere if need be, after its machine or process was lost.
RETRIES = 8
# Seconds in which the runs of a killed sweep end: they notice that it is gone, but only once they have imported all
# that they need.
ENDING = 60.0
# Bytes at the end of a log in which to look for an error.
TAIL = 20_000


class Trials(Searcher):
    """Gives Ray Tune one trial after another: runs that are trained one after another.

    Args:
        recipe: as it was given.
        next_trial: called for the runs of the next trial; none end the sweep.
        on_end: called with the runs of a trial, and what went wrong with each, if anything.

    Attributes:
        options: for all runs, after their own.
    """

    def __init__(
        self,
        recipe: str,
        next_trial: Callable[[], list[Run]],
        on_end: Callable[[list[Run], list[str | None]], None],
    ):
        super().__init__(metric="failed", mode="min")
        self._recipe, self._next, self._on_end = recipe, next_trial, on_end
        self._running: dict[str, list[Run]] = {}
        self.options: list[str] = []

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """The settings of the next trial, for [`train_runs`]."""
        self._running[trial_id] = runs = self._next()
        if not runs:
            return Searcher.FINISHED
        for run in runs:
            say(f"{run.folder.name}: started; its log is {log_file(run.folder)}")
        commands = [[str(run.folder), *TRAIN, self._recipe, *run.options, *self.options] for run in runs]
        return {"commands": commands, "place": os.getcwd(), "threads": os.environ.get(THREADS)}

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
    """Train trials in a session of Ray.

    Args:
        number: of trials, at most.
        folder: of the sweep.
        threads, jobs, most: see [`divide_machines`].

    Raises:
        InputError: Ray cannot be started.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
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
    """The resources of each trial, how many run side by side, and the threads of each on a CPU.

    By default, each GPU gets a run. On CPUs, there are as many runs as the cores can give the threads that recipes or
    OMP_NUM_THREADS ask for (one if neither does); if neither does, the cores are divided among them.

    Args:
        threads: those that recipes ask for; 0 if none does.
        jobs: the number of runs side by side that the user asks for, if any.
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
    share = total["CPU"] / at_once
    largest = max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"])
    own = asked or int(min(max(share, 1), largest))
    return {"cpu": min(own, int(largest), int(share) or share)}, at_once, None if threads else own


def train_runs(settings: dict[str, Any]) -> dict[str, Any]:
    """Train the runs of a trial, in a process of Ray; return what went wrong with each, if anything."""
    environment = {**os.environ, PARENT: str(os.getpid())}
    environment.pop(THREADS, None)  # which Ray sets
    environment |= {THREADS: settings["threads"]} if settings["threads"] else {}
    errors = []
    for folder, *command in settings["commands"]:
        try:
            errors.append(_train_run(Path(settings["place"], folder), command, settings["place"], environment))
        except OSError as error:
            errors.append(f"{error.filename}: {error.strerror}")
    return {"errors": errors, "failed": len(errors) - errors.count(None)}


def _train_run(folder: Path, command: list[str], place: str, environment: dict[str, str]) -> str | None:
    """Train a run with its command, in a place that its paths refer to; return what went wrong."""
    _wait_until_free(folder)
    with log_file(folder).open("ab") as log:
        begin = log.tell()
        # In a session of its own: Ctrl-C reaches only the sweep, whose end the run notices.
        output = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
        code = subprocess.Popen([sys.executable, *command], cwd=place, env=environment, **output).wait()
    if code < 0:
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{hint}"
    return f"exit status {code}: {last_error(log_file(folder), begin)}" if code else None


def _wait_until_free(folder: Path) -> None:
    """Wait for the end of a killed sweep's run."""
    end = time.monotonic() + ENDING
    while folder.exists() and time.monotonic() < end:
        try:
            with locked(folder):
                return
        except BlockingIOError:
            time.sleep(BETWEEN_LOOKS)


def log_file(folder: Path) -> Path:
    """The log of a run, beside its folder."""
    return folder.with_name(f"{folder.name}.log")


def last_error(log: Path, begin: int) -> str:
    """The last error line of a log from a certain byte on, or else its last line."""
    with log.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - TAIL))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["the log is empty"])[-1]


def say(line: str) -> None:
    """Print a line about progress, on a terminal only."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)

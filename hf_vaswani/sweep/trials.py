"""Trains the runs of a sweep with Ray, on this machine or on a cluster, each as a command `hf-vaswani train`.

Ray's processes import this module, too, so it imports little of what a training run needs.
"""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch

from ..errors import TrainingInterrupted
from ..files import replace_link
from ..ledger import locked
from ..runtime.launcher import BETWEEN_LOOKS, PARENT, THREADS, is_set, threads_of_user
from ..runtime.ray_actors import RETRIES, ray_session
from ..runtime.signals import StopSignals

if TYPE_CHECKING:
    from .request import Run

Errors = list[str | None]  # of the runs of a trial
TRAIN = ("-m", "hf_vaswani", "train")
# Runs end by themselves once they have saved their states, so Ray must not kill them.
SETTINGS = {"RAY_kill_child_processes_on_worker_exit": "false", "RAY_worker_niceness": "0"}
# Seconds in which the runs of a killed sweep end: they notice that it is gone, but only once they have imported all
# that they need.
ENDING = 60.0
# Bytes at the end of a log in which to look for an error.
TAIL = 20_000


def train_trials(
    recipe: str,
    trials: Iterator[list["Run"]],
    on_end: Callable[[list["Run"], Errors], None],
    threads: int,
    jobs: int | None,
    most: int,
) -> None:
    """Train trials in a session of Ray: the runs of each one after another.

    Args:
        recipe: as it was given.
        trials: their runs; read as machines become free.
        on_end: called with the runs of a trial, and what went wrong with each, if anything.
        threads, jobs, most: see [`divide_machines`].

    Raises:
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    os.environ.update(SETTINGS)
    # The handlers come last, as Ray sets its own.
    with ray_session(), StopSignals() as stop:
        resources, at_once, own = divide_machines(threads, jobs, most)
        # Started again, elsewhere if need be, when its machine or process was lost.
        train = ray.remote(train_runs).options(**resources, max_retries=RETRIES)
        running: dict[Any, list[Run]] = {}
        while True:
            while len(running) < at_once and (runs := next(trials, None)):
                for run in runs:
                    print_main(f"{run.folder.name}: started; its log is {log_file(run.folder)}")
                running[train.remote(*make_commands(recipe, runs, own))] = runs
            if not running:
                return
            ended, _ = ray.wait(list(running), timeout=BETWEEN_LOOKS)
            if stop.received:
                message = f"Stopped by {stop.name}; runs save their states. Run the same command again to resume."
                raise TrainingInterrupted(message, stop.received)
            for trial in ended:
                runs = running.pop(trial)
                try:
                    errors = ray.get(trial)
                except ray.exceptions.RayError:
                    errors = ["its process was lost too many times"] * len(runs)
                for run, wrong in zip(runs, errors):
                    print_main(f"{run.folder.name}: {f'failed: {wrong}' if wrong else 'finished'}")
                on_end(runs, errors)


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
        return {"num_cpus": 0, "num_gpus": 1 / math.ceil(at_once / gpus)}, at_once, None
    if not is_cpu and torch.backends.mps.is_available():
        return {"num_cpus": 1}, jobs or 1, None
    asked = threads or threads_of_user()
    at_once = jobs or max(min(int(total["CPU"]) // (asked or 1), most), 1)
    largest = int(max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"]))
    share = total["CPU"] / at_once
    own = asked or min(max(int(share), 1), largest)
    return {"num_cpus": min(own, largest, int(share) or share)}, at_once, None if threads else own


def make_commands(recipe: str, runs: list["Run"], threads: int | None) -> tuple[list[list[str]], str, str | None]:
    """The arguments of [`train_runs`] for a trial."""
    options = [f"--training.cpu_threads={threads}"] if threads else []
    commands = [[str(run.folder), *TRAIN, recipe, *run.options, *options] for run in runs]
    return commands, os.getcwd(), os.environ.get(THREADS)


def train_runs(commands: list[list[str]], place: str, threads: str | None) -> Errors:
    """Train the runs of a trial, one after another; return what went wrong with each, if anything.

    Args:
        commands: the folder and the arguments of Python for each run.
        place: what relative paths refer to.
        threads: the user's OMP_NUM_THREADS, in place of Ray's.
    """
    environment = {name: value for name, value in os.environ.items() if name != THREADS}
    environment |= {PARENT: str(os.getpid()), **({THREADS: threads} if threads else {})}
    errors = []
    for folder, *arguments in commands:
        try:
            errors.append(_train_run(Path(place, folder), arguments, place, environment))
        except OSError as error:
            errors.append(f"{error.filename}: {error.strerror}")
    return errors


def log_file(folder: Path) -> Path:
    """The log of a run, beside its folder."""
    return folder.with_name(f"{folder.name}.log")


def _train_run(folder: Path, arguments: list[str], place: str, environment: dict[str, str]) -> str | None:
    _wait_until_free(folder)
    replace_link(log_file(folder))
    with log_file(folder).open("ab") as log:
        begin = log.tell()
        # In a session of its own: Ctrl-C reaches only the sweep, whose end the run notices.
        output = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
        code = subprocess.Popen([sys.executable, *arguments], cwd=place, env=environment, **output).wait()
    if code < 0:
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return f"killed by {signal.Signals(-code).name}{hint}"
    return f"exit status {code}: {_last_error(log_file(folder), begin)}" if code else None


def _wait_until_free(folder: Path) -> None:
    """Wait for the end of a killed sweep's run."""
    end = time.monotonic() + ENDING
    while folder.exists() and time.monotonic() < end:
        try:
            with locked(folder.resolve()):
                return
        except BlockingIOError:
            time.sleep(BETWEEN_LOOKS)


def _last_error(log: Path, begin: int) -> str:
    """The last error line of a log from a certain byte on, or else its last line."""
    with log.open("rb") as file:
        file.seek(max(begin, file.seek(0, os.SEEK_END) - TAIL))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["the log is empty"])[-1]


def print_main(line: str) -> None:
    """Print a line about progress, on a terminal only."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)

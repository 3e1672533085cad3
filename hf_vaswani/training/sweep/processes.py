"""The runs of a sweep as processes, several at a time, each with a log beside its folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...errors import TrainingInterrupted
from ...files import replace_link
from ...runtime.launcher import PARENT
from ...runtime.signals import StopSignals
from .plan import Run
from .slots import VISIBLE_DEVICES, Slot

BETWEEN_LOOKS = 0.1
# Bytes at the end of a log in which to look for an error.
TAIL = 20_000
LOG_ENDING = ".log"


@dataclass(frozen=True)
class Outcome:
    """How the process of a run ended.

    Attributes:
        exit_code: 0 for a finished run; negative if a signal ended it.
        error: the last line about what went wrong; `None` for a finished run.
    """

    exit_code: int
    error: str | None = None


@dataclass(frozen=True, eq=False)
class Started:
    """A run whose process was started.

    Attributes:
        log_begin: the byte of the log at which the output of this process begins.
    """

    run: Run
    process: subprocess.Popen
    log_begin: int


def run_all(
    runs: list[Run],
    recipe: str,
    slots: list[Slot],
    inherited: int | None,
    on_start: Callable[[Run], None],
    on_end: Callable[[Run, Outcome], None],
) -> None:
    """Train all runs, as many at a time as there are slots. A run that fails does not stop the others.

    Args:
        recipe: file or name, as it was given.
        inherited: a file descriptor that the processes keep open.
        on_start, on_end: called when a run starts and when it ends.

    Raises:
        TrainingInterrupted: on SIGTERM or Ctrl-C, once all runs have saved their states and ended.
    """
    waiting, free, running = list(runs), list(slots), {}
    with StopSignals() as stop:
        try:
            while (waiting and not stop.received) or running:
                while waiting and free and not stop.received:
                    run, slot = waiting.pop(0), free.pop(0)
                    on_start(run)
                    running[_start(run, recipe, slot, inherited)] = slot
                if stop.received:
                    _stop(list(running))
                    break
                for started in [started for started in running if started.process.poll() is not None]:
                    free.append(running.pop(started))
                    on_end(started.run, _outcome(started))
                time.sleep(BETWEEN_LOOKS)
        finally:
            for started in running:
                if started.process.poll() is None:
                    started.process.kill()
                    started.process.wait()
    if stop.received:
        for started in running:
            if started.process.returncode == 0:
                on_end(started.run, Outcome(0))
        message = f"Stopped by {stop.name}; all runs have saved their states. Run the same command again to resume."
        raise TrainingInterrupted(message, stop.received)


def train_command(recipe: str, options: list[str]) -> list[str]:
    """The command that trains a run."""
    return [sys.executable, "-m", "hf_vaswani", "train", recipe, *options]


def log_file(folder: Path) -> Path:
    """The log file of a run, beside its folder."""
    return folder.with_name(folder.name + LOG_ENDING)


def _start(run: Run, recipe: str, slot: Slot, inherited: int | None) -> Started:
    """Start the process of a run."""
    options = [*run.options] + ([f"--training.cpu_threads={slot.threads}"] if slot.threads else [])
    environment = {**os.environ, PARENT: str(os.getpid())}
    if slot.gpu is not None:
        environment[VISIBLE_DEVICES] = slot.gpu
    path = log_file(run.folder)
    replace_link(path)
    with path.open("ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            train_command(recipe, options),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=() if inherited is None else (inherited,),
            # Ctrl-C reaches only the sweep, which stops its runs.
            start_new_session=True,
        )
    return Started(run, process, begin)


def _stop(running: list[Started]) -> None:
    """Tell all runs to save their states, and wait until they have ended."""
    for started in running:
        started.process.send_signal(signal.SIGTERM)
    while any(started.process.poll() is None for started in running):
        time.sleep(BETWEEN_LOOKS)


def _outcome(started: Started) -> Outcome:
    code = started.process.returncode
    if code == 0:
        return Outcome(0)
    if code < 0 and -code != signal.SIGTERM:
        hint = " (out of memory?)" if -code == signal.SIGKILL else ""
        return Outcome(code, f"killed by {signal.Signals(-code).name}{hint}")
    return Outcome(code, last_error(log_file(started.run.folder), started.log_begin))


def last_error(log: Path, begin: int = 0) -> str:
    """The last error line of a log, or else its last line.

    Args:
        begin: the byte from which to look.
    """
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(begin, end - TAIL))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError as error:
        return f"the log cannot be read: {error.strerror}"
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["the log is empty"])[-1]

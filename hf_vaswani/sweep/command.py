"""Trains runs with `hf-vaswani train`, in a process of Ray that need not import what a training needs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..files import replace_link
from ..ledger import locked
from ..runtime.launcher import BETWEEN_LOOKS, PARENT, THREADS

# Seconds in which the runs of a killed sweep end: they notice that it is gone, but only once they have imported all
# that they need.
ENDING = 60.0
# Bytes at the end of a log in which to look for an error.
TAIL = 20_000


def train_runs(settings: dict[str, Any]) -> dict[str, Any]:
    """Train the runs of a trial, one after another; return what went wrong with each, if anything.

    Args:
        settings: the folder and the arguments of Python for each run; the place that relative paths refer to, and
            the user's OMP_NUM_THREADS, in place of Ray's.
    """
    environment = {name: value for name, value in os.environ.items() if name != THREADS}
    environment |= {PARENT: str(os.getpid()), **({THREADS: settings["threads"]} if settings["threads"] else {})}
    errors = []
    for folder, *arguments in settings["commands"]:
        try:
            errors.append(_train_run(Path(settings["place"], folder), arguments, settings["place"], environment))
        except OSError as error:
            errors.append(f"{error.filename}: {error.strerror}")
    return {"errors": errors, "failed": len(errors) - errors.count(None)}


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

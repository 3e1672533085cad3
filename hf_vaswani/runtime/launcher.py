"""What started this process: torchrun, `accelerate launch`, or the user; and with which options."""

import os
import signal
import threading
import time
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

import psutil

# Environment variables that torchrun and Accelerate's launcher set in the processes that they start, and the words in
# their own command lines, without folders and extensions.
TORCHRUN = "TORCHELASTIC_RUN_ID"
MARKS = (TORCHRUN, "ACCELERATE_DYNAMO_BACKEND")
ACCELERATE = {"accelerate", "accelerate-launch", "accelerate.commands"}
COMMANDS = ACCELERATE | {"torchrun", "torch.distributed"}
THREADS = "OMP_NUM_THREADS"
# Holds the id of the process that started this one as part of its work; this one ends when that one does.
PARENT = "HF_VASWANI_PARENT"
# Seconds between checks for the launcher, and until a process that does not stop by itself is ended.
BETWEEN_LOOKS, GRACE = 0.5, 5.0


def is_launched() -> bool:
    """Whether a launcher started this process."""
    return any(mark in os.environ for mark in MARKS)


def launcher() -> psutil.Process | None:
    """The launcher that started this process, directly or through a script; `None` if none is visible."""
    if is_launched():
        with suppress(psutil.Error):
            for process in psutil.Process().parents():
                if COMMANDS & {Path(word).stem for word in process.cmdline()[:4]}:
                    return process
    return None


def threads_of_user() -> int | None:
    """The number of threads that the user asks for with OMP_NUM_THREADS or an option of the launcher, if any.

    Launchers set OMP_NUM_THREADS=1 in their processes if the user does not. Such a value is ignored; it is recognized
    by the options and the environment that the launcher itself was started with.
    """
    text = os.environ.get(THREADS, "").split(",")[0].strip()
    if not (text.isdecimal() and int(text)):
        return None
    if is_launched() and not _is_from_user(launcher(), int(text)):
        return None
    return int(text)


def _is_from_user(process: psutil.Process | None, threads: int) -> bool:
    try:
        is_option = any("num_cpu_threads_per_process" in word.replace("-", "_") for word in process.cmdline())
        return is_option or THREADS in process.environ()
    except (psutil.Error, AttributeError):  # no launcher is visible
        return threads > 1


def accelerate_options(command: list[str]) -> Namespace | None:
    """The options in a command line of `accelerate launch`, as it parses them; `None` for any other command."""
    from accelerate.commands.launch import launch_command_parser

    start = next((i + 1 for i, word in enumerate(command[:4]) if Path(word).stem in ACCELERATE), None)
    if start is None:
        return None
    start += command[start : start + 1] == ["launch"]
    try:
        return launch_command_parser().parse_args(command[start:])
    except (SystemExit, Exception):  # a version with other options
        return None


def requested_processes() -> int | None:
    """How many processes the options or config file of `accelerate launch` ask for; `None` if neither says."""
    from accelerate.commands.config.config_args import default_config_file, load_config_from_file

    process = launcher()
    try:
        options = accelerate_options(process.cmdline()) if process else None
        if options is None:
            return None
        file = options.config_file or (default_config_file if os.path.isfile(default_config_file) else None)
        from_file = load_config_from_file(file).num_processes if file and not options.cpu else None
        return options.num_processes if options.num_processes is not None else from_file
    except Exception:  # the launcher itself reports errors in its config
        return None


def is_set(variable: str) -> bool:
    """Whether an environment variable is true, as Accelerate reads it."""
    return os.environ.get(variable, "false").lower() in ("true", "1", "yes", "y", "on", "t")


def processes_started() -> int:
    """How many processes the launcher has started, on all machines; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", 1)) if is_launched() else 1


def process_errors(known: int) -> list[str]:
    """Errors for processes that were requested but are missing, or that do not know of each other.

    Args:
        known: number of processes that know of each other.
    """
    started, requested = int(os.environ.get("WORLD_SIZE", 1)), requested_processes()
    if started > known:
        # On a CPU, Accelerate looks for other processes only on request.
        return [
            f"The launcher started {started} processes that do not know of each other: each would work alone. On "
            "CPUs, set ACCELERATE_USE_CPU=true."
        ]
    if requested and requested > known:
        return [
            f"accelerate launch was set to start {requested} processes but started {known}: it cannot start more on "
            f"CPUs. Use ACCELERATE_USE_CPU=true torchrun --nproc_per_node {requested}, or give accelerate launch "
            "--num_processes 1."
        ]
    return []


def end_with_launcher() -> None:
    """From now on, end this process when its launcher is killed: it may be waiting for others that never come.

    It gets SIGTERM, so that it can save, and is ended after a few seconds at the latest. The same goes for a run of a
    sweep, which would otherwise keep writing while a new sweep resumes it.
    """
    process, parent = launcher(), os.environ.get(PARENT, "")
    is_child = TORCHRUN in os.environ or (process is not None and process.pid == os.getppid())
    if (is_child or parent.isdecimal()) and os.name == "posix":
        # A sweep may have been killed before this process got here.
        followed = int(parent) if parent.isdecimal() else os.getppid()
        threading.Thread(target=_follow, args=(followed,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:  # an orphan gets another parent
        time.sleep(BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)

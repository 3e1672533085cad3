"""Starts a replay: in this process, or in as many as the run had, since each process draws its own dropout."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import torch

from ...errors import InputError, TrainingError, TrainingInterrupted
from ...runtime.launcher import BETWEEN_LOOKS
from ...runtime.signals import StopSignals
from .replay import Replayed, ReplayJob, replay

USE_CPU = "ACCELERATE_USE_CPU"
JOB_FILE, RESULT_FILE, ERRORS_FILE = "job.json", "result.json", "errors.txt"
# How many lines of output to show from processes that failed.
SHOWN = 20


def run_job(job: ReplayJob, folder: Path) -> Replayed:
    """Replay a job with as many processes as the run had, on the same kind of device if this machine has it.

    Args:
        folder: for the files that processes exchange.

    Raises:
        InputError, TrainingError, TrainingInterrupted: as [`replay`] does.
    """
    environment = job.environment
    on_cpu = environment.device == "cpu" or torch.cuda.device_count() < environment.processes
    if environment.processes > 1:
        return _in_processes(job, environment.processes, on_cpu, folder)
    # What a run prints while it trains does not belong in the output of a verification.
    with _devices(on_cpu), redirect_stdout(sys.stderr):
        return replay(job)


@contextmanager
def _devices(on_cpu: bool) -> Iterator[None]:
    before = os.environ.get(USE_CPU)
    try:
        if on_cpu:
            os.environ[USE_CPU] = "true"
        yield
    finally:
        os.environ.pop(USE_CPU, None)
        if before is not None:
            os.environ[USE_CPU] = before


def _in_processes(job: ReplayJob, processes: int, on_cpu: bool, folder: Path) -> Replayed:
    (folder / JOB_FILE).write_text(job.model_dump_json(), encoding="utf-8")
    for name in (RESULT_FILE, ERRORS_FILE):
        (folder / name).unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command += ["-m", "hf_vaswani.training.replay.worker", str(folder)]
    with StopSignals() as stop:
        output = _output(command, {**os.environ, **({USE_CPU: "true"} if on_cpu else {})}, stop)
    if stop.received:
        raise TrainingInterrupted(f"Stopped by {stop.name}.", stop.received)
    if (folder / ERRORS_FILE).exists():
        raise InputError((folder / ERRORS_FILE).read_text(encoding="utf-8"))
    if not (folder / RESULT_FILE).exists():
        last = "\n".join(output.splitlines()[-SHOWN:])
        raise TrainingError(f"{processes} processes could not replay the run:\n{last}")
    return Replayed.model_validate_json((folder / RESULT_FILE).read_text(encoding="utf-8"))


def _output(command: list[str], environment: dict[str, str], stop: StopSignals) -> str:
    """What a launcher and its processes print until they end, or until a signal stops them."""
    launcher = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Ctrl-C reaches only this process, which stops them.
        start_new_session=True,
    )
    is_told = False
    try:
        while True:
            try:
                return launcher.communicate(timeout=BETWEEN_LOOKS)[0]
            except subprocess.TimeoutExpired:
                if stop.received and not is_told:
                    launcher.terminate()
                    is_told = True
    finally:
        # After a second Ctrl-C; the launcher's processes end with it.
        if launcher.poll() is None:
            launcher.kill()
            launcher.wait()

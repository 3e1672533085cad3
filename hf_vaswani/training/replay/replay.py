"""Replays steps of a run, recorded as the run recorded them: with its precision, threads, loop, and processes.

Each process draws its own dropout. A run with several is therefore replayed by as many, which exchange two files with
this one.
"""

import copy
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from tqdm import tqdm

from ...errors import InputError, TrainingError, TrainingInterrupted
from ...files import collect_errors
from ...records.trail import RunTrace
from ...runtime.launcher import BETWEEN_LOOKS, end_with_launcher
from ...runtime.signals import StopSignals
from ...runtime.threads import share_of_cores
from ..build import TrainingSetup, build
from ..check import check
from ..checkpoints.checkpoint import WEIGHTS_FILE, check_fits
from ..optimization.progress import Progress, StepResult
from ..optimization.step_batches import StepBatches
from ..optimization.weights import Tensors, gather_weights
from ..recipe.recipe import Recipe
from ..recorder import TrailRecorder, describe_beginning
from ..run import TrainingRun
from ..train import processes_of

USE_CPU, TRAINER = "ACCELERATE_USE_CPU", "trainer"
WORKER = "import sys; from hf_vaswani.training.replay.replay import work; work(sys.argv[1])"
JOB_FILE, RESULT_FILE = "job.pickle", "result.pickle"
# How many lines of output to show from processes that failed.
SHOWN = 20


@dataclass(frozen=True)
class Part:
    """Consecutive steps of a run, made with the same device, processes, precision and loop.

    Attributes:
        first, last: the first and the last step; the last one is recorded in the trail.
        checkpoint: the one that the steps start from; `None` for the start of the run.
        target: the checkpoint that the steps lead to, if it still exists.
    """

    first: int
    last: int
    checkpoint: Path | None = None
    target: Path | None = None

    def __str__(self) -> str:
        steps = f"steps {self.first:,} to {self.last:,}" if self.last > self.first else f"step {self.first:,}"
        return f"{steps}, from {self.checkpoint.name}" if self.checkpoint else steps


@dataclass(frozen=True)
class Replayed:
    """The result of replaying a part.

    Attributes:
        trail: how the run began here, the environments here, and the steps that the run recorded, too.
        distance: between the final weights and those of the run, relative to the norm of the latter; `None` if the
            run's weights are missing, or have other names or shapes.
        fits: whether the model made here has the shapes of the checkpoint; otherwise nothing was replayed.
    """

    part: Part
    trail: RunTrace
    distance: float | None
    fits: bool


class ReplayRun(TrainingRun):
    """A run that ends after a given step and neither validates nor saves."""

    last: int

    def is_over(self) -> bool:
        return self.progress.step >= self.last

    def needs_sync(self, batches: StepBatches) -> bool:
        return super().needs_sync(batches) or self.progress.step + 1 >= self.last

    def validate(self) -> None:
        pass

    def save(self) -> None:
        pass


class ReplayRecorder(TrailRecorder):
    """Computes each step with as many threads as the run, up to this process's share, and keeps its trail in memory.

    Args:
        then: the trail of the run; steps that it has are recorded here, too.
    """

    def __init__(self, setup: TrainingSetup, run: ReplayRun, then: RunTrace, part: Part):
        super().__init__(setup, run, steps_function(then.environment_at(part.first).loop))
        self.then, self.part = then, part
        self.recorded = {record.step for record in then.steps}
        # Shown only on a terminal, and by one process.
        is_shown = None if run.accelerator.is_main_process else True
        self.bar = tqdm(total=part.last - part.first + 1, unit=" steps", disable=is_shown)
        self.set_threads(part.first)

    def on_run_begin(self, progress: Progress) -> None:
        pass

    def on_step_end(self, result: StepResult) -> None:
        self.bar.update()
        if result.progress.step < self.part.last:
            self.set_threads(result.progress.step + 1)
        super().on_step_end(result)

    def on_run_end(self) -> None:
        self.bar.close()

    def set_threads(self, step: int) -> None:
        """Compute with as many threads as the run had at a step."""
        if self.run.accelerator.device.type == "cpu":
            share = share_of_cores(self.run.accelerator)
            torch.set_num_threads(min(self.then.environment_at(step).threads or share, share))

    def write(self) -> None:
        pass


def replay(recipe: Recipe, then: RunTrace, parts: list[Part]) -> list[Replayed]:
    """Replay parts of the run that left a trail. Must be called in every process.

    Raises:
        InputError: errors in the recipe, the texts or the model to start from, all at once.
        TrainingError: if a checkpoint cannot be read.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    results, beginning = [], None
    with processes_of(recipe) as processes:
        setup = build(check(recipe, processes))
        for part in parts:
            # The initial model stays unchanged for the next part.
            own = replace(setup, model=copy.deepcopy(setup.model))
            misfits: list[str] = []
            if part.checkpoint:
                collect_errors(misfits, partial(check_fits, own.model, part.checkpoint))
            run = ReplayRun(own, None if misfits else part.checkpoint)
            run.last = part.last
            recorder = ReplayRecorder(own, run, then, part)
            here = recorder.describe_environment()
            beginning = beginning or describe_beginning(setup, setup.model, here)
            recorder.trail = beginning.model_copy(update={"environments": [here]})
            run.listeners.append(recorder)
            distance = None if misfits else make_steps(run, recorder, part)
            results.append(Replayed(part, recorder.trail, distance, fits=not misfits))
    return results


def make_steps(run: ReplayRun, recorder: ReplayRecorder, part: Part) -> float | None:
    """Make the steps of a part, and return the distance of the weights from those of the run, if these still exist."""
    try:
        with run.active():
            steps_function(recorder.loop)(run)
    except TrainingInterrupted as error:
        raise TrainingInterrupted(f"Stopped by {run.stop.name}.", error.signal) from None
    own = gather_weights(run.raw_model)
    return weights_distance(own, load_file(part.target / WEIGHTS_FILE)) if part.target else None


def steps_function(loop: str) -> Callable[[TrainingRun], None]:
    """The function that makes the steps, by the name that a trail uses for its loop."""
    if loop == TRAINER:
        # The Trainer takes seconds to import.
        from ..trainer import run_steps
    else:
        from ..loop import run_steps
    return run_steps


def weights_distance(own: Tensors, others: Tensors) -> float | None:
    """The norm of the difference between weights, relative to that of `others`; `None` if names or shapes differ."""
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in others.items()}:
        return None
    difference = math.hypot(*(float((own[name].cpu().double() - others[name]).norm()) for name in others))
    return difference / (math.hypot(*(float(value.double().norm()) for value in others.values())) or 1.0)


def replay_as_launched(recipe: Recipe, then: RunTrace, parts: list[Part], folder: Path) -> list[Replayed]:
    """Replay parts with as many processes as the run had, on the same kind of device if this machine has it.

    Args:
        folder: for the files that processes exchange.

    Raises:
        InputError, TrainingError, TrainingInterrupted: as [`replay`] does.
    """
    environment, before = then.environment_at(parts[0].first), os.environ.get(USE_CPU)
    if environment.device == "cpu" or torch.cuda.device_count() < environment.processes:
        os.environ[USE_CPU] = "true"
    try:
        if environment.processes > 1:
            (folder / JOB_FILE).write_bytes(pickle.dumps((recipe, then, parts)))
            return _launch(environment.processes, folder)
        # What a run prints while it trains does not belong in the output of a verification.
        with redirect_stdout(sys.stderr):
            return replay(recipe, then, parts)
    finally:
        os.environ.pop(USE_CPU, None)
        if before is not None:
            os.environ[USE_CPU] = before


def _launch(processes: int, folder: Path) -> list[Replayed]:
    result = folder / RESULT_FILE
    result.unlink(missing_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}",
               "--no-python", sys.executable, "-c", WORKER, str(folder)]  # fmt: skip
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    # In a session of their own, where Ctrl-C does not reach them.
    with StopSignals() as stop, subprocess.Popen(command, **streams, start_new_session=True) as launcher:
        output = None
        while output is None:
            try:
                output = launcher.communicate(timeout=BETWEEN_LOOKS)[0]
            except subprocess.TimeoutExpired:
                if stop.received:
                    launcher.terminate()
                    launcher.communicate()
        if stop.received:
            raise TrainingInterrupted(f"Stopped by {stop.name}.", stop.received)
    found = pickle.loads(result.read_bytes()) if result.exists() else None
    if isinstance(found, str):
        raise InputError(found)
    if found is None:
        last = "\n".join(output.splitlines()[-SHOWN:])
        raise TrainingError(f"{processes} processes could not replay the run:\n{last}")
    return found


def work(folder: str) -> None:
    """One of several processes that replay the job in a folder; one of them writes the result, or the errors."""
    from hf_vaswani import load

    load()
    end_with_launcher()
    try:
        result = replay(*pickle.loads((Path(folder) / JOB_FILE).read_bytes()))
        is_writer = os.environ["RANK"] == "0"
    except InputError as error:
        result, is_writer = str(error), not error.is_repeated
    if is_writer:
        (Path(folder) / RESULT_FILE).write_bytes(pickle.dumps(result))

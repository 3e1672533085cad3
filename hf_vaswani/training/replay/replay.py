"""Replays steps of a run, recorded as the run recorded them: with its precision, threads, loop, and processes.

Each process draws its own dropout. A run with several is therefore replayed by as many, which a launcher starts.
"""

import copy
import itertools
import math
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from accelerate.utils import patch_environment
from safetensors.torch import load_file
from tqdm import tqdm

from ...errors import InputError, TrainingError, TrainingInterrupted
from ...files import collect_errors
from ...records.trail import RunTrace
from ...runtime.launcher import BETWEEN_LOOKS, end_with_launcher, is_set
from ...runtime.signals import StopSignals, is_first_process
from ...runtime.threads import share_of_cores
from ..build import build
from ..check import check
from ..checkpoints.checkpoint import WEIGHTS_FILE, check_fits
from ..optimization.progress import Progress, StepResult
from ..optimization.step_batches import StepBatches
from ..optimization.weights import gather_weights
from ..recipe.recipe import Recipe
from ..recorder import TrailRecorder, describe_beginning
from ..run import TrainingRun
from ..train import processes_of
from .recorded_run import RecordedRun

USE_CPU, TRAINER = "ACCELERATE_USE_CPU", "trainer"
WORKER = "import sys; from hf_vaswani.training.replay.replay import work; work(sys.argv[1])"
JOB_FILE, RESULT_FILE = "job.pickle", "result.pickle"


@dataclass
class Part:
    """Consecutive steps of a run, made with the same device, processes, precision and loop, and their replay.

    Attributes:
        first, last: the first and the last step; the last one is recorded in the trail.
        checkpoint: the one that the steps start from; `None` for the start of the run.
        target: the checkpoint that the steps lead to, if it still exists.
        trail: the trail of the replay, with the steps that the run recorded. There are none if the model made here has
            other shapes than the checkpoint.
        distance: between the final weights and those of the target, relative to the norm of the latter.
    """

    first: int
    last: int
    checkpoint: Path | None = None
    target: Path | None = None
    trail: RunTrace | None = None
    distance: float | None = None

    def __str__(self) -> str:
        steps = f"steps {self.first:,} to {self.last:,}" if self.last > self.first else f"step {self.first:,}"
        return f"{steps}, from {self.checkpoint.name}" if self.checkpoint else steps


class ReplayRun(TrainingRun):
    """A run that ends after a given step and neither validates nor saves."""

    last: int

    def is_over(self) -> bool:
        return self.progress.step >= self.last

    def needs_sync(self, batches: StepBatches) -> bool:
        return True

    def validate(self) -> None:
        pass

    def save(self) -> None:
        pass


class ReplayRecorder(TrailRecorder):
    """Records the same steps as the run, in memory, and computes each with as many threads, if this machine has them.

    Attributes:
        then: the trail of the run.
    """

    then: RunTrace

    def on_run_begin(self, progress: Progress) -> None:
        self.recorded = {record.step for record in self.then.steps}
        # Shown only on a terminal, and by one process.
        is_hidden = None if self.run.accelerator.is_main_process else True
        self.bar = tqdm(total=self.run.last - progress.step, unit=" steps", disable=is_hidden)

    def on_step_end(self, result: StepResult) -> None:
        self.bar.update()
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


def replay_parts(run: RecordedRun, recipe: Recipe, parts: list[Part], report: Callable[[str], None]) -> list[Part]:
    """Replay parts, with as many processes as the run had, on the same kind of device if this machine has it.

    Neighbors with the same device, processes, precision and loop are replayed together.

    Args:
        report: called with a line about what is to be replayed, before that begins.

    Raises:
        InputError: errors in the recipe, the texts or the model to start from, all at once.
        TrainingError: if a checkpoint cannot be read, or processes fail.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    replayed: list[Part] = []
    groups = itertools.groupby(parts, key=lambda part: run.trail.environment_at(part.first).launch)
    for (device, processes, recipe.training.mixed_precision, loop), group in groups:
        together = list(group)
        by = [f"{processes} processes"] * (processes > 1) + ["transformers' Trainer"] * (loop == TRAINER)
        words = " and ".join(map(str, together)) + (f", with {' and '.join(by)}" if by else "")
        report(f"Replaying {f'{run.name}, ' if run.name else ''}{words}")
        is_on_cpu = is_set(USE_CPU) or device == "cpu" or torch.cuda.device_count() < processes
        # What a run prints while it trains does not belong in the output of a verification.
        with patch_environment(**{USE_CPU: str(is_on_cpu).lower()}), redirect_stdout(sys.stderr):
            replayed += (launch if processes > 1 else replay)(recipe, run.trail, together)
    return replayed


def replay(recipe: Recipe, then: RunTrace, parts: list[Part]) -> list[Part]:
    """Replay parts of the run that left a trail. Must be called in every process."""
    beginning = None
    if then.environment_at(parts[0].first).loop == TRAINER:
        from ..trainer import run_steps  # takes seconds to import
    else:
        from ..loop import run_steps
    with processes_of(recipe) as processes:
        setup = build(check(recipe, processes))
        for part in parts:
            own = replace(setup, model=copy.deepcopy(setup.model))  # the next part begins with the same model
            misfits: list[str] = []
            if part.checkpoint:
                collect_errors(misfits, partial(check_fits, own.model, part.checkpoint))
            run = ReplayRun(own, None if misfits else part.checkpoint)
            recorder = ReplayRecorder(own, run, run_steps)
            run.last, recorder.then = part.last, then
            recorder.set_threads(part.first)
            here = recorder.describe_environment()
            beginning = beginning or describe_beginning(setup, setup.model, here)
            recorder.trail = beginning.model_copy(update={"environments": [here]})
            run.listeners.append(recorder)
            part.distance = None if misfits else make_steps(run, run_steps, part.target)
            part.trail = recorder.trail
    return parts


def make_steps(run: ReplayRun, run_steps: Callable[[TrainingRun], None], target: Path | None) -> float | None:
    """Make the steps of a replay, and return the distance of the weights from those of a checkpoint, if any."""
    try:
        with run.active():
            run_steps(run)
    except TrainingInterrupted as error:
        raise TrainingInterrupted(f"Stopped by {run.stop.name}.", error.signal) from None
    own, others = gather_weights(run.raw_model), load_file(target / WEIGHTS_FILE) if target else {}
    difference = math.hypot(*(float((own[name].cpu().double() - others[name]).norm()) for name in others))
    norm = math.hypot(*(float(value.double().norm()) for value in others.values()))
    return difference / (norm or 1.0) if target else None


def launch(recipe: Recipe, then: RunTrace, parts: list[Part]) -> list[Part]:
    """Call [`replay`] in as many processes as the run had, and return what the first one returns."""
    processes = then.environment_at(parts[0].first).processes
    with tempfile.TemporaryDirectory(prefix="hf-vaswani-") as folder, StopSignals() as stop:
        (Path(folder) / JOB_FILE).write_bytes(pickle.dumps((recipe, then, parts)))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}",
                   "--no-python", sys.executable, "-c", WORKER, folder]  # fmt: skip
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        # In a session of its own, where Ctrl-C does not reach it.
        with subprocess.Popen(command, **streams, start_new_session=True) as launcher:
            output = None
            while output is None and not stop.received:
                with suppress(subprocess.TimeoutExpired):
                    output, _ = launcher.communicate(timeout=BETWEEN_LOOKS)
            launcher.terminate()
            output = launcher.communicate()[0] if output is None else output
        if stop.received:
            raise TrainingInterrupted(f"Stopped by {stop.name}.", stop.received)
        file = Path(folder) / RESULT_FILE
        result = pickle.loads(file.read_bytes()) if file.exists() else None
    if result is None:
        last = "\n".join(output.splitlines()[-20:])
        raise TrainingError(f"{processes} processes could not replay the run:\n{last}")
    if isinstance(result, Exception):
        raise result
    return result


def work(folder: str) -> None:
    """One of several processes that replay the job in a folder; the first writes the result, or the error."""
    from hf_vaswani import load

    load()
    end_with_launcher()
    try:
        result = replay(*pickle.loads((Path(folder) / JOB_FILE).read_bytes()))
    except (InputError, TrainingError) as error:
        result = type(error)(str(error))
    if is_first_process():
        (Path(folder) / RESULT_FILE).write_bytes(pickle.dumps(result))

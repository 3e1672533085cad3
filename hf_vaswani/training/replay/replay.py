"""Replays steps of a run with the settings and processes that it was made with, and records the results."""

import copy
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from tqdm import tqdm

from ...errors import InputError, TrainingInterrupted
from ...hub.trail import FIRST_STEPS, Environment, StepRecord, Trail, TrailPart
from ...runtime.processes import in_all_processes
from ...runtime.threads import share_of_cores
from ..build import TrainingSetup, build
from ..check import check
from ..checkpoints.checkpoint import WEIGHTS_FILE, check_fits
from ..checkpoints.progress import Progress
from ..listeners import StepListener, StepResult
from ..optimization.steps import StepBatches
from ..optimization.weights import Tensors, gather_weights
from ..recipe.recipe import load_recipe
from ..run import TrainingRun
from ..train import processes_of
from .digests import batches_digest
from .loops import TRAINER
from .plan import Part
from .trail import beginning, environment_of, step_record


class JobPart(TrailPart):
    """A [`Part`] with its paths as text; `steps` are the ones to record."""

    first: int
    last: int
    checkpoint: str | None
    target: str | None
    steps: list[int]

    @classmethod
    def of(cls, part: Part, trail: Trail) -> "JobPart":
        """The job part for a part of the run that left this trail."""
        paths = {
            name: str(path) if path else None for name, path in vars(part).items() if name in ("checkpoint", "target")
        }
        steps = [record.step for record in trail.steps if part.first <= record.step <= part.last]
        return cls(first=part.first, last=part.last, steps=steps, **paths)


class ReplayJob(TrailPart):
    """What one launch of processes replays.

    Attributes:
        recipe: path of the YAML file.
        options: recipe keys given in addition to the file.
        environments: the environments of the run.
    """

    recipe: str
    options: list[str]
    environments: list[Environment]
    parts: list[JobPart]

    @property
    def environment(self) -> Environment:
        """The environment in which the run made the first of these steps."""
        return self.environment_of(self.parts[0].first)

    def environment_of(self, step: int) -> Environment:
        """The environment in which the run made a step."""
        return Trail(texts={}, environments=self.environments).environment_of(step)


class ReplayedPart(TrailPart):
    """The results of replaying a part.

    Attributes:
        environments: the environments here, one for each in which the run made the steps.
        distance: between the final weights and those of the run, relative to the norm of the latter; `None` if the
            run's weights are missing, or have other names or shapes.
        fits: whether the model made here has the shapes of the checkpoint; otherwise nothing was replayed.
    """

    environments: list[Environment]
    steps: list[StepRecord]
    distance: float | None = None
    fits: bool = True


class Replayed(TrailPart):
    """The results of a replay; `trail` describes how it began, and has no steps."""

    trail: Trail
    parts: list[ReplayedPart]


class ReplayRun(TrainingRun):
    """A run that ends after a given step and neither validates nor saves."""

    def __init__(self, setup: TrainingSetup, checkpoint: Path | None, last: int):
        super().__init__(setup, checkpoint)
        self.last = last

    def is_over(self) -> bool:
        return self.progress.step >= self.last

    def end_step(self, batches: StepBatches, loss: float | None, is_told_to_stop: bool) -> bool:
        is_over = super().end_step(batches, loss, is_told_to_stop=False)
        if is_told_to_stop and not is_over:
            stop = TrainingInterrupted(f"Stopped by {self.stop.name}.", self.stop.received or signal.SIGTERM)
            raise in_all_processes(self.accelerator, stop)
        return is_over

    def validate(self) -> None:
        pass

    def save(self) -> None:
        pass


class ReplayListener(StepListener):
    """Sets the number of threads that the run had at each step, and records the steps that the run recorded.

    Args:
        share: the most threads that a process may use here.

    Attributes:
        environments: the environments here, one for each in which the run made the steps.
    """

    def __init__(self, run: ReplayRun, job: ReplayJob, part: JobPart, share: int):
        self.run, self.part, self.share = run, part, share
        self.job = job
        self.records: list[StepRecord] = []
        self.environments: list[Environment] = []
        self.bar: tqdm | None = None

    def on_run_begin(self, progress: Progress) -> None:
        steps = self.part.last - progress.step
        # Shown only on a terminal, and by one process.
        self.bar = tqdm(total=steps, unit=" steps", disable=None if self.run.accelerator.is_main_process else True)

    def on_step_end(self, result: StepResult) -> None:
        """Record the step if the run recorded it."""
        step = result.progress.step
        if self.bar is not None:
            self.bar.update()
        if step in self.part.steps:
            processes = self.run.accelerator
            batches = batches_digest(processes, result.batches) if step <= FIRST_STEPS else None
            self.records.append(step_record(self.run, result.loss, batches))
        if step < self.part.last:
            self.set_threads(step + 1)

    def on_run_end(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def set_threads(self, step: int) -> None:
        """Compute with as many threads as the run had at a step, up to what this machine has.

        At the part's first step, and wherever the run's environment changed, the environment here is recorded.
        """
        then = self.job.environment_of(step)
        if self.run.accelerator.device.type == "cpu":
            torch.set_num_threads(min(then.threads or self.share, self.share))
        if step in (self.part.first, then.first_step):
            self.environments.append(environment_of(self.run, then.loop))


def replay(job: ReplayJob) -> Replayed:
    """Replay the steps of a job. Must be called in every process.

    Raises:
        InputError: errors in the recipe, the texts or the model to start from, all at once.
        TrainingError: if a checkpoint cannot be read.
        TrainingInterrupted: on SIGTERM or Ctrl-C.
    """
    recipe = load_recipe(job.recipe, job.options)
    with processes_of(recipe) as processes:
        setup = build(check(recipe, processes))
        share = share_of_cores(processes) if processes.device.type == "cpu" else 0
        parts, trail = [], None
        for part in job.parts:
            # The initial model stays unchanged for the next part.
            own = replace(setup, model=copy.deepcopy(setup.model))
            checkpoint = Path(part.checkpoint) if part.checkpoint else None
            fits = checkpoint is None or is_of_model(checkpoint, own.model)
            run = ReplayRun(own, checkpoint if fits else None, part.last)
            listener = ReplayListener(run, job, part, share)
            run.listeners.append(listener)
            listener.set_threads(part.first)
            trail = trail or beginning(setup, setup.model, listener.environments[0])
            if not fits:
                parts.append(ReplayedPart(environments=listener.environments, steps=[], fits=False))
                continue
            with run.active():
                loop_of(job.environment.loop)(run)
            distance = None
            if part.target:
                distance = weights_distance(gather_weights(run.raw_model), load_file(Path(part.target) / WEIGHTS_FILE))
            parts.append(ReplayedPart(environments=listener.environments, steps=listener.records, distance=distance))
        assert trail is not None, "a job has a part at least"
        return Replayed(trail=trail, parts=parts)


def is_of_model(checkpoint: Path, model: nn.Module) -> bool:
    """Whether a checkpoint has weights of a model's shapes."""
    try:
        check_fits(model, checkpoint)
    except InputError:
        return False
    return True


def loop_of(name: str) -> Callable[[TrainingRun], None]:
    """The function that makes the steps, by the name that a trail uses for its loop."""
    if name == TRAINER:
        # The Trainer takes seconds to import.
        from ..trainer import run_steps
    else:
        from ..loop import run_steps
    return run_steps


def weights_distance(own: Tensors, others: Tensors) -> float | None:
    """The norm of the difference between weights, relative to that of `others`; `None` if names or shapes differ."""
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in others.items()}:
        return None
    difference = _norm(own[name].cpu().double() - others[name].double() for name in others)
    return difference / (_norm(value.double() for value in others.values()) or 1.0)


def _norm(tensors: Iterable[torch.Tensor]) -> float:
    return sum(float((tensor**2).sum()) for tensor in tensors) ** 0.5

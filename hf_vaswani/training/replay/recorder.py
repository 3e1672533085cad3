"""Records a run's trail while it trains: a few digests, the same for a resumed run as for an uninterrupted one."""

from pathlib import Path

import torch

from ...errors import TrainingError, reason, write_remedy
from ...files import atomic_write
from ...hub.trail import FIRST_STEPS, TRAIL_FILE, Environment, StepRecord, Trail, read_trail
from ...runtime.processes import on_main_process
from ..build import TrainingSetup
from ..checkpoints.progress import Progress
from ..listeners import StepListener, StepResult
from ..run import TrainingRun
from .digests import batches_digest
from .trail import beginning, environment_of, step_record


class TrailRecorder(StepListener):
    """Records the first steps and each checkpoint in `trail.json`, without changing the run.

    Args:
        loop: the name of the loop that makes the steps.
    """

    def __init__(self, setup: TrainingSetup, run: TrainingRun, loop: str):
        self.setup, self.run, self.loop = setup, run, loop
        self.file = setup.folder / TRAIL_FILE
        self.trail: Trail | None = None
        self.loss: float | None = None

    def on_run_begin(self, progress: Progress) -> None:
        with self.run.clock.pause():
            environment = environment_of(self.run, self.loop)
            stored = on_main_process(self.run.accelerator, lambda: self._read(progress.step))
            if stored:
                self.trail = cut(stored, progress.step)
            else:
                begun = beginning(self.setup, self.run.raw_model, environment)
                # Otherwise a version without trails made the first steps, and these are not the initial weights.
                self.trail = begun if progress.step == 0 else begun.model_copy(update={"initial": None})
            self._note(environment)
            self._write()

    def on_step_end(self, result: StepResult) -> None:
        """Record the step if it is one of the first, and the environment of the next one if it has changed."""
        self.loss = result.loss
        if result.progress.step <= FIRST_STEPS:
            with self.run.clock.pause():
                batches = batches_digest(self.run.accelerator, result.batches)
                self._add(step_record(self.run, result.loss, batches))
        known = self._trail.environments[-1]
        if known.device == "cpu" and known.threads != torch.get_num_threads():
            self._note(environment_of(self.run, self.loop))

    def on_save(self, progress: Progress) -> None:
        """Record a checkpoint before it is written; if it never is, resuming the run removes the record."""
        if progress.step and not any(record.step == progress.step for record in self._trail.steps):
            loss = None if progress.skipped_in_a_row else self.loss
            with self.run.clock.pause():
                self._add(step_record(self.run, loss, is_unscheduled=progress.is_unscheduled))

    @property
    def _trail(self) -> Trail:
        assert self.trail is not None, "steps are recorded after `on_run_begin`"
        return self.trail

    def _read(self, step: int) -> Trail | None:
        """The stored trail of a run that resumes after a step, with a warning if there is none."""
        stored = read_trail(self.file.parent) if step else None
        if step and stored is None:
            print(f"warning: {self.file} is missing or damaged, so the steps up to {step:,} are no longer recorded")
        return stored

    def _note(self, environment: Environment) -> None:
        """Add the environment of the next step, unless it is the same as the last one."""
        known = self._trail.environments
        if not known or known[-1].model_copy(update={"first_step": environment.first_step}) != environment:
            self.trail = self._trail.model_copy(update={"environments": [*known, environment]})

    def _add(self, record: StepRecord) -> None:
        self.trail = self._trail.model_copy(update={"steps": [*self._trail.steps, record]})
        self._write()

    def _write(self) -> None:
        if self.run.accelerator.is_main_process:
            write_trail(self._trail, self.file)


def cut(trail: Trail, step: int) -> Trail:
    """A stored trail up to the checkpoint that a run resumes from.

    This removes the steps after that checkpoint, and an unscheduled checkpoint with which the run ended: an
    uninterrupted run has none there.
    """
    steps = [record for record in trail.steps if record.step <= step and not record.is_unscheduled]
    environments = [entry for entry in trail.environments if entry.first_step <= step]
    return trail.model_copy(update={"steps": steps, "environments": environments})


def write_trail(trail: Trail, file: Path) -> None:
    """Write a trail, replacing an earlier one.

    Raises:
        TrainingError: if it cannot be written.
    """
    try:
        with atomic_write(file) as part:
            part.write_text(trail.to_json(), encoding="utf-8")
    except OSError as error:
        raise TrainingError(
            f"{file} cannot be written: {reason(error)}. {write_remedy(error)}, then run the same command "
            "again to resume from the last checkpoint."
        ) from error

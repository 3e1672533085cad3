"""Records a run's trail while it trains: a few digests, the same for a resumed run as for an uninterrupted one."""

import hashlib
import json
from collections.abc import Callable, Iterable

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn

from ..configuration.keys import Sections, traits
from ..data.prepared import tokenizer_digest
from ..data.sources.text_files import Pair
from ..files import atomic_write
from ..records.trail import FIRST_STEPS, TRAIL_FILE, Environment, RunTrace, StepRecord, TextDigest, read_trail
from ..runtime.machine import cpu_name, versions
from ..runtime.processes import on_main_process
from .build import TrainingSetup
from .checkpoints.artifacts import saving
from .optimization.progress import Progress, StepListener, StepResult
from .optimization.sharding import full_tensor
from .optimization.step_batches import StepBatches
from .optimization.weights import gather_weights, tensors_digest
from .recipe.recipe import SECTIONS
from .run import TrainingRun
from .schedule import SCHEDULES

# The most ranges of a text, and the characters in the short digests of ranges and of batches.
RANGES, RANGE_DIGEST, BATCHES_DIGEST = 50, 8, 16
# These are recorded by their effects: the tokenizer, the initial weights, those of a teacher, and the precision of the
# environment.
EXCLUDED_KEYS = {
    ("tokenizer", "path"), ("training", "start_from"), ("training", "distill_from"), ("training", "mixed_precision"),
}  # fmt: skip


class TrailRecorder(StepListener):
    """Records the first steps and each checkpoint in `trail.json`, without changing the run.

    Args:
        steps: runs the optimizer steps; the trail has the name of its module.
    """

    def __init__(self, setup: TrainingSetup, run: TrainingRun, steps: Callable[[TrainingRun], None]):
        self.setup, self.run, self.loop = setup, run, steps.__module__.rpartition(".")[2]
        self.file = setup.folder / TRAIL_FILE
        self.recorded: Iterable[int] = range(1, FIRST_STEPS + 1)
        self.loss: float | None = None
        self.trail: RunTrace

    def on_run_begin(self, progress: Progress) -> None:
        with self.run.clock.pause():
            environment = self.describe_environment()
            stored = on_main_process(self.run.accelerator, lambda: self._read(progress.step))
            if stored:
                self.trail = cut(stored, progress.step)
            else:
                self.trail = describe_beginning(self.setup, self.run.raw_model, environment)
                if progress.step:  # these are not the initial weights
                    self.trail = self.trail.model_copy(update={"initial": None})
            self._note(environment)
            self.write()

    def on_step_end(self, result: StepResult) -> None:
        """Record the step if it is to be recorded, and the environment of the next one if it has changed."""
        self.loss, step = result.loss, result.progress.step
        if step in self.recorded:
            with self.run.clock.pause():
                batches = batches_digest(self.run.accelerator, result.batches) if step <= FIRST_STEPS else None
                self._add(result.loss, batches=batches)
        known = self.trail.environments[-1]
        if known.device == "cpu" and known.threads != torch.get_num_threads():
            self._note(self.describe_environment())

    def on_save(self, progress: Progress) -> None:
        """Record a checkpoint before it is written; if it never is, resuming the run removes the record."""
        if progress.step and not any(record.step == progress.step for record in self.trail.steps):
            with self.run.clock.pause():
                loss = None if progress.skipped_in_a_row else self.loss
                self._add(loss, is_unscheduled=progress.is_unscheduled)

    def describe_environment(self) -> Environment:
        """The environment in which the next step is computed."""
        processes = self.run.accelerator
        is_cuda = processes.device.type == "cuda"
        return Environment(
            first_step=self.run.progress.step + 1,
            device=processes.device.type,
            processor=torch.cuda.get_device_name(processes.device) if is_cuda else cpu_name(),
            threads=0 if is_cuda else torch.get_num_threads(),
            processes=processes.num_processes,
            mixed_precision=processes.mixed_precision,
            loop=self.loop,
            versions=versions(),
        )

    def write(self) -> None:
        """Write the trail, replacing an earlier one.

        Raises:
            TrainingError: if it cannot be written.
        """
        if not self.run.accelerator.is_main_process:
            return
        with saving(f"{self.file} cannot be written"), atomic_write(self.file) as part:
            part.write_text(self.trail.to_json(), encoding="utf-8")

    def _read(self, step: int) -> RunTrace | None:
        """The stored trail of a run that resumes after a step, with a warning if there is none."""
        stored = read_trail(self.file.parent) if step else None
        if step and stored is None:
            print(f"warning: {self.file} is missing or damaged, so the steps up to {step:,} are no longer recorded")
        return stored

    def _note(self, environment: Environment) -> None:
        """Add the environment of the next step, unless it is the same as the last one."""
        known = self.trail.environments
        if known[-1:] != [environment.model_copy(update={"first_step": known[-1].first_step if known else 1})]:
            self.trail = self.trail.model_copy(update={"environments": [*known, environment]})

    def _add(self, loss: float | None, **more: object) -> None:
        """Add the latest step. Must be called in every process."""
        ema = self.run.ema and {name: full_tensor(value) for name, value in self.run.ema.shadow.items()}
        record = StepRecord(
            step=self.run.progress.step,
            loss=None if loss is None else loss.hex(),
            weights=tensors_digest(gather_weights(self.run.raw_model)),
            ema=tensors_digest(ema) if ema else None,
            **more,
        )
        self.trail = self.trail.model_copy(update={"steps": [*self.trail.steps, record]})
        self.write()


def cut(trail: RunTrace, step: int) -> RunTrace:
    """A stored trail up to the checkpoint that a run resumes from.

    This removes the steps after that checkpoint, and an unscheduled checkpoint with which the run ended: an
    uninterrupted run has none there.
    """
    steps = [record for record in trail.steps if record.step <= step and not record.is_unscheduled]
    environments = [entry for entry in trail.environments if entry.first_step <= step]
    return trail.model_copy(update={"steps": steps, "environments": environments})


def describe_beginning(setup: TrainingSetup, model: nn.Module, environment: Environment) -> RunTrace:
    """The trail of a run before its first step. Must be called in every process.

    Args:
        model: with its initial weights, including those under an adapter.
    """
    splits = setup.splits
    return RunTrace(
        recipe=deciding_keys(setup.recipe.to_dict()),
        texts={
            "train": text_digest(splits.digests["train"], splits.train, len(splits.train or ())),
            "validation": text_digest(splits.digests["validation"], splits.validation, len(splits.validation)),
        },
        tokenizer=tokenizer_digest(setup.tokenizer),
        initial=tensors_digest({name: full_tensor(value.detach()) for name, value in model.named_parameters()}),
        teacher=setup.teacher.digest if setup.teacher else None,
        environments=[environment],
    )


def deciding_keys(recipe: Sections) -> Sections:
    """Section → key → value of the recipe keys that determine the steps.

    Keys that are empty, 0 or false are left out, except in the section `model`, whose defaults differ from these.

    Args:
        recipe: its sections, as `Recipe.to_dict()` returns them.
    """
    falls_to_end = SCHEDULES[recipe["training"]["lr_scheduler_type"]].falls_to_end
    deciding: Sections = {}
    for section, keys in SECTIONS.items():
        for name, value in recipe.get(section, {}).items():
            is_free = traits(keys.model_fields[name]).resumable and not (name == "max_steps" and falls_to_end)
            is_given = value or (section == "model" and value is not None)
            if is_given and not is_free and (section, name) not in EXCLUDED_KEYS:
                deciding.setdefault(section, {})[name] = value
    if "r" not in deciding.get("peft", {}):
        deciding.pop("peft", None)
    return deciding


def text_digest(digest: str, pairs: Iterable[Pair] | None, length: int) -> TextDigest:
    """The digest of a text, together with digests of consecutive ranges of its pairs.

    Args:
        digest: of the whole text.
        pairs: of the text; `None` if they are streamed.
        length: the number of pairs.
    """
    if pairs is None:
        return TextDigest(digest=digest)
    size = max(-(-length // RANGES), 1)
    ranges = [hashlib.sha256() for _ in range(-(-length // size))]
    for number, pair in enumerate(pairs):
        ranges[number // size].update(json.dumps(pair).encode())
    short = [rows.hexdigest()[:RANGE_DIGEST] for rows in ranges]
    return TextDigest(pairs=length, digest=digest, ranges=short, range_length=size)


def batches_digest(processes: Accelerator, batches: StepBatches) -> str:
    """Digest of the token ids in a step's batches, over all processes. Must be called in every process."""
    parts = {
        f"{number}.{name}": tensor
        for number, batch in enumerate(batches.micro_batches)
        for name, tensor in batch.items()
        if not name.startswith("soft_label")  # whose teacher has a digest
    }
    digests = [tensors_digest(parts)]
    if processes.num_processes > 1:
        digests = [hashlib.sha256("\n".join(gather_object(digests)).encode()).hexdigest()]
    return digests[0][:BATCHES_DIGEST]

"""What goes into the trail of a run: how it began, its environments, and its steps."""

from typing import Any

import torch
from torch import nn

from ...configuration.keys import traits
from ...data.prepared import tokenizer_digest
from ...hub.trail import Environment, StepRecord, Trail
from ...runtime.machine import cpu_name, versions
from ..build import TrainingSetup
from ..optimization.schedule import SCHEDULES
from ..optimization.sharding import full_tensor
from ..optimization.weights import gather_weights
from ..recipe.recipe import SECTIONS
from ..run import TrainingRun
from .digests import model_digest, tensors_digest, text_digest

# These are recorded by their effects: the tokenizer, the initial weights, those of a teacher, and the precision of the
# environment.
KNOWN_OTHERWISE = {
    ("tokenizer", "path"), ("training", "start_from"), ("training", "distill_from"), ("training", "mixed_precision"),
}  # fmt: skip


def beginning(setup: TrainingSetup, model: nn.Module, environment: Environment) -> Trail:
    """The trail of a run before its first step. Must be called in every process.

    Args:
        model: with its initial weights.
    """
    splits = setup.splits
    texts = {
        "train": text_digest(splits.digests["train"], splits.train, len(splits.train or ())),
        "validation": text_digest(splits.digests["validation"], splits.validation, len(splits.validation)),
    }
    return Trail(
        recipe=deciding_keys(setup.recipe.to_dict()),
        texts=texts,
        tokenizer=tokenizer_digest(setup.tokenizer),
        initial=model_digest(model),
        teacher=setup.teacher.digest if setup.teacher else None,
        environments=[environment],
    )


def environment_of(run: TrainingRun, loop: str) -> Environment:
    """The environment in which the next step of a run is computed.

    Args:
        loop: the name of the loop that makes the steps.
    """
    processes = run.accelerator
    is_cuda = processes.device.type == "cuda"
    return Environment(
        first_step=run.progress.step + 1,
        device=processes.device.type,
        processor=torch.cuda.get_device_name(processes.device) if is_cuda else cpu_name(),
        threads=0 if is_cuda else torch.get_num_threads(),
        processes=processes.num_processes,
        mixed_precision=processes.mixed_precision,
        loop=loop,
        versions=versions(),
    )


def step_record(
    run: TrainingRun, loss: float | None, batches: str | None = None, is_unscheduled: bool = False
) -> StepRecord:
    """The record of a run's latest step. Must be called in every process."""
    weights = gather_weights(run.raw_model)
    ema = {name: full_tensor(value) for name, value in run.ema.shadow.items()} if run.ema else None
    return StepRecord(
        step=run.progress.step,
        loss=None if loss is None else loss.hex(),
        weights=tensors_digest(weights),
        ema=tensors_digest(ema) if ema else None,
        batches=batches,
        is_unscheduled=is_unscheduled,
    )


def deciding_keys(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Section → key → value of the recipe keys that determine the steps.

    Keys that are empty, 0 or false are left out, except in the section `model`, whose defaults differ from these.

    Args:
        recipe: its sections, as `Recipe.to_dict()` returns them.
    """
    falls_to_end = SCHEDULES[recipe["training"]["lr_scheduler_type"]].falls_to_end
    changeable = {
        (section, name)
        for section, cls in SECTIONS.items()
        for name, key in cls.model_fields.items()
        if traits(key).resumable and not (name == "max_steps" and falls_to_end)
    } | KNOWN_OTHERWISE
    deciding = {
        section: {
            name: value
            for name, value in recipe[section].items()
            if (value or (section == "model" and value is not None)) and (section, name) not in changeable
        }
        for section in SECTIONS
        if section in recipe and not (section == "peft" and not recipe[section].get("r"))
    }
    return {section: keys for section, keys in deciding.items() if keys}

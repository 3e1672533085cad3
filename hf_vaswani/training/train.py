"""A training from recipe to finished folder: the one function behind every training command."""

from contextlib import suppress
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin, InitProcessGroupKwargs

from ..errors import InputError, reason
from ..runtime.launcher import end_with_launcher
from ..runtime.memory import keep_freed_memory
from ..runtime.processes import on_main_process, said_once
from ..runtime.threads import asked_threads, share_of_cores
from .checkpoints.output_folder import only_training
from .loop import TrainingLoop
from .recipe.recipe import Recipe
from .reporting.export import finish
from .reporting.report import Results
from .setup.checks import TRACKED_AS, available_trackers, check, check_environment
from .setup.setup import Start, begin, describe, prepare
from .validation import Validation

# A large corpus takes hours to prepare, while the other processes wait for the first.
PATIENCE = timedelta(days=1)


def train(recipe: Recipe, kind: type[TrainingLoop] = TrainingLoop) -> Results | None:
    """Train a model, or go on with the same training, and write the final model into `training.output_dir`.

    The folder then holds the model with the mean of the last checkpoints' weights, its tokenizer,
    `generation_config.json`, a model card, translations of the test set, curves and `results.json`.

    Args:
        kind: of the loop that makes the updates.

    Returns:
        The results, in the main process; `None` in the others.

    Raises:
        InputError: what the user can put right, before any long work starts.
        TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
        TrainingError: where training cannot go on: its loss is not finite, or the disk is full.
    """
    end_with_launcher()
    with said_once():
        check_environment()
    accelerator = make_accelerator(recipe)
    try:
        check_and_set_up(recipe, accelerator)
        results = train_and_finish(recipe, accelerator, kind)
        # A process that is done must not take down the group while another still writes.
        accelerator.wait_for_everyone()
        return results
    finally:
        # First the distributed model, then its process group: the other way round, their threads can wait for each
        # other.
        accelerator.free_memory()
        accelerator.end_training()
        # Another training in this process may want another precision.
        AcceleratorState._reset_state(reset_partial_state=True)


def make_accelerator(recipe: Recipe) -> Accelerator:
    """Devices, processes and precision, as recipe and launcher say."""
    arguments = recipe.training
    # One step, whatever the launcher is told: the loop divides by the tokens of the whole update itself.
    return Accelerator(
        mixed_precision=arguments.mixed_precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        log_with=[name for name in arguments.report_to if name in available_trackers()] or None,
        project_dir=arguments.output_dir,
        kwargs_handlers=[
            DistributedDataParallelKwargs(),
            InitProcessGroupKwargs(timeout=PATIENCE),
        ],
    )


def check_and_set_up(recipe: Recipe, accelerator: Accelerator) -> None:
    """Check what can be checked before long work, and set up this process for its device.

    Raises:
        InputError: all that can be seen to be wrong with the recipe here.
    """
    on_main_process(accelerator, lambda: check(recipe, accelerator))
    if accelerator.device.type == "cpu" and accelerator.mixed_precision == "fp16":
        # Accelerate leaves out mixed precision fp16 on a CPU, silently; torch has it.
        accelerator.native_amp = True
        accelerator.scaler = torch.amp.GradScaler("cpu")
    if accelerator.device.type == "cpu":
        asked, _ = asked_threads(recipe.training.cpu_threads)
        torch.set_num_threads(asked or share_of_cores(accelerator))
        keep_freed_memory()


def train_and_finish(recipe: Recipe, accelerator: Accelerator, kind: type[TrainingLoop]) -> Results | None:
    """All of the work of [`train`], between the making of the processes and their end."""
    start = prepare(recipe, accelerator)
    with only_training(start.folder, accelerator):
        return train_updates(recipe, start, accelerator, kind)


def train_updates(recipe: Recipe, start: Start, accelerator: Accelerator, kind: type[TrainingLoop]) -> Results | None:
    """The updates of a training, and its end."""
    if recipe.training.report_to:
        on_main_process(accelerator, lambda: begin_tracking(recipe, accelerator))
    checkpoint = begin(start, accelerator)
    loop = kind(
        recipe.training,
        start.folder,
        accelerator,
        start.model,
        start.corpus,
        Validation(
            accelerator,
            start.tokenizer,
            start.validation_pairs,
            recipe.training,
            start.texts.validation,
            recipe.evaluation.tokenize,
        ),
        start.tokenizer.pad_token_id,
        checkpoint,
    )
    for line in describe(start, accelerator) if accelerator.is_main_process else []:
        loop.log.say(line)
    loop.run()
    return finish(start, loop)


def begin_tracking(recipe: Recipe, accelerator: Accelerator) -> None:
    """Open the recipe's trackers.

    Raises:
        InputError: where one of them cannot be opened: nobody is logged in, say.
    """
    try:
        accelerator.init_trackers(TRACKED_AS, config=flat(recipe.to_dict()))
    except Exception as error:  # each tracker raises its own kinds
        for tracker in accelerator.trackers:
            with suppress(Exception):  # those that were not opened cannot be closed
                tracker.finish()
        accelerator.trackers = []
        names = ", ".join(recipe.training.report_to)
        raise InputError(f"training.report_to={names}: cannot be opened: {reason(error)}") from error


def flat(sections: dict[str, dict]) -> dict[str, str | int | float | bool]:
    """A recipe as trackers take it: one level of keys, plain values."""
    pairs = {f"{section}.{name}": value for section, keys in sections.items() for name, value in keys.items()}
    return {name: value if isinstance(value, str | int | float) else str(value) for name, value in pairs.items()}

"""A training from recipe to finished folder through transformers' Trainer instead of this package's loop.

The Trainer makes the updates. What comes before is what the loop's training begins with, too, and what comes after is
the loop's training itself, which finds nothing left to train and finishes the folder. The checkpoints are the
Trainer's, completed to what the loop reads.
"""

import dataclasses
import json
import shutil
import time
from pathlib import Path

import torch
from accelerate.utils import broadcast_object_list
from transformers import PrinterCallback, Seq2SeqTrainingArguments, TrainerCallback

from ..data.batches import TokenBudgetBatches
from ..data.encoding import encode_pairs
from ..data.parallel_text import Pair
from ..data.sampler import TokenBudgetSampler
from ..errors import InputError
from .checkpoint import Progress, checkpoint_folders, load_checkpoint
from .log import TrainingLog
from .loop import make_optimizer
from .prepare import (
    CHECKPOINTS,
    begin_output,
    is_resumed,
    load_splits,
    open_tokenizer,
    text_fingerprints,
)
from .recipe import Recipe
from .run import Results, drops_layers, fair_share_of_cores, longest_sequence, seeded_model, train
from .trainer import VaswaniTrainer, trainer_arguments

# Keys of the recipe ("section.key") that only the loop serves → the one value with which the Trainer can do.
LOOP_ONLY: dict[str, object] = {}
# What the Trainer reads of a checkpoint, beside the files that are the loop's, too.
TRAINER_FILES = ("trainer_state.json", "scheduler.pt")


def train_with_trainer(recipe: Recipe) -> Results | None:
    """Train a model with a [`VaswaniTrainer`], or go on with the same training; otherwise like [`train`].

    Returns:
        The results, in the main process; `None` in the others.

    Raises:
        InputError: what the user can put right, before any long work starts.
    """
    check_served(recipe)
    splits = load_splits(recipe.data)
    folder = Path(recipe.training.output_dir)
    args = trainer_arguments(recipe.training, folder / CHECKPOINTS, ddp_find_unused_parameters=drops_layers(recipe))
    if args.device.type == "cpu" and args.mixed_precision == "fp16":
        raise InputError("Mixed precision fp16 needs a GPU. On a CPU use bf16 or no.")
    if args.device.type == "cpu":
        torch.set_num_threads(recipe.training.cpu_threads or fair_share_of_cores(args.world_size))
    train_updates(recipe, splits, args)
    # The loop has nothing left but to finish the folder, where an earlier training must not be deleted once more.
    return train(dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, overwrite=False)))


def check_served(recipe: Recipe) -> None:
    """Refuse a recipe with keys that the Trainer cannot serve.

    Raises:
        InputError: naming all of them.
    """
    faults, sections = [], recipe.to_dict()
    for name, served in LOOP_ONLY.items():
        section, _, key = name.partition(".")
        value = sections[section].get(key, served)
        if value != served:
            faults.append(
                f"{name}={value!r} is not possible with the Trainer: leave it at {served!r}, or train with "
                "scripts/train.py"
            )
    if faults:
        raise InputError.of(faults)


def train_updates(recipe: Recipe, splits: dict[str, list[Pair]], args: Seq2SeqTrainingArguments) -> None:
    """All updates that are left, up to `max_updates` or `max_minutes`, from the newest checkpoint on."""
    folder = Path(recipe.training.output_dir)
    is_main = args.process_index == 0
    texts, tokenizer, resumed = text_fingerprints(splits), None, None
    if is_main:
        resumed = is_resumed(recipe, texts)
        tokenizer = open_tokenizer(recipe, splits["train"], resumed)
    tokenizer, resumed = broadcast_object_list([tokenizer, resumed])
    train_pairs = encode_pairs(splits["train"], tokenizer, recipe.data.max_length, "training")
    validation_pairs = encode_pairs(splits["validation"], tokenizer, longest_sequence(recipe), "validation")
    batches = TokenBudgetBatches(
        train_pairs.source_lengths,
        train_pairs.target_lengths,
        recipe.training.max_tokens,
        recipe.training.max_sentences,
        recipe.training.seed,
    )
    checkpoint, progress = None, Progress()
    model = seeded_model(recipe, tokenizer)
    if resumed:
        checkpoint = checkpoint_folders(folder / CHECKPOINTS)[-1]
        progress = load_progress(checkpoint, model, recipe)
        check_position(
            checkpoint, progress, TokenBudgetSampler(batches, args.world_size), recipe.training.accumulation
        )
    # All that could be wrong with the input has been seen: only now is anything written or deleted.
    if is_main:
        begin_output(recipe, texts, tokenizer, resumed)
    args.distributed_state.wait_for_everyone()
    if progress.update >= recipe.training.max_updates or has_no_time(recipe, progress):
        return
    trainer = VaswaniTrainer(
        model,
        args,
        recipe.training,
        train_pairs,
        batches,
        tokenizer,
        validation_pairs,
        splits["validation"],
    )
    log = TrainingLog(folder if is_main else None, progress.update, recipe.training.max_updates)
    log.say(
        f"{len(train_pairs):,} training pairs, {model.num_parameters():,} parameters, {trainer.sampler.size:,} "
        f"batches an epoch, with transformers' Trainer on {args.world_size} × {args.device.type}"
    )
    if checkpoint:
        log.say(f"Going on from {checkpoint}")
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(RecipeCallback(trainer, recipe, progress, log))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    log.close()
    if is_main:
        # The loop writes a card where there is none: the old one is that of a training that had come less far.
        (folder / "README.md").unlink(missing_ok=True)


def load_progress(checkpoint: Path, model: torch.nn.Module, recipe: Recipe) -> Progress:
    """How far a checkpoint had come. All that the Trainer will read of it is tried, which says nothing clear itself.

    Raises:
        InputError: where the checkpoint is damaged, or the loop's.
    """
    missing = [name for name in TRAINER_FILES if not (checkpoint / name).exists()]
    if len(missing) == len(TRAINER_FILES):
        raise InputError(f"{checkpoint} was written by scripts/train.py. Go on with that, or choose --overwrite true.")
    if missing:
        raise InputError(f"{checkpoint} is damaged (no {missing[0]}). Delete it to go on from the checkpoint before.")
    optimizer = make_optimizer(model, recipe.training, torch.device("cpu"))
    return load_checkpoint(checkpoint, model, optimizer, None)


def position(update: int, sampler: TokenBudgetSampler, accumulation: int) -> tuple[int, int]:
    """Where the data stands after so many updates: the epoch, and the number in it of the next batch."""
    epoch, updates = divmod(update, sampler.updates(accumulation))
    return epoch, updates * accumulation * sampler.processes


def check_position(checkpoint: Path, progress: Progress, sampler: TokenBudgetSampler, accumulation: int) -> None:
    """Refuse a checkpoint whose data stands elsewhere than the Trainer, which counts updates alone, would go on.

    Raises:
        InputError: it was made by another number of processes.
    """
    if (progress.epoch, progress.batch) != position(progress.update, sampler, accumulation):
        raise InputError(
            f"{checkpoint} was written by another number of processes than {sampler.processes}, with which the "
            "Trainer would repeat some of the data and leave out other. Use as many as before, or scripts/train.py."
        )


def has_no_time(recipe: Recipe, progress: Progress) -> bool:
    """Whether `max_minutes` of training have passed."""
    limit = recipe.training.max_minutes
    return limit is not None and progress.seconds >= 60 * limit


class RecipeCallback(TrainerCallback):
    """Logs, validates, saves and stops when the recipe says, and completes each checkpoint to one of the loop's.

    Left alone, a Trainer that goes on keeps the intervals of its checkpoint, and validates once more at the end.
    """

    def __init__(self, trainer: VaswaniTrainer, recipe: Recipe, progress: Progress, log: TrainingLog):
        self.trainer, self.recipe, self.progress, self.log = trainer, recipe, progress, log
        self.folder = Path(recipe.training.output_dir) / CHECKPOINTS

    def on_train_begin(self, args, state, control, **kwargs):
        self.started = time.monotonic() - self.progress.seconds
        self.window_started = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        arguments, progress = self.recipe.training, self.progress
        progress.update = state.global_step
        progress.epoch, progress.batch = position(progress.update, self.trainer.sampler, arguments.accumulation)
        progress.seconds = time.monotonic() - self.started
        is_over = progress.update >= arguments.max_updates
        if arguments.max_minutes is not None:
            # Clocks differ a little: the main process decides for all.
            [is_over] = broadcast_object_list([is_over or has_no_time(self.recipe, progress)])
        self.log.advance()
        control.should_log = progress.update % arguments.log_every == 0
        control.should_evaluate = progress.update % arguments.validate_every == 0
        control.should_save = progress.update % arguments.save_every == 0 or is_over
        control.should_training_stop = is_over
        return control

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            now = time.monotonic()
            self.log.record(
                state.global_step,
                epoch=self.progress.epoch,
                loss=logs["loss"],
                learning_rate=logs["learning_rate"],
                target_tokens_per_second=float(self.trainer.target_tokens) / (now - self.window_started),
                minutes=self.progress.seconds / 60,
            )
            self.trainer.target_tokens, self.window_started = 0, now
        elif "eval_loss" in logs:
            values = {name.removeprefix("eval_"): value for name, value in logs.items() if name.startswith("eval_")}
            self.log.record(state.global_step, **{f"validation_{name}": value for name, value in values.items()})

    def on_save(self, args, state, control, **kwargs):
        """Give the checkpoint its name, now that it is complete, and remove those that are not to be kept."""
        self.trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            part = self.folder / f"checkpoint-{state.global_step}"
            path = self.folder / f"update-{state.global_step:08d}"
            (part / "progress.json").write_text(json.dumps(dataclasses.asdict(self.progress)))
            shutil.rmtree(path, ignore_errors=True)
            part.replace(path)
            remove_old(self.folder, path, self.recipe.training.keep_last, self.recipe.training.save_every)
        self.trainer.accelerator.wait_for_everyone()


def remove_old(folder: Path, newest: Path, keep: int, every: int) -> None:
    """Remove the checkpoints beyond `keep`, the last ones of earlier runs and those that were not completed."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)
    for path in checkpoint_folders(folder):
        if path != newest and int(path.name.removeprefix("update-")) % every:
            shutil.rmtree(path)
    for path in checkpoint_folders(folder)[:-keep]:
        shutil.rmtree(path)

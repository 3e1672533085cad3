"""A run around its optimizer steps: what both loops share in setup, and at the beginning and end of each step.

Randomness depends on nothing but seed, step and process: the order of the batches is derived from seed and epoch, and
the generator for dropout is seeded again at each step. A checkpoint therefore needs no generator states, and a stopped
run resumes as if it had never been interrupted.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.encoding import Collator
from ..data.epochs import TokenizedCorpus
from ..errors import TrainingError, TrainingInterrupted, counted
from ..records.trail import FIRST_STEPS
from ..runtime.processes import in_all_processes, on_main_process, print_main
from ..runtime.signals import StopSignals
from .build import TrainingSetup
from .checkpoints.artifacts import CHECKPOINTS
from .checkpoints.checkpoint import checkpoint_folders, gather_state, restore_state, save_checkpoint
from .listeners import Stopwatch
from .optimization.optimizer import make_optimizer, set_learning_rate
from .optimization.progress import Progress, StepListener, StepResult, ValidationResult
from .optimization.sharding import shard_tied_embeddings, unsharded
from .optimization.step_batches import StepBatches, StepDataset, pass_tokens, split_batch, steps_loader
from .optimization.weights import MovingAverage
from .schedule import learning_rate
from .setup.tokenizer_and_model import drops_layers

# Consecutive steps without a finite gradient after which the run stops.
MOST_SKIPPED = 20


class TrainingRun:
    """Model, optimizer and progress of a run, which ends at `max_steps`, `num_train_epochs` or `max_minutes`, or by
    early stopping.

    A loop calls [`begin_step`], or its two parts one after the other, computes gradients, runs the optimizer step, and
    calls [`end_step`], which calls the listeners.

    Args:
        setup: its model is trained in place.
        checkpoint: the checkpoint to resume from, if there is one.

    Attributes:
        model: as Accelerate prepared it, possibly wrapped or sharded.
        optimizer: as Accelerate prepared it.
        teacher: the models that it distills; on the same device, unless the corpus has their soft labels.
        progress: how far the run has come.
        stop: the signals that stop it.
        clock: seconds since some moment, without those spent on validations and checkpoints.
        listeners: in the order in which they are called.
    """

    def __init__(self, setup: TrainingSetup, checkpoint: Path | None = None):
        arguments, accelerator, model = setup.recipe.training, setup.processes, setup.model
        self.arguments, self.accelerator = arguments, accelerator
        self.folder, self.corpus, self.validator = setup.folder, setup.corpus, setup.validator
        self.collate = Collator(setup.tokenizer.pad_token_id, setup.aligner)
        if arguments.gradient_checkpointing:
            # transformers renames this method from 5.20 on.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        if arguments.torch_compile:
            model.compile(dynamic=True)
        self.d_model = model.config.d_model
        if drops_layers(model.config) and accelerator.ddp_handler:
            # Each process drops different layers, whose gradients DDP would wait for.
            accelerator.ddp_handler.find_unused_parameters = True
        shard_tied_embeddings(model, accelerator)
        dtype = torch.bfloat16 if accelerator.mixed_precision == "bf16" else torch.float32
        optimizer = make_optimizer(model, arguments, accelerator.device, dtype)
        self.model, self.optimizer = accelerator.prepare(model, optimizer)
        self.teacher, self._labeling = setup.teacher, None
        self.stop, self.clock = StopSignals(), Stopwatch()
        if self.teacher and self.teacher.top_k:
            from .setup.word_teacher import Labeling

            text, tokenizer = setup.splits.train, setup.tokenizer
            self._labeling = Labeling(setup.recipe, text, tokenizer, self.teacher, accelerator, self.stop)
        elif self.teacher:
            self.teacher = self.teacher.copy_to(accelerator.device, accelerator.mixed_precision)
        # Accelerate also had the forward pass return a copy of all logits in float32. Loops call autocast themselves.
        accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
        self.ema = MovingAverage(self.raw_model, arguments.ema_decay) if arguments.ema_decay else None
        self.progress = Progress()
        if checkpoint:
            self.progress = restore_state(accelerator, self.model, self.optimizer, self.ema, checkpoint)
            print_main(f"Resuming from {checkpoint}", accelerator)
        self.listeners: list[StepListener] = [self.ema] if self.ema else []
        self._started = 0.0

    @property
    def raw_model(self) -> VaswaniForConditionalGeneration:
        """The model without what Accelerate wrapped it in."""
        return self.accelerator.unwrap_model(self.model)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch for signals while the block runs the steps, and call the listeners at its beginning and end.

        Raises:
            InputError, TrainingInterrupted: the soft labels cannot be computed, or a signal stops this.
        """
        with self.stop:
            try:
                for listener in self.listeners:
                    listener.on_run_begin(self.progress)
                self._started = time.monotonic() - self.progress.seconds
                if self._labeling:
                    with self.clock.pause():
                        self.corpus = self._labeling(self.corpus)
                self.model.train()
                yield
            finally:
                for listener in self.listeners:
                    listener.on_run_end()

    def steps(self) -> DataLoader:
        """This process's share of all remaining steps."""
        progress = self.progress
        steps = StepDataset(
            self.corpus,
            self.collate,
            (progress.epoch, progress.part, progress.batch),
            self.accelerator.process_index,
            self.accelerator.num_processes,
            self.arguments.gradient_accumulation_steps,
        )
        # On a GPU, batches are made while it computes; on a CPU, the cores are busy anyway.
        return steps_loader(steps, workers=int(self.accelerator.device.type == "cuda"))

    def begin_step(self) -> None:
        """Seed dropout and set the learning rate for the next step."""
        self.seed_dropout()
        self.set_learning_rate()

    def seed_dropout(self, steps_under_way: int = 0) -> None:
        """Seed dropout for the next step.

        Args:
            steps_under_way: number of steps before it that have not ended yet.
        """
        # A skipped step is not counted as one, but the next one must not repeat its dropout.
        number = self.progress.step + self.progress.skipped + steps_under_way + 1
        torch.manual_seed(generator_seed(self.arguments.seed, number, self.accelerator.process_index))

    def set_learning_rate(self) -> None:
        """Set the learning rate for the next step."""
        arguments, progress = self.arguments, self.progress
        rate = learning_rate(
            arguments.lr_scheduler_type,
            progress.step + 1,
            peak=arguments.learning_rate,
            warmup=arguments.warmup_steps,
            max_steps=arguments.max_steps,
            d_model=self.d_model,
        )
        set_learning_rate(self.optimizer, rate)

    def split_batch(self, batch: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """Split a batch into the forward passes that compute it."""
        return split_batch(batch, pass_tokens(self.accelerator, self.arguments.r_drop))

    def end_step(self, batches: StepBatches, loss: float | None, is_told_to_stop: bool) -> bool:
        """Do everything that follows an optimizer step: call the listeners, validate, save a checkpoint.

        Args:
            batches: those of the step.
            loss: mean per target token; `None` if the step was skipped because loss or gradient were not finite.
            is_told_to_stop: whether any process has received a signal.

        Returns:
            Whether it was the last step.

        Raises:
            TrainingInterrupted: after a signal, once the state is saved.
            TrainingError: if gradients remain non-finite, or a checkpoint cannot be written.
        """
        arguments, progress = self.arguments, self.progress
        progress.epoch, progress.part, progress.batch = batches.following
        progress.seconds = time.monotonic() - self._started
        for name, count in (batches.counts or {}).items():
            progress.filters[name] = progress.filters.get(name, 0) + count
        if loss is None:
            self._note_skipped_step()
        else:
            self._note_step(batches, loss)
        is_over = self.is_over()
        progress.is_unscheduled = loss is None or progress.step % arguments.save_steps != 0
        if is_over or is_told_to_stop or not progress.is_unscheduled:
            self.save()
        if is_told_to_stop and not is_over:
            how = " without --overwrite" if arguments.overwrite else ""
            message = (
                f"Stopped by {self.stop.name} after step {progress.step}; the state is saved in "
                f"{self.folder / CHECKPOINTS}. Run the same command again{how} to resume."
            )
            stop = TrainingInterrupted(message, self.stop.received or signal.SIGTERM)
            raise in_all_processes(self.accelerator, stop)
        return is_over

    def _note_step(self, batches: StepBatches, loss: float) -> None:
        progress = self.progress
        progress.step += 1
        progress.skipped_in_a_row = 0
        for name in ("pairs", "source_tokens", "target_tokens"):
            progress.seen[name] = progress.seen.get(name, 0) + getattr(batches, name)
        rate = float(self.optimizer.param_groups[0]["lr"])
        result = StepResult(progress, loss, rate, batches.target_tokens, batches)
        for listener in self.listeners:
            listener.on_step_end(result)
        if progress.step % self.arguments.eval_steps == 0:
            self.validate()

    def _note_skipped_step(self) -> None:
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        print_main(f"step {progress.step + 1}: loss or gradient not finite; batch skipped", self.accelerator)
        if progress.skipped_in_a_row < MOST_SKIPPED:
            return
        checkpoints = checkpoint_folders(self.folder / CHECKPOINTS)
        last = (
            f"The last good checkpoint is {checkpoints[-1]}." if checkpoints else "No checkpoint has been saved yet."
        )
        error = TrainingError(
            f"Step {progress.step + 1}: loss or gradient not finite in {counted(progress.skipped_in_a_row, 'batch')} "
            f"in a row. {last} Lower training.learning_rate, set training.max_grad_norm, or lengthen the warm-up."
        )
        raise in_all_processes(self.accelerator, error)

    def validate(self) -> None:
        """Validate the model with the weights used for translation: their moving average, if one is kept."""
        arguments, progress = self.arguments, self.progress
        model = self.raw_model
        with self.clock.pause(), self.ema.in_place_of_weights() if self.ema else nullcontext():
            with unsharded(model):
                scores = self.validator.measure(model)
            progress.note_validation(arguments.metric_for_best_model, scores[arguments.metric_for_best_model])
            for listener in self.listeners:
                listener.on_validation(ValidationResult(progress, scores, model))

    def save(self) -> None:
        """Write a checkpoint."""
        for listener in self.listeners:
            listener.on_save(self.progress)
        with self.clock.pause():
            checkpoint = self._write_checkpoint()
            for listener in self.listeners:
                listener.on_checkpoint(checkpoint)

    def _write_checkpoint(self) -> Path:
        state = gather_state(self.accelerator, self.model, self.optimizer, self.ema, self.progress)
        folder, keep = self.folder / CHECKPOINTS, self.arguments.save_total_limit
        return on_main_process(self.accelerator, lambda: save_checkpoint(folder, state, keep))

    def last_step(self) -> int | None:
        """The step at which the run ends; approximate if epochs end it, and `None` if it is not known beforehand."""
        epochs, ends = self.arguments.num_train_epochs, [self.arguments.max_steps]
        if epochs and (steps := self.steps_per_epoch()):
            ends.append(epochs * steps)
        return min((end for end in ends if end is not None), default=None)

    def steps_per_epoch(self) -> int | None:
        """About how many steps an epoch has; `None` if that is not known beforehand."""
        if not isinstance(self.corpus, TokenizedCorpus):
            return None
        batches = len(self.corpus.token_budget.epoch(0))
        return math.ceil(batches / (self.accelerator.num_processes * self.arguments.gradient_accumulation_steps))

    def is_over(self) -> bool:
        """Whether the run has reached its end; the same in all processes."""
        arguments, progress = self.arguments, self.progress
        if (
            self._is_at_the_last_step()
            or self._is_after_the_last_epoch()
            or progress.is_out_of_patience(arguments.early_stopping_patience)
        ):
            return True
        # Clocks differ a little: the main process decides for all.
        return arguments.max_minutes is not None and on_main_process(
            self.accelerator, lambda: progress.seconds >= 60 * arguments.max_minutes
        )

    def nothing_to_train(self) -> str | None:
        """A message if a resumed run is already beyond its last step."""
        last, done = self.arguments.max_steps, self.progress.step
        if last is None or done <= last:
            return None
        return f"Nothing to train: {counted(done, 'step')} are already done, more than max_steps={last}"

    def early_end(self) -> str | None:
        """Why the run ended before `max_steps`, if it did."""
        arguments, progress = self.arguments, self.progress
        if self._is_at_the_last_step():
            return None
        ended = f"Ended after {counted(progress.step, 'step')}"
        if progress.is_out_of_patience(arguments.early_stopping_patience):
            best = "none" if progress.best_score is None else f"{progress.best_score:.4f}"
            return (
                f"{ended}: no improvement in validation {arguments.metric_for_best_model} for "
                f"{counted(progress.validations_without_gain, 'validation')} (best: {best})"
            )
        if self._is_after_the_last_epoch():
            return f"{ended}: num_train_epochs={arguments.num_train_epochs} reached"
        return f"{ended}: max_minutes={arguments.max_minutes:g} reached"

    def needs_sync(self, batches: StepBatches) -> bool:
        """Whether a step has to end before the next one begins: if its weights are recorded, validated or saved, if it
        may be the last one, or if the next one's batches may be long in coming."""
        arguments, step = self.arguments, self.progress.step + 1
        is_kept = step <= FIRST_STEPS or step % arguments.eval_steps == 0 or step % arguments.save_steps == 0
        return is_kept or step == arguments.max_steps or batches.is_before_a_part

    def _is_at_the_last_step(self) -> bool:
        last = self.arguments.max_steps
        return last is not None and self.progress.step >= last

    def _is_after_the_last_epoch(self) -> bool:
        epochs = self.arguments.num_train_epochs
        return epochs is not None and self.progress.epoch >= epochs


def generator_seed(*numbers: int) -> int:
    """A seed that differs for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))

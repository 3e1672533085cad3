"""A run whose optimizer steps are made by transformers' Trainer: the same steps as in this package's own loop.

The Trainer accumulates and clips gradients and runs the optimizer. Everything that goes into a step (batches, loss,
dropout and learning rate) and everything that follows it comes from the run, so that a recipe gives the same model
either way, with the same checkpoints.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from ..errors import InputError
from ..runtime.launcher import is_set
from ..runtime.processes import print_main, reported_once
from .optimization.progress import StepListener
from .optimization.step_batches import StepBatches
from .optimization.step_loss import training_loss
from .recipe.recipe import Recipe
from .run import TrainingRun
from .train import train
from .validation import total

if TYPE_CHECKING:
    from ..records.run_report import RunReport

# A placeholder for missing batches, since the last step of an epoch may have fewer than the others.
NO_BATCH = {"input_ids": torch.empty(0, 0, dtype=torch.long)}
# More steps than any run makes.
WITHOUT_END = 2**31 - 1


def train_with_trainer(recipe: Recipe, listeners: Sequence[StepListener] = ()) -> "RunReport | None":
    """Call [`train`], with the optimizer steps run by a [`VaswaniTrainer`].

    Raises:
        InputError: for errors that the user can correct, before any long work starts, and for FSDP, which only this
            package's own loop supports.
        TrainingInterrupted, TrainingError: as in [`train`].
    """
    with reported_once():
        if is_set("ACCELERATE_USE_FSDP"):
            raise InputError("FSDP is not supported with the Trainer. Use scripts/train.py.")
    return train(recipe, run_steps, listeners)


def run_steps(run: TrainingRun) -> None:
    """Run all remaining steps of a run with transformers' Trainer."""
    print_main("Optimizer steps by transformers' Trainer", run.accelerator)
    VaswaniTrainer(run).train()


class CurrentStep:
    """The step that the Trainer is computing.

    Attributes:
        batches: those of the step.
        loss: this process's part of the loss, summed over the batches so far; `()`.
    """

    def __init__(self, device: torch.device):
        self.batches: StepBatches | None = None
        self.loss = torch.zeros((), device=device)


class VaswaniTrainer(Seq2SeqTrainer):
    """A `Seq2SeqTrainer` that uses the model, optimizer, processes and batches of a [`TrainingRun`].

    It does not log, validate or save anything itself; the run does so after each step.
    """

    def __init__(self, run: TrainingRun):
        self.training_run, self.current = run, CurrentStep(run.accelerator.device)
        # No tokenizer is passed: some versions would change the model's special tokens to match it.
        super().__init__(
            run.raw_model,
            trainer_arguments(run),
            optimizers=(run.optimizer, RatesOfRun(run.optimizer)),
            callbacks=[StepCallback(run, self.current)],
        )
        self.model_wrapped = run.model
        self.remove_callback(PrinterCallback)

    def create_accelerator_and_postprocess(self) -> None:
        """Use the run's accelerator, which has prepared model and optimizer."""
        super().create_accelerator_and_postprocess()
        self.accelerator: Accelerator = self.training_run.accelerator

    def get_train_dataloader(self) -> DataLoader:
        """This process's share of all remaining steps, one item per step."""
        return self.training_run.steps()

    def get_batch_samples(self, epoch_iterator, num_batches: int, device: torch.device):
        """The batches of the next step, and the number of its target tokens in all processes."""
        step = self.current.batches = next(epoch_iterator)
        self.current.loss.zero_()
        # The Trainer takes a step only after `num_batches` batches; processes synchronize gradients at the last one,
        # so placeholders go first.
        return [NO_BATCH] * (num_batches - len(step.micro_batches)) + step.micro_batches, step.target_tokens

    def training_step(self, model: nn.Module, inputs, num_items_in_batch=None) -> torch.Tensor:
        """Run the forward and backward passes of a batch, and add up its part of the step's loss."""
        total_loss = torch.zeros_like(self.current.loss)
        if inputs is NO_BATCH:
            return total_loss
        *first, last = self.training_run.split_batch(inputs)
        with self.accelerator.no_sync(model) if first else nullcontext():
            for part in first:
                total_loss += super().training_step(model, part, num_items_in_batch).float()
        total_loss += super().training_step(model, last, num_items_in_batch).float()
        self.current.loss += total_loss / self.accelerator.num_processes
        return total_loss

    def compute_loss(self, model: nn.Module, inputs, return_outputs: bool = False, num_items_in_batch=None):
        """A batch's part of the mean loss per target token, times the number of processes: gradients are averaged."""
        share, run = num_items_in_batch / self.accelerator.num_processes, self.training_run
        with self.accelerator.autocast():
            weights = run.arguments.r_drop, run.teacher, run.arguments.guided_alignment
            return training_loss(model, inputs, share, *weights)


class RatesOfRun:
    """Stands in for the scheduler that the Trainer requires: the run itself sets the learning rate of each step."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer

    def step(self) -> None:
        pass

    def get_last_lr(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]


class StepCallback(TrainerCallback):
    """Does the run's work before and after each step, and skips steps whose loss or gradient is not finite."""

    def __init__(self, run: TrainingRun, current: CurrentStep):
        self.run, self.current = run, current

    def on_train_begin(self, args, state, control, **kwargs):
        state.global_step = self.run.progress.step

    def on_epoch_begin(self, args, state, control, train_dataloader, **kwargs):
        # The Trainer's epoch has as many steps as the run, skipped ones included: after any of these, another begins.
        progress = self.run.progress
        train_dataloader.dataset.start = (progress.epoch, progress.part, progress.batch)

    def on_step_begin(self, args, state, control, **kwargs):
        self.run.begin_step()

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        accelerator = self.run.accelerator
        loss, signals = total(accelerator, [self.current.loss.item(), float(self.run.stop.received)])
        self.loss, self.is_told_to_stop = loss, signals > 0
        if accelerator.scaler:
            # If a gradient is not finite, the scaler skips the step itself, and lowers its scale.
            self.scale = accelerator.scaler.get_scale()
        elif not (math.isfinite(loss) and math.isfinite(gradient_norm(model))):
            self.loss = None
            # Without gradients the optimizer's step changes nothing.
            model.zero_grad()

    def on_step_end(self, args, state, control, **kwargs):
        scaler = self.run.accelerator.scaler
        if scaler and scaler.get_scale() < self.scale:
            self.loss = None
        control.should_training_stop = self.run.end_step(self.current.batches, self.loss, self.is_told_to_stop)
        state.global_step = self.run.progress.step
        return control


def trainer_arguments(run: TrainingRun) -> Seq2SeqTrainingArguments:
    """What the Trainer needs from a recipe: the number of steps, batches per step, and gradient clipping."""
    arguments = run.arguments
    args = Seq2SeqTrainingArguments(
        output_dir=str(run.folder),
        # If epochs or minutes end the run, the run itself says when, but the Trainer needs a number.
        max_steps=arguments.max_steps or WITHOUT_END,
        gradient_accumulation_steps=arguments.gradient_accumulation_steps,
        # For the Trainer, 0 means no clipping; its default is 1.
        max_grad_norm=arguments.max_grad_norm or 0.0,
        seed=arguments.seed,
        # Otherwise the Trainer would turn off the cache for generation in the model's config.
        use_cache=True,
        accelerator_config={"use_configured_state": True},
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    args.mixed_precision = run.accelerator.mixed_precision
    # With several GPUs in one process, the Trainer would split each batch (torch.nn.DataParallel).
    args._n_gpu = min(args.n_gpu, 1)
    return args


def gradient_norm(model: nn.Module) -> float:
    """The norm of all gradients together."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients).item()

"""A training whose updates transformers' Trainer makes: the same ones as this package's own loop.

The Trainer accumulates gradients, clips them and takes the optimiser's steps. What an update is made of, its batches,
loss, dropout and learning rate, and all that follows it are the loop's, so that one recipe gives one training either
way, with the same checkpoints.
"""

import math
import os

import torch
from accelerate.utils import str_to_bool
from torch import nn
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from ..errors import InputError
from .loop import TrainingLoop
from .optimization.loss import training_loss
from .optimization.steps import UpdateData
from .recipe.recipe import Recipe
from .reporting.report import Results
from .train import train
from .validation import total

# Stands for a batch where an update, the last of an epoch, has fewer than others.
NO_BATCH = {"input_ids": torch.empty(0, 0, dtype=torch.long)}
# More updates than any training makes.
WITHOUT_END = 2**31 - 1


def train_with_trainer(recipe: Recipe) -> Results | None:
    """[`train`] with updates by a [`VaswaniTrainer`].

    Raises:
        InputError: what the user can put right, before any long work starts; FSDP, too, which only the loop serves.
        TrainingInterrupted, TrainingError: as [`train`] does.
    """
    if str_to_bool(os.environ.get("ACCELERATE_USE_FSDP", "false")):
        raise InputError("FSDP is not possible with the Trainer. Train with scripts/train.py.")
    return train(recipe, TrainerLoop)


class TrainerLoop(TrainingLoop):
    """The training loop with updates by transformers' Trainer."""

    def make_updates(self) -> None:
        self.log.say("Updates by transformers' Trainer")
        VaswaniTrainer(self).train()


class VaswaniTrainer(Seq2SeqTrainer):
    """A `Seq2SeqTrainer` for what a [`TrainingLoop`] has prepared: model, optimiser, processes, batches.

    It logs, validates and saves nothing of its own; the loop does, after each update.
    """

    def __init__(self, loop: TrainingLoop):
        self.loop = loop
        self.update: UpdateData | None = None  # that is being computed
        self.loss_sum = torch.zeros((), device=loop.accelerator.device)
        # Without the tokenizer, after which some versions would change the model's special tokens.
        super().__init__(
            loop.raw_model,
            trainer_arguments(loop),
            optimizers=(loop.optimizer, RatesOfLoop(loop)),
            callbacks=[UpdateCallback(self)],
        )
        self.model_wrapped = loop.model
        self.remove_callback(PrinterCallback)

    def create_accelerator_and_postprocess(self) -> None:
        """The loop's accelerator, which has prepared model and optimiser."""
        super().create_accelerator_and_postprocess()
        self.accelerator = self.loop.accelerator

    def get_train_dataloader(self) -> DataLoader:
        """This process' share of all updates that are left, each an item."""
        return self.loop.updates()

    def get_batch_samples(self, epoch_iterator, num_batches: int, device: torch.device):
        """The batches of the next update, and the number of its target tokens over all processes."""
        self.update = next(epoch_iterator)
        self.loss_sum.zero_()
        batches = self.update.micro_batches
        # The Trainer takes a step after so many batches, not before. Processes share gradients at the last one.
        return [NO_BATCH] * (num_batches - len(batches)) + batches, self.update.target_tokens

    def training_step(self, model: nn.Module, inputs, num_items_in_batch=None) -> torch.Tensor:
        """Forward and backward pass of a batch; its part of the update's loss is noted."""
        if inputs is NO_BATCH:
            return torch.zeros_like(self.loss_sum)
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.loss_sum += loss.float() / self.accelerator.num_processes
        return loss

    def compute_loss(self, model: nn.Module, inputs, return_outputs: bool = False, num_items_in_batch=None):
        """A batch's part of the mean loss per target token, times the processes, whose gradients are averaged."""
        return training_loss(model, inputs, num_items_in_batch / self.accelerator.num_processes, self.loop.r_drop)


class RatesOfLoop:
    """In the place of the scheduler that the Trainer wants: the loop sets the learning rate of each update."""

    def __init__(self, loop: TrainingLoop):
        self.optimizer = loop.optimizer

    def step(self) -> None:
        pass

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]


class UpdateCallback(TrainerCallback):
    """The loop's work before and after each update, and what becomes of one whose loss or gradient is not finite."""

    def __init__(self, trainer: VaswaniTrainer):
        self.trainer, self.loop = trainer, trainer.loop

    def on_train_begin(self, args, state, control, **kwargs):
        state.global_step = self.loop.progress.update

    def on_epoch_begin(self, args, state, control, train_dataloader, **kwargs):
        # The Trainer counts as many updates as a training has for an epoch, also those that were left out.
        progress = self.loop.progress
        train_dataloader.dataset.start = (progress.epoch, progress.part, progress.batch)

    def on_step_begin(self, args, state, control, **kwargs):
        self.loop.begin_update()

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
        loop, scaler = self.loop, self.loop.accelerator.scaler
        loss, signals = total(loop.accelerator, [self.trainer.loss_sum.item(), float(loop.stop.received)])
        self.loss, self.is_told_to_stop = loss, signals > 0
        if scaler:
            # It leaves out the step itself where a gradient is not finite, and lowers its scale.
            self.scale = scaler.get_scale()
        elif not (math.isfinite(loss) and math.isfinite(gradient_norm(model))):
            self.loss = None
            # Without gradients the optimiser's step changes nothing.
            model.zero_grad()

    def on_step_end(self, args, state, control, **kwargs):
        loop, scaler = self.loop, self.loop.accelerator.scaler
        if scaler and scaler.get_scale() < self.scale:
            self.loss = None
        control.should_training_stop = loop.conclude(self.trainer.update, self.loss, self.is_told_to_stop)
        state.global_step = loop.progress.update
        return control


def trainer_arguments(loop: TrainingLoop) -> Seq2SeqTrainingArguments:
    """What the Trainer has to know of a recipe: how long, how many batches an update, how gradients are clipped."""
    arguments = loop.arguments
    args = Seq2SeqTrainingArguments(
        output_dir=str(loop.folder),
        # Where epochs or minutes end the training, the loop says when; the Trainer must have a number.
        max_steps=arguments.max_steps or WITHOUT_END,
        gradient_accumulation_steps=arguments.gradient_accumulation_steps,
        # For the Trainer 0 means no clipping, and 1 is its default.
        max_grad_norm=arguments.max_grad_norm or 0.0,
        seed=arguments.seed,
        # Otherwise the Trainer writes into the model's config that it generates without a cache.
        use_cache=True,
        accelerator_config={"use_configured_state": True},
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    args.mixed_precision = loop.accelerator.mixed_precision
    # Several GPUs of one process would make the Trainer cut each batch into pieces (torch.nn.DataParallel).
    args._n_gpu = min(args.n_gpu, 1)
    return args


def gradient_norm(model: nn.Module) -> float:
    """The norm of all gradients together."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return nn.utils.get_total_norm(gradients).item()

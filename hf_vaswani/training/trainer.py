"""transformers' Trainer with what translation needs: the same updates as this package's own loop, one after another.

What the Trainer does otherwise, and is put right here: batches of so many sentences, learning rates one update late,
dropout that depends on what ran before, a mean of batch means as validation loss.
"""

import math
from pathlib import Path

import torch
from accelerate.utils import gather_object
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import (
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)

from ..data.batches import TokenBudgetBatches
from ..data.encoding import Collator, EncodedPairs
from ..data.parallel_text import Pair
from ..data.sampler import EmptyBatchCollator, TokenBudgetSampler
from ..evaluation.score import bleu
from ..evaluation.translate import translate
from ..modeling_vaswani import VaswaniForConditionalGeneration
from .loop import generator_seed, make_optimizer
from .recipe import TrainingArguments
from .schedule import learning_rate


def trainer_arguments(arguments: TrainingArguments, output_dir: str | Path, **changes) -> Seq2SeqTrainingArguments:
    """The section `training` of a recipe in the Trainer's words. It prepares the processes and devices, too.

    Args:
        output_dir: of the Trainer's checkpoints.
        changes: further arguments of `Seq2SeqTrainingArguments`, which go before those of the recipe.
    """
    settings = {
        "max_steps": arguments.max_updates,
        "gradient_accumulation_steps": arguments.accumulation,
        "average_tokens_across_devices": True,
        "seed": arguments.seed,
        # For the Trainer 0 means no clipping, and 1 is its default.
        "max_grad_norm": arguments.max_grad_norm or 0.0,
        "logging_steps": arguments.log_every,
        # Else a loss that is no number would be shown as the mean of those before it.
        "logging_nan_inf_filter": False,
        "eval_strategy": "steps",
        "eval_steps": arguments.validate_every,
        "save_strategy": "steps",
        "save_steps": arguments.save_every,
        "save_total_limit": arguments.keep_last,
        # Otherwise the Trainer writes into the model's config that it generates without a cache.
        "use_cache": True,
        "report_to": "none",
        "disable_tqdm": True,
    }
    args = Seq2SeqTrainingArguments(output_dir=str(output_dir), **{**settings, **changes})
    if arguments.mixed_precision:
        args.mixed_precision = arguments.mixed_precision
    # Several GPUs of one process would make the Trainer cut each batch into pieces (torch.nn.DataParallel).
    args._n_gpu = min(args.n_gpu, 1)
    return args


class VaswaniTrainer(Seq2SeqTrainer):
    """A `Seq2SeqTrainer` whose updates equal those of [`TrainingLoop`] for the same recipe.

    Batches hold a budget of tokens, the learning rate is that of the recipe's schedule at each update, the loss of an
    update is its sum over all target tokens divided by their number, and the generator of the dropout is seeded from
    seed, update and process, so that a training that was stopped goes on as if it had not been. Labels are smoothed
    by the model (`label_smoothing` of its config).

    Args:
        model: trained in place.
        args: as [`trainer_arguments`] makes them.
        arguments: section `training` of the recipe: optimiser, schedule, seed, gradient checkpointing.
        train: encoded pairs.
        batches: of `train`.
        validation: encoded pairs, for the validation loss.
        validation_pairs: their text, for BLEU; the first `validate_sentences` are translated.
        processing_class: the tokenizer.
        kwargs: further arguments of `Seq2SeqTrainer`.

    Raises:
        ValueError: where the Trainer's label smoother is asked for, too.
    """

    def __init__(
        self,
        model: VaswaniForConditionalGeneration,
        args: Seq2SeqTrainingArguments,
        arguments: TrainingArguments,
        train: EncodedPairs,
        batches: TokenBudgetBatches,
        processing_class: PreTrainedTokenizerBase,
        validation: EncodedPairs | None = None,
        validation_pairs: list[Pair] | None = None,
        **kwargs,
    ):
        if args.label_smoothing_factor:
            raise ValueError(
                "label_smoothing_factor is the Trainer's own smoothing, which also smooths the validation loss. "
                "Leave it at 0 and set label_smoothing in the model's config."
            )
        self.arguments = arguments
        self.validation, self.validation_pairs = validation, validation_pairs or []
        self.target_tokens = 0
        self.sampler = TokenBudgetSampler(batches, args.world_size, args.process_index)
        if arguments.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        kwargs.setdefault("data_collator", Collator(processing_class.pad_token_id))
        super().__init__(
            model,
            args,
            train_dataset=train.dataset,
            eval_dataset=validation.dataset if validation else None,
            processing_class=processing_class,
            **kwargs,
        )
        self.add_callback(UpdateCallback(self))

    def get_train_dataloader(self) -> DataLoader:
        """This process' batches. Accelerate, which would share them out anew and repeat some, does not see them."""
        return DataLoader(
            self.train_dataset,
            batch_sampler=self.sampler,
            collate_fn=EmptyBatchCollator(self.data_collator, self.processing_class.eos_token_id),
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and self.args.device.type == "cuda",
        )

    def get_batch_samples(self, epoch_iterator, num_batches: int, device: torch.device):
        """The batches of an update and the number of their target tokens over all processes, which are counted."""
        batches, target_tokens = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.target_tokens += target_tokens
        return batches, target_tokens

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        """Adam or AdamW as in the loop, weight decay on all parameters."""
        if self.optimizer is None:
            self.optimizer = make_optimizer(model or self.model, self.arguments, self.args.device)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        """The recipe's schedule, exact at every update: after `n` updates the rate is that of update `n + 1`."""
        if self.lr_scheduler is None:
            optimizer = optimizer or self.optimizer
            for group in optimizer.param_groups:
                group["lr"] = 1.0  # LambdaLR multiplies by it
            self.lr_scheduler = LambdaLR(optimizer, self.learning_rate_after)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def learning_rate_after(self, updates: int) -> float:
        """The learning rate of the update that follows so many."""
        arguments = self.arguments
        return learning_rate(
            arguments.schedule,
            updates + 1,
            peak=arguments.learning_rate,
            warmup=arguments.warmup_updates,
            max_updates=arguments.max_updates,
            d_model=self.model.config.d_model,
        )

    def _issue_warnings_after_load(self, load_result):
        """Without the Trainer's warning that tied weights are missing: a checkpoint holds them once, as it should."""
        tied = self.model._tied_weights_keys
        missing = [name for name in load_result.missing_keys if name not in tied]
        super()._issue_warnings_after_load(load_result._replace(missing_keys=missing))

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval", **gen_kwargs):
        """Validation loss per target token, without smoothing, perplexity and BLEU, over all processes.

        Given another data set, the Trainer's own evaluation.
        """
        if eval_dataset is not None or self.validation is None:
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix, **gen_kwargs)
        loss = self.validation_loss()
        metrics = {"loss": loss, "perplexity": math.exp(min(loss, 100))}
        pairs = self.validation_pairs[: self.arguments.validate_sentences]
        if pairs:
            hypotheses = self.translate([source for source, _ in pairs], **{"num_beams": 1, **gen_kwargs})
            metrics["bleu"] = bleu(hypotheses, [target for _, target in pairs]).value
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in metrics.items()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Negative log-likelihood per target token of the validation pairs, each process taking its share."""
        was_training = self.model.training
        self.model.eval()
        lengths = self.validation.source_lengths, self.validation.target_lengths
        budget = max(self.arguments.max_tokens, *(int(side.max()) for side in lengths))
        total = 0.0
        for batch in TokenBudgetBatches(*lengths, budget).epoch(0)[self.args.process_index :: self.args.world_size]:
            tensors = self.data_collator([self.validation.dataset[row] for row in batch.tolist()])
            total += self.model(**self._prepare_inputs(tensors), num_items_in_batch=1).loss.item()
        self.model.train(was_training)
        total = self.accelerator.reduce(torch.tensor(total, device=self.args.device)).item()
        return total / int(lengths[1].sum())

    def translate(self, texts: list[str], **options) -> list[str]:
        """Translate texts, each process its share; the arguments are those of `evaluation.translate`."""
        processes = self.args.world_size
        share = translate(self.model, self.processing_class, texts[self.args.process_index :: processes], **options)
        translations = [""] * len(texts)
        for number, part in enumerate(gather_object([share])):
            translations[number::processes] = part
        return translations


class UpdateCallback(TrainerCallback):
    """What makes an update depend on its number alone: its data, its dropout, its learning rate."""

    def __init__(self, trainer: VaswaniTrainer):
        self.trainer = trainer

    def on_epoch_begin(self, args, state, control, **kwargs):
        sampler = self.trainer.sampler
        sampler.set_epoch(state.global_step // sampler.updates(args.gradient_accumulation_steps))

    def on_step_begin(self, args, state, control, **kwargs):
        seed = generator_seed(self.trainer.arguments.seed, state.global_step + 1, args.process_index)
        torch.manual_seed(seed)

    def on_step_end(self, args, state, control, **kwargs):
        # An update that fp16 lost to an overflow counts, but the Trainer leaves the schedule where it was.
        if self.trainer.accelerator.optimizer_step_was_skipped:
            self.trainer.lr_scheduler.step()

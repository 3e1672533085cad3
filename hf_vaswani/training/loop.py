"""The training loop on Accelerate: one optimiser step after another, validation, checkpoints, and how to go on.

Everything random depends on seed, update and process alone: the order of the batches is made from seed and epoch, and
the generator of the dropout is seeded anew at each update. A checkpoint therefore needs no generator states, and a
training that was stopped goes on as if it had not been.
"""

import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerFast

from ..data.batches import TokenBudgetBatches
from ..data.encoding import Collator, EncodedPairs
from ..data.parallel_text import Pair
from ..evaluation.score import bleu
from ..evaluation.translate import translate
from ..modeling_vaswani import IGNORED_LABEL, VaswaniForConditionalGeneration
from .checkpoint import Progress, checkpoint_folders, load_checkpoint, save_checkpoint
from .log import TrainingLog
from .prepare import CHECKPOINTS
from .recipe import TrainingArguments
from .schedule import learning_rate


@dataclass(frozen=True)
class UpdateData:
    """What one process computes for one update.

    Attributes:
        micro_batches: tensors of each forward pass.
        target_tokens: in the whole update, over all processes.
        end: the batch of the epoch at which the next update begins; 0 where it is a new epoch.
    """

    micro_batches: list[dict[str, torch.Tensor]]
    target_tokens: int
    end: int


class TrainingLoop:
    """Trains a model up to `max_updates` or `max_minutes`, from its newest checkpoint where there is one.

    Args:
        arguments: of the training.
        folder: output folder, holding `checkpoints/` and `log.jsonl`.
        model: trained in place.
        tokenizer: of model and data.
        train, validation: encoded pairs.
        batches: of the training pairs.
        validation_pairs: the text of the validation pairs, for BLEU.
    """

    def __init__(
        self,
        arguments: TrainingArguments,
        folder: Path,
        accelerator: Accelerator,
        model: VaswaniForConditionalGeneration,
        tokenizer: PreTrainedTokenizerFast,
        train: EncodedPairs,
        batches: TokenBudgetBatches,
        validation: EncodedPairs,
        validation_pairs: list[Pair],
    ):
        self.arguments = arguments
        self.folder = folder
        self.accelerator = accelerator
        self.tokenizer = tokenizer
        self.train, self.validation, self.validation_pairs = train, validation, validation_pairs
        self.collate = Collator(tokenizer.pad_token_id)
        self.batches = batches
        if arguments.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        self.model, self.optimizer = accelerator.prepare(model, make_optimizer(model, arguments, accelerator.device))
        self.progress = Progress()
        self.has_trained = False
        checkpoints = checkpoint_folders(folder / CHECKPOINTS)
        if checkpoints:
            self.progress = load_checkpoint(checkpoints[-1], self.raw_model, self.optimizer, accelerator.scaler)
        self.log = TrainingLog(
            folder if accelerator.is_main_process else None, self.progress.update, arguments.max_updates
        )
        if checkpoints:
            self.log.say(f"Going on from {checkpoints[-1]}")

    @property
    def raw_model(self) -> VaswaniForConditionalGeneration:
        return self.accelerator.unwrap_model(self.model)

    def run(self) -> None:
        """Train to the end, validating and saving on the way. The last checkpoint is that of the last update."""
        arguments, progress = self.arguments, self.progress
        started = time.monotonic() - progress.seconds
        window = Window()
        self.model.train()
        updates = self.updates()
        is_finished = self._is_finished()
        self.has_trained = not is_finished
        while not is_finished:
            data = next(updates)
            loss = self.step(data)
            progress.update += 1
            progress.epoch, progress.batch = (progress.epoch, data.end) if data.end else (progress.epoch + 1, 0)
            progress.seconds = time.monotonic() - started
            window.add(loss, data.target_tokens)
            is_finished = self._is_finished()
            self.log.advance()
            if progress.update % arguments.log_every == 0:
                self._log_training(window)
                window = Window()
            if progress.update % arguments.validate_every == 0:
                self.validate()
            if progress.update % arguments.save_every == 0 or is_finished:
                self.save()
        self.log.close()

    def updates(self) -> Iterator[UpdateData]:
        """This process' share of all updates from here on, one epoch after another."""
        processes, rank = self.accelerator.num_processes, self.accelerator.process_index
        epoch, position = self.progress.epoch, self.progress.batch
        while True:
            batches = self.batches.epoch(epoch)
            size = processes * self.arguments.accumulation
            groups = [batches[start : start + size] for start in range(position, len(batches), size)]
            shares = [share_of(group, rank, processes) for group in groups]
            loader = iter(
                DataLoader(
                    self.train.dataset,
                    batch_sampler=[batch.tolist() for share, _ in shares for batch in share],
                    collate_fn=self.collate,
                    pin_memory=self.accelerator.device.type == "cuda",
                )
            )
            for group, (share, is_filled_up) in zip(groups, shares):
                micro_batches = [next(loader) for _ in share]
                if is_filled_up:
                    micro_batches[-1]["labels"].fill_(IGNORED_LABEL)
                position += len(group)
                yield UpdateData(
                    micro_batches,
                    target_tokens=int(sum(self.train.target_lengths[batch].sum() for batch in group)),
                    end=position if position < len(batches) else 0,
                )
            epoch, position = epoch + 1, 0

    def step(self, data: UpdateData) -> torch.Tensor:
        """One update. Returns this process' part of the mean loss per target token, which all parts sum up to."""
        arguments, accelerator = self.arguments, self.accelerator
        update = self.progress.update + 1
        torch.manual_seed(generator_seed(arguments.seed, update, accelerator.process_index))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                arguments.schedule,
                update,
                peak=arguments.learning_rate,
                warmup=arguments.warmup_updates,
                max_updates=arguments.max_updates,
                d_model=self.raw_model.config.d_model,
            )
        total = torch.zeros((), device=accelerator.device)
        for i, batch in enumerate(data.micro_batches):
            batch = {name: tensor.to(accelerator.device, non_blocking=True) for name, tensor in batch.items()}
            is_last = i == len(data.micro_batches) - 1
            with nullcontext() if is_last else accelerator.no_sync(self.model):
                loss = self.model(**batch, num_items_in_batch=data.target_tokens).loss
                # Processes average their gradients; the loss is already divided by the tokens of all of them.
                accelerator.backward(loss * accelerator.num_processes)
            total += loss.detach()
        if arguments.max_grad_norm:
            accelerator.clip_grad_norm_(self.model.parameters(), arguments.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def validate(self) -> None:
        """Record validation loss per token, perplexity and BLEU."""
        values = {"validation_loss": self.validation_loss()}
        values["validation_perplexity"] = math.exp(min(values["validation_loss"], 100))
        pairs = self.validation_pairs[: self.arguments.validate_sentences]
        if pairs:
            hypotheses = self.translate([source for source, _ in pairs], num_beams=1)
            values["validation_bleu"] = bleu(hypotheses, [target for _, target in pairs]).value
        self.log.record(self.progress.update, **values)

    def translate(self, texts: list[str], **options) -> list[str]:
        """Translate texts, each process its share; the arguments are those of `evaluation.translate`."""
        processes, rank = self.accelerator.num_processes, self.accelerator.process_index
        share = translate(self.raw_model, self.tokenizer, texts[rank::processes], **options)
        translations = [""] * len(texts)
        for number, part in enumerate(gather_object([share])):
            translations[number::processes] = part
        return translations

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Negative log-likelihood per target token, without smoothing, over all processes' shares."""
        model = self.raw_model
        model.eval()
        lengths = self.validation.source_lengths, self.validation.target_lengths
        budget = max(self.arguments.max_tokens, *(int(side.max()) for side in lengths))
        batches = TokenBudgetBatches(*lengths, budget).epoch(0)
        total = 0.0
        for batch in batches[self.accelerator.process_index :: self.accelerator.num_processes]:
            tensors = self.collate([self.validation.dataset[row] for row in batch.tolist()])
            tensors = {name: tensor.to(model.device) for name, tensor in tensors.items()}
            total += model(**tensors, num_items_in_batch=1).loss.item()
        model.train()
        total = self.accelerator.reduce(torch.tensor(total, device=model.device)).item()
        return total / int(self.validation.target_lengths.sum())

    def save(self) -> None:
        """Write a checkpoint."""
        if self.accelerator.is_main_process:
            save_checkpoint(
                self.folder / CHECKPOINTS,
                self.raw_model,
                self.optimizer,
                self.accelerator.scaler,
                self.progress,
                keep=self.arguments.keep_last,
                every=self.arguments.save_every,
            )
        self.accelerator.wait_for_everyone()

    def _is_finished(self) -> bool:
        if self.progress.update >= self.arguments.max_updates:
            return True
        if self.arguments.max_minutes is None:
            return False
        # Clocks differ a little: the main process decides for all.
        is_over = [self.progress.seconds >= 60 * self.arguments.max_minutes]
        return broadcast_object_list(is_over)[0] if self.accelerator.num_processes > 1 else is_over[0]

    def _log_training(self, window: "Window") -> None:
        loss = self.accelerator.reduce(window.loss).item() / window.updates
        self.log.record(
            self.progress.update,
            epoch=self.progress.epoch,
            loss=loss,
            learning_rate=self.optimizer.param_groups[0]["lr"],
            target_tokens_per_second=window.target_tokens / (time.monotonic() - window.started),
            minutes=self.progress.seconds / 60,
        )


def share_of(group: list[np.ndarray], rank: int, processes: int) -> tuple[list[np.ndarray], bool]:
    """The batches of an update that fall to one process.

    All processes take as many forward passes, lest one wait for another. Where a process has a batch less, it repeats
    one that another counts; the flag says so.
    """
    share = group[rank::processes]
    is_filled_up = len(share) < math.ceil(len(group) / processes)
    return (share + [group[-1]], True) if is_filled_up else (share, False)


class Window:
    """Sums over the updates since the last line of the log."""

    def __init__(self):
        self.loss = torch.zeros(())
        self.target_tokens = 0
        self.updates = 0
        self.started = time.monotonic()

    def add(self, loss: torch.Tensor, target_tokens: int) -> None:
        self.loss = self.loss.to(loss.device) + loss
        self.target_tokens += target_tokens
        self.updates += 1


def make_optimizer(
    model: torch.nn.Module, arguments: TrainingArguments, device: torch.device
) -> torch.optim.Optimizer:
    """Adam as in section 5.3; with weight decay, AdamW."""
    kind = torch.optim.AdamW if arguments.weight_decay else torch.optim.Adam
    return kind(
        model.parameters(),
        lr=arguments.learning_rate,
        betas=tuple(arguments.adam_betas),
        eps=arguments.adam_eps,
        weight_decay=arguments.weight_decay,
        fused=device.type in ("cpu", "cuda"),
    )


def generator_seed(*numbers: int) -> int:
    """A seed that differs for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))

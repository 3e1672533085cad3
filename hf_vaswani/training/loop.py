"""The training loop on Accelerate: one optimiser step after another, validation, checkpoints, and how to go on.

Everything random depends on seed, update and process alone: the order of the batches is made from seed and epoch, and
the generator of the dropout is seeded anew at each update. A checkpoint therefore needs no generator states, and a
training that was stopped goes on as if it had not been.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.encoding import Collator
from ..data.epochs import TokenisedCorpus
from ..errors import TrainingError, TrainingInterrupted, counted
from ..runtime.energy import EnergyMeter, energy_counters
from ..runtime.machine import describe_machine, processes_here
from ..runtime.processes import in_all_processes, on_main_process
from ..runtime.signals import StopSignals
from ..runtime.threads import UPDATES_BETWEEN_LOOKS, begin_threads, feed_forward
from .checkpoints.best_weights import BestWeights, note_validation
from .checkpoints.checkpoint import Progress, checkpoint_folders, save_checkpoint
from .checkpoints.output_folder import BEST, CHECKPOINTS
from .checkpoints.state import gather_state, gather_weights, restore_state
from .optimization.ema import MovingAverage
from .optimization.loss import training_loss
from .optimization.optimizer import make_optimizer
from .optimization.schedule import learning_rate
from .optimization.sharding import shard_tied_embeddings, unsharded, whole
from .optimization.steps import Corpus, UpdateData, Updates, updates_loader
from .recipe.arguments import TrainingArguments
from .reporting.log import TrainingLog
from .setup.tokenizer_and_model import drops_layers
from .validation import Validation, total


class TrainingLoop:
    """Trains a model up to `max_steps`, `num_train_epochs`, `max_minutes` or until validation gains no more.

    Args:
        arguments: of the training.
        folder: output folder; gets `checkpoints/`, `best/`, `log.jsonl` and `curves.png`.
        model: trained in place.
        corpus: the training pairs.
        validation: measures the model.
        pad_token_id: fills up source sentences.
        checkpoint: where there is one to go on from.
    """

    def __init__(
        self,
        arguments: TrainingArguments,
        folder: Path,
        accelerator: Accelerator,
        model: VaswaniForConditionalGeneration,
        corpus: Corpus,
        validation: Validation,
        pad_token_id: int,
        checkpoint: Path | None = None,
    ):
        self.arguments = arguments
        self.folder = folder
        self.accelerator = accelerator
        self.corpus = corpus
        self.validation = validation
        self.collate = Collator(pad_token_id)
        if arguments.gradient_checkpointing:
            # transformers gives it another name from 5.20 on.
            getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        if arguments.torch_compile:
            model.compile(dynamic=True)
        self.d_model, self.inner = model.config.d_model, model.config.encoder_ffn_dim
        if drops_layers(model.config) and accelerator.ddp_handler:
            # Processes leave out other layers, whose gradients DDP would wait for.
            accelerator.ddp_handler.find_unused_parameters = True
        shard_tied_embeddings(model, accelerator)
        self.model, self.optimizer = accelerator.prepare(model, make_optimizer(model, arguments, accelerator.device))
        self.ema = MovingAverage(self.raw_model, arguments.ema_decay) if arguments.ema_decay else None
        self.progress = Progress()
        if checkpoint:
            self.progress = restore_state(accelerator, self.model, self.optimizer, self.ema, checkpoint)
        self.log = TrainingLog(
            folder if accelerator.is_main_process else None,
            self.progress,
            self.last_update(),
            arguments.max_minutes,
            accelerator.log if arguments.report_to else None,
        )
        if checkpoint:
            self.log.say(f"Going on from {checkpoint}")

    @property
    def raw_model(self) -> VaswaniForConditionalGeneration:
        return self.accelerator.unwrap_model(self.model)

    def run(self) -> None:
        """Train to the end, validating and saving on the way. The last checkpoint is that of the last update.

        Raises:
            TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
            TrainingError: where gradients stay not finite, or a checkpoint cannot be written.
        """
        if self.is_finished():
            last = self.arguments.max_steps
            if last is not None and self.progress.update > last:
                done = counted(self.progress.update, "update")
                self.log.say(f"Nothing to train: {done} are done already, beyond max_steps={last}")
            return
        self.begin_threads()
        self.note_devices()
        self.started = time.monotonic() - self.progress.seconds
        with StopSignals() as self.stop, self.energy_meter() as self.meter:
            self.make_updates()
        self.log.draw()
        self.log.close()
        if reason := self.early_end():
            self.log.say(reason)

    def begin_threads(self) -> None:
        """Set the threads of a CPU: those that the user asks for, or else of the checkpoint while they serve."""
        self.threads = None
        if self.accelerator.device.type == "cpu":
            work = feed_forward(self.d_model, self.inner, self.arguments.max_tokens)
            cpu_threads, stored = self.arguments.cpu_threads, self.progress.threads
            log = self.log
            self.threads = begin_threads(self.accelerator, cpu_threads, stored, work, log.say, log.clock)
            self.progress.threads = torch.get_num_threads()

    def adapt_threads(self, target_tokens: int) -> None:
        """See now and then whether another number of threads serves better, where the user asked for none.

        Args:
            target_tokens: of the update that has been made.
        """
        threads = self.threads
        if threads is None:
            return
        threads.tokens += target_tokens
        is_time = self.progress.update % UPDATES_BETWEEN_LOOKS == 0
        if is_time and on_main_process(self.accelerator, threads.is_due):
            with self.log.pause():
                threads.choose()
            threads.begin_window()
            self.progress.threads = torch.get_num_threads()
            self.note_devices()

    def note_devices(self) -> None:
        """Remember what trains now, beside what trained before."""
        progress, accelerator = self.progress, self.accelerator
        progress.machines = [*dict.fromkeys([*progress.machines, describe_machine(accelerator)])]
        if progress.processes is not None:
            progress.processes = [*dict.fromkeys([*progress.processes, accelerator.num_processes])]

    def energy_meter(self) -> EnergyMeter:
        """What measures the energy of this run, in the process that writes the checkpoints."""
        accelerator = self.accelerator
        gpus = processes_here(accelerator.num_processes)
        counters = energy_counters(accelerator.device, gpus) if accelerator.is_main_process else []
        return EnergyMeter(counters, self.progress.energy)

    def make_updates(self) -> None:
        """One update after another, until [`conclude`] says that it was the last."""
        self.model.train()
        for data in self.updates():
            if self.conclude(data, *self.step(data)):
                break

    def updates(self) -> DataLoader:
        """This process' share of all updates that are left."""
        progress = self.progress
        updates = Updates(
            self.corpus,
            self.collate,
            (progress.epoch, progress.part, progress.batch),
            self.accelerator.process_index,
            self.accelerator.num_processes,
            self.arguments.gradient_accumulation_steps,
        )
        # On an accelerator, batches are made while it computes; on a CPU the cores are busy anyway.
        return updates_loader(updates, workers=int(self.accelerator.device.type == "cuda"))

    def conclude(self, data: UpdateData, loss: float | None, is_told_to_stop: bool) -> bool:
        """All that follows an update: log, validation, checkpoint.

        Args:
            loss, is_told_to_stop: as [`step`] returns them.

        Returns:
            Whether the training has come to its end.
        """
        arguments, progress = self.arguments, self.progress
        progress.epoch, progress.part, progress.batch = data.following
        progress.seconds = time.monotonic() - self.started
        for fault, count in (data.counts or {}).items():
            progress.filters[fault] = progress.filters.get(fault, 0) + count
        if loss is None:
            self._note_skipped_update()
        else:
            progress.update += 1
            progress.skipped_in_a_row = 0
            self._after_update(loss, data)
        is_finished = self.is_finished()
        progress.is_irregular = loss is None or progress.update % arguments.save_steps != 0
        if is_finished or is_told_to_stop or not progress.is_irregular:
            self.save()
        if is_told_to_stop and not is_finished:
            how = "Without --overwrite, the same command" if arguments.overwrite else "The same command"
            message = (
                f"Stopped by {self.stop.name} after update {progress.update}; the state is saved in "
                f"{self.folder / CHECKPOINTS}. {how} goes on from there."
            )
            stop = TrainingInterrupted(message, self.stop.received or signal.SIGTERM)
            raise in_all_processes(self.accelerator, stop)
        return is_finished

    def begin_update(self) -> None:
        """Make dropout and learning rate those of the next update."""
        arguments, progress = self.arguments, self.progress
        # An update that was left out is not counted, but the one after it shall not repeat its dropout.
        numbers = (progress.update + 1, progress.skipped) if progress.skipped else (progress.update + 1,)
        torch.manual_seed(generator_seed(arguments.seed, *numbers, self.accelerator.process_index))
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(
                arguments.lr_scheduler_type,
                progress.update + 1,
                peak=arguments.learning_rate,
                warmup=arguments.warmup_steps,
                max_steps=arguments.max_steps,
                d_model=self.d_model,
            )

    @property
    def r_drop(self) -> float:
        """Weight of R-Drop in the next update."""
        return self.arguments.r_drop if self.progress.update + 1 >= self.arguments.r_drop_from else 0.0

    def step(self, data: UpdateData) -> tuple[float | None, bool]:
        """One update.

        Returns:
            The mean loss per target token, `None` where the update was left out because loss or gradient were not
            finite; and whether a signal has come to any process.
        """
        arguments, accelerator = self.arguments, self.accelerator
        self.begin_update()
        loss_sum = torch.zeros((), device=accelerator.device)
        for i, batch in enumerate(data.micro_batches):
            batch = {name: tensor.to(accelerator.device, non_blocking=True) for name, tensor in batch.items()}
            is_last = i == len(data.micro_batches) - 1
            with nullcontext() if is_last else accelerator.no_sync(self.model):
                # Processes average their gradients: each divides its sum by its share of all tokens.
                loss = training_loss(self.model, batch, data.target_tokens / accelerator.num_processes, self.r_drop)
                accelerator.backward(loss)
            loss_sum += loss.detach().float() / accelerator.num_processes
        norm = accelerator.clip_grad_norm_(self.model.parameters(), arguments.max_grad_norm or math.inf)
        loss, signals = total(accelerator, [loss_sum.item(), float(self.stop.received)])
        is_good = math.isfinite(loss) and math.isfinite(whole(norm))
        if accelerator.scaler is not None:
            # A loss scaler has to see what is not finite: it leaves out the step itself, and lowers its scale.
            scale = accelerator.scaler.get_scale()
            self.optimizer.step()
            is_good = accelerator.scaler.get_scale() >= scale
        elif is_good:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return (loss if is_good else None), signals > 0

    def _after_update(self, loss: float, data: UpdateData) -> None:
        arguments, progress = self.arguments, self.progress
        if progress.seen is not None:
            for name in ("pairs", "source_tokens", "target_tokens"):
                progress.seen[name] = progress.seen.get(name, 0) + getattr(data, name)
        if self.ema:
            self.ema.follow(self.raw_model, progress.update)
        self.log.advance(loss, data.target_tokens)
        self.adapt_threads(data.target_tokens)
        if progress.update % arguments.logging_steps == 0:
            self.log.record_window(self.optimizer.param_groups[0]["lr"])
        if progress.update % arguments.eval_steps == 0:
            self.validate()

    def _note_skipped_update(self) -> None:
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        self.log.say(f"update {progress.update + 1}: loss or gradient not finite; batch left out")
        if progress.skipped_in_a_row < self.arguments.max_skipped_steps:
            return
        checkpoints = checkpoint_folders(self.folder / CHECKPOINTS)
        error = TrainingError(
            f"Update {progress.update + 1}: loss or gradient not finite in {progress.skipped_in_a_row} batches in a "
            f"row. The last good checkpoint is {checkpoints[-1] if checkpoints else 'none'}. Lower "
            "training.learning_rate, set training.max_grad_norm, or lengthen the warm-up."
        )
        raise in_all_processes(self.accelerator, error)

    def validate(self) -> None:
        """Record the validation measures, draw the curves at times, keep the weights where they are among the best."""
        arguments, progress = self.arguments, self.progress
        with self.log.pause(), self.averaged_model() as model:
            with unsharded(model):
                values = self.validation.measure(model)
            self.log.record(**values)
            scores = {name.removeprefix("validation_"): value for name, value in values.items()}
            note_validation(progress, arguments.metric_for_best_model, scores[arguments.metric_for_best_model])
            if arguments.keep_best:
                best = BestWeights(self.folder / BEST, arguments.metric_for_best_model, arguments.keep_best)
                # Not of the unsharded model, which mixed precision has in 16 bits.
                weights = gather_weights(model)
                on_main_process(self.accelerator, lambda: best.consider(weights, progress.update, scores))
        self.log.draw_at_times()

    @contextmanager
    def averaged_model(self) -> Iterator[nn.Module]:
        """The model with the weights to translate with: their moving average, where one is kept."""
        with self.ema.in_place_of_weights(self.raw_model) if self.ema else nullcontext():
            yield self.raw_model

    def save(self) -> None:
        """Write a checkpoint."""
        self.progress.log_window = self.log.window_state()
        self.progress.energy = self.meter.total()
        with self.log.pause():
            self._save()

    def _save(self) -> None:
        state = gather_state(self.accelerator, self.model, self.optimizer, self.ema, self.progress)
        on_main_process(
            self.accelerator,
            lambda: save_checkpoint(self.folder / CHECKPOINTS, state, self.arguments.save_total_limit),
        )

    def last_update(self) -> int | None:
        """The update at which the training ends, as far as that is known beforehand: epochs differ by a few."""
        arguments, ends = self.arguments, [self.arguments.max_steps]
        if arguments.num_train_epochs and isinstance(self.corpus, TokenisedCorpus):
            batches = len(self.corpus.token_budget.epoch(0))
            size = self.accelerator.num_processes * arguments.gradient_accumulation_steps
            ends.append(arguments.num_train_epochs * math.ceil(batches / size))
        return min((end for end in ends if end is not None), default=None)

    def early_end(self) -> str | None:
        """Why the training came to its end before `max_steps`, where it did."""
        arguments, progress = self.arguments, self.progress
        if self._is_at_the_last_update():
            return None
        ended = f"Ended after {counted(progress.update, 'update')}"
        if self._is_out_of_patience():
            best = "none" if progress.best_score is None else f"{progress.best_score:.4f}"
            return (
                f"{ended}: no gain in validation {arguments.metric_for_best_model} for "
                f"{counted(progress.validations_without_gain, 'validation')} (best: {best})"
            )
        if self._is_after_the_last_epoch():
            return f"{ended}: num_train_epochs={arguments.num_train_epochs} reached"
        return f"{ended}: max_minutes={arguments.max_minutes:g} reached"

    def is_finished(self) -> bool:
        """Whether the training has come to its end, the same in all processes."""
        arguments, progress = self.arguments, self.progress
        if self._is_at_the_last_update() or self._is_after_the_last_epoch():
            return True
        if self._is_out_of_patience():
            return True
        # Clocks differ a little: the main process decides for all.
        return arguments.max_minutes is not None and on_main_process(
            self.accelerator, lambda: progress.seconds >= 60 * arguments.max_minutes
        )

    def _is_out_of_patience(self) -> bool:
        patience = self.arguments.early_stopping_patience
        return patience is not None and self.progress.validations_without_gain >= patience

    def _is_at_the_last_update(self) -> bool:
        last = self.arguments.max_steps
        return last is not None and self.progress.update >= last

    def _is_after_the_last_epoch(self) -> bool:
        epochs = self.arguments.num_train_epochs
        return epochs is not None and self.progress.epoch >= epochs


def generator_seed(*numbers: int) -> int:
    """A seed that differs for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))

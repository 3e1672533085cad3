"""What each process computes for each optimizer step: its share of the batches, starting at any point of a run."""

import math
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from accelerate import Accelerator, DistributedType
from torch.utils.data import DataLoader, IterableDataset

from ...core.modeling_vaswani import IGNORED_LABEL
from ...data.encoding import Collator
from ...data.epochs import Part, ResampledCorpus, StreamedCorpus, TokenizedCorpus
from ...errors import InputError, TrainingError
from ...runtime.signals import SIGNALS

Corpus = TokenizedCorpus | ResampledCorpus | StreamedCorpus
# Tokens on the longer side of a forward pass on a CPU, including padding. With fewer, the matrices are too small to
# keep all cores busy; with more, activations no longer fit in the processor's caches, and memory grows in proportion.
CPU_PASS_TOKENS = 2048


@dataclass(frozen=True)
class StepBatches:
    """What one process computes for one optimizer step.

    Attributes:
        micro_batches: the tensors of each forward pass.
        target_tokens, source_tokens, pairs: numbers in the whole step, over all processes, without padding.
        following: epoch, part and batch at which the next step begins.
        counts: in the first epoch of a stream, what the filters found in the part that begins with this step.
        is_before_a_part: whether the batches after these are known only once another part of the text has been read.
    """

    micro_batches: list[dict[str, torch.Tensor]]
    target_tokens: int
    source_tokens: int
    pairs: int
    following: tuple[int, int, int]
    counts: dict[str, int] | None = None
    is_before_a_part: bool = False

    def pin_memory(self) -> "StepBatches":
        """The same with tensors from which a GPU copies while it computes; called by torch's `DataLoader`."""
        pinned = [{name: tensor.pin_memory() for name, tensor in batch.items()} for batch in self.micro_batches]
        return replace(self, micro_batches=pinned)


class StepDataset(IterableDataset):
    """One process's share of all steps from a given point on, epoch after epoch, without end.

    Args:
        corpus: its epochs are cut into steps of `processes * accumulation` batches each; the last step of a part may
            have fewer.
        start: epoch, part and batch.
        rank, processes: index of this process, and number of processes.
        accumulation: batches of each process in a step.
    """

    def __init__(
        self,
        corpus: Corpus,
        collate: Collator,
        start: tuple[int, int, int],
        rank: int = 0,
        processes: int = 1,
        accumulation: int = 1,
    ):
        self.corpus = corpus
        self.collate = collate
        self.start = start
        self.rank, self.processes = rank, processes
        self.accumulation = accumulation

    def __iter__(self) -> Iterator[StepBatches | InputError | TrainingError]:
        try:
            yield from self._steps()
        except (InputError, TrainingError) as error:
            # If it were raised in a worker process, its message would become a traceback.
            yield error

    def _steps(self) -> Iterator[StepBatches]:
        epoch, first, position = self.start
        while True:
            last = None
            for step in self._steps_of_epoch(epoch, first, position):
                if last:
                    yield last
                last = step
            if last:
                # This step was held back: only now is it known to be the last of the epoch.
                yield replace(last, following=(epoch + 1, 0, 0))
            elif first == position == 0:
                error = TrainingError(f"Epoch {epoch} of the training data has no usable pairs.")
                error.is_repeated = self.rank > 0  # all processes reach this error
                raise error
            epoch, first, position = epoch + 1, 0, 0

    def _steps_of_epoch(self, epoch: int, first: int, position: int) -> Iterator[StepBatches]:
        counts = Counter()
        for part in self.corpus.parts(epoch, first):
            counts.update(part.counts or {})
            if not part.batches:
                continue
            # A part begins at its first batch, except the one in which the run is resumed.
            begin = position if part.number == first else 0
            yield from self._steps_of_part(part, epoch, begin, dict(counts))
            counts = Counter()

    def _steps_of_part(self, part: Part, epoch: int, begin: int, counts: dict[str, int]) -> Iterator[StepBatches]:
        size = self.processes * self.accumulation
        for start in range(begin, len(part.batches), size):
            group = part.batches[start : start + size]
            share, is_filled_up = process_share(group, self.rank, self.processes)
            micro_batches = [self.collate(part.pairs.rows(batch)) for batch in share]
            if is_filled_up:
                micro_batches[-1]["labels"].fill_(IGNORED_LABEL)
            end = start + len(group)
            yield StepBatches(
                micro_batches,
                target_tokens=int(sum(part.pairs.target_lengths[batch].sum() for batch in group)),
                source_tokens=int(sum(part.pairs.source_lengths[batch].sum() for batch in group)),
                pairs=sum(map(len, group)),
                following=(epoch, part.number, end) if end < len(part.batches) else (epoch, part.number + 1, 0),
                counts=counts if epoch == start == 0 else None,
                # The last step of a part is held back until the next part has been read.
                is_before_a_part=end + size >= len(part.batches),
            )


class StepsLoader(DataLoader):
    """Raises the error that ends the steps, whichever process makes their batches."""

    def __iter__(self) -> Iterator[StepBatches]:
        for data in super().__iter__():
            if isinstance(data, Exception):
                raise data
            yield data


def steps_loader(steps: StepDataset, workers: int) -> StepsLoader:
    """A loader of steps whose batches are made here or, with a worker, in another process ahead of the run, and in
    memory that a GPU can read."""
    return StepsLoader(
        steps,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        worker_init_fn=ignore_stop_signals,
        pin_memory=workers > 0 and torch.cuda.is_available(),
    )


def ignore_stop_signals(worker: int) -> None:
    """Leave signals to the run: a worker that died of the same signal would end the run before it has saved."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def process_share(group: list[np.ndarray], rank: int, processes: int) -> tuple[list[np.ndarray], bool]:
    """The batches of a step that one process computes, and whether the last one is a filler that must not count.

    All processes make the same number of forward passes, so that none waits for another. A process with one batch
    fewer repeats a batch that another process counts.
    """
    share = group[rank::processes]
    is_filled_up = len(share) < math.ceil(len(group) / processes)
    return (share + [group[-1]], True) if is_filled_up else (share, False)


def pass_tokens(accelerator: Accelerator, r_drop: float = 0.0) -> int | None:
    """The maximum number of tokens in a forward pass; `None` for no limit.

    Args:
        r_drop: weight of R-Drop; if it is not 0, a pass computes each pair twice.
    """
    # With FSDP, processes gather weights in each pass, so all must make the same number of passes.
    if accelerator.device.type != "cpu" or accelerator.distributed_type == DistributedType.FSDP:
        return None
    return CPU_PASS_TOKENS // 2 if r_drop else CPU_PASS_TOKENS


def split_batch(batch: dict[str, torch.Tensor], tokens: int | None) -> list[dict[str, torch.Tensor]]:
    """Split a batch into as few parts of nearly equal size as keep within a number of tokens.

    The step is the same up to rounding and dropout's random numbers, since the loss is a sum over tokens, and takes a
    fraction of the memory.

    Args:
        batch: `input_ids` and `attention_mask`, `(pairs, source_length)`, and `labels`, `(pairs, target_length)`; soft
            labels, too, if it has some.
        tokens: the maximum on the longer side of a part, padding included, which only a part of a single pair may
            exceed; `None` leaves the batch whole.
    """
    pairs = len(batch["labels"])
    longest = max(tensor.shape[1] for tensor in batch.values())
    number = 1 if tokens is None else math.ceil(pairs / max(tokens // longest, 1))
    if number <= 1:
        return [batch]
    parts = {name: torch.tensor_split(tensor, number) for name, tensor in batch.items()}
    return [dict(zip(parts, part)) for part in zip(*parts.values())]

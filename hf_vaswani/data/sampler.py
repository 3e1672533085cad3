"""Token-budget batches in the form that PyTorch's DataLoader takes: a batch sampler for each process."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.utils.data import Sampler

from ..modeling_vaswani import IGNORED_LABEL
from .batches import TokenBudgetBatches


class TokenBudgetSampler(Sampler[list[int]]):
    """One process' share of the token-budget batches of an epoch, in order: a batch sampler.

    The global batches are the same whatever the number of processes, and each comes once. Of every so many batches as
    there are processes each process gets one; where an epoch ends before all have theirs, the rest get an empty list,
    so that none waits for another. [`EmptyBatchCollator`] makes of it a batch that counts nothing.

    Args:
        batches: of the data set, with seed and budget.
        processes, rank: how many processes there are, and which of them this is.
    """

    def __init__(self, batches: TokenBudgetBatches, processes: int = 1, rank: int = 0):
        self.batches = batches
        self.processes, self.rank = processes, rank
        self.number = 0
        self.size = len(batches.epoch(0))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, counted from 0, that the next iteration gives."""
        self.number = epoch

    def __len__(self) -> int:
        return math.ceil(self.size / self.processes)

    def updates(self, accumulation: int) -> int:
        """Updates in an epoch, of so many batches of each process; the last may have fewer."""
        return math.ceil(len(self) / accumulation)

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.batches.epoch(self.number)
        if len(batches) != self.size:
            # The Trainer takes all epochs to be as long as the first, and would lose or repeat data without a word.
            raise RuntimeError(f"Epoch {self.number} has {len(batches)} batches, epoch 0 has {self.size}.")
        share = [batch.tolist() for batch in batches[self.rank :: self.processes]]
        yield from share + [[]] * (len(self) - len(share))


@dataclass(frozen=True)
class EmptyBatchCollator:
    """Collates rows with `collate`; of no rows it makes a batch of a single token whose label does not count."""

    collate: Callable[[list[dict]], dict[str, torch.Tensor]]
    token_id: int

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        return self.collate(rows or [{"input_ids": [self.token_id], "labels": [IGNORED_LABEL]}])

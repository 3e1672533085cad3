"""The training pairs of an epoch, part by part, each part with its batches.

A corpus that is tokenized once is a single part. If each epoch is tokenized again, for BPE-dropout, or the corpus is
streamed, a part holds as many pairs as fit into memory, and batches are formed within it. Everything depends only on
the seed, the epoch and the part, so a run can resume at any batch of any part.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np
from datasets import Dataset

from .batches import TokenBudgetBatches, mixed_rows, mixed_stream
from .encoding import EncodedPairs, Encoder, encode_in_slices
from .filters import FilterSettings, PairFilter, filter_lengths
from .sources.text_files import Pair

# Pairs in a part that is tokenized in memory: enough to group by length, and only seconds of work.
PART_SIZE = 20_000


@dataclass(frozen=True)
class Budget:
    """The limits of a batch, and the seed of all shuffling."""

    max_tokens: int  # limit on the tokens of each padded side, source and target
    max_sentences: int | None = None  # optional limit on the number of pairs
    max_length: int | None = None  # limit on the tokens of either side of a pair
    seed: int = 0

    def batches(self, pairs: EncodedPairs, part: int = 0, weights: list[float] | None = None) -> TokenBudgetBatches:
        """Form the batches of a part; `weights` are those of the sources, if several are mixed."""
        seed = [self.seed, part] if part else self.seed
        lengths = pairs.source_lengths, pairs.target_lengths
        return TokenBudgetBatches(*lengths, self.max_tokens, self.max_sentences, seed, pairs.origins, weights)


@dataclass(frozen=True)
class Part:
    """A part of an epoch: its number, pairs and batches (arrays of row numbers), and filter counts for a stream."""

    number: int
    pairs: EncodedPairs
    batches: list[np.ndarray]
    counts: dict[str, int] | None = None


class TokenizedCorpus:
    """A corpus that is tokenized once.

    Args:
        weights: the weights of the sources, if several are mixed.
    """

    def __init__(self, pairs: EncodedPairs, budget: Budget, weights: list[float] | None = None):
        self.pairs, self.budget, self.weights = pairs, budget, weights
        self.token_budget = budget.batches(pairs, weights=weights)
        self.longest_source: int | None = int(pairs.source_lengths.max())

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch starting at number `first`; there is only one."""
        if first == 0:
            yield Part(0, self.pairs, self.token_budget.epoch(epoch))


@dataclass(frozen=True)
class ResampledCorpus:
    """A corpus that is tokenized again in each epoch, with BPE-dropout."""

    text: Dataset  # rows of `source` and `target`
    encode: Encoder  # the encoder with dropout
    # The encoder without dropout, for pairs that dropout makes longer than `budget.max_length` or than a batch holds.
    encode_plainly: Encoder
    budget: Budget
    # If several sources are mixed, as in [`mixed_rows`].
    origins: np.ndarray | None = None
    weights: list[float] | None = None
    longest_source: int | None = None  # number of tokens in the longest source, without dropout

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch starting at number `first`, each of up to 20,000 random pairs."""
        generator = np.random.default_rng([self.budget.seed, epoch])
        rows = np.arange(len(self.text))
        if self.weights is not None:
            rows = mixed_rows(self.origins, self.weights, generator)
        rows = generator.permutation(rows)
        for number in range(first, -(-len(rows) // PART_SIZE)):
            chosen = self.text[rows[number * PART_SIZE : (number + 1) * PART_SIZE]]
            part, _ = _encoded_part(self, epoch, number, chosen["source"], chosen["target"], FilterSettings())
            yield part


@dataclass(frozen=True)
class StreamedCorpus:
    """A corpus that fits neither in memory nor on disk and is read again in each epoch, part by part."""

    longest_source: ClassVar[int | None] = None  # unknown

    sources: list[Callable[[], Iterator[Pair]]]  # functions that each open a source at its beginning
    weights: list[float] | None  # the weights of the sources; `None` reads them one after another
    filters: FilterSettings  # which pairs are left out
    # As in [`ResampledCorpus`].
    encode: Encoder
    encode_plainly: Encoder
    budget: Budget
    part_size: int  # number of pairs to read for a part

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch starting at number `first`. Earlier ones are read but not tokenized."""
        pairs = islice(self._pairs(epoch), first * self.part_size, None)
        number = first
        while chunk := list(islice(pairs, self.part_size)):
            pair_filter = PairFilter(self.filters)
            kept = list(pair_filter(chunk))
            sources, targets = map(list, zip(*kept)) if kept else ([], [])
            part, counts = _encoded_part(self, epoch, number, sources, targets, self.filters)
            # A part without batches is yielded too, since its counts belong in the report.
            yield replace(part, counts={**pair_filter.counts, **counts})
            number += 1

    def _pairs(self, epoch: int) -> Iterator[Pair]:
        if self.weights is None:
            return (pair for source in self.sources for pair in source())
        return mixed_stream(self.sources, self.weights, np.random.default_rng([self.budget.seed, epoch]))


def _encoded_part(
    corpus: ResampledCorpus | StreamedCorpus,
    epoch: int,
    number: int,
    sources: list[str],
    targets: list[str],
    filters: FilterSettings,
) -> tuple[Part, dict[str, int]]:
    """Tokenize a part of an epoch, form its batches, and count the length issues that `filters` check for.

    Pairs longer than `budget.max_length`, or than a batch holds, are encoded plainly instead, and are left out if they
    are still too long.
    """
    budget = corpus.budget
    generator = np.random.default_rng([budget.seed, epoch, number, 1])
    rows = list(zip(*encode_in_slices(corpus.encode, sources, targets, generator)))
    limit = min(budget.max_length or budget.max_tokens, budget.max_tokens)
    too_long = [i for i, row in enumerate(rows) if max(map(len, row)) > limit]
    if too_long:
        texts = [sources[i] for i in too_long], [targets[i] for i in too_long]
        for i, row in zip(too_long, zip(*encode_in_slices(corpus.encode_plainly, *texts))):
            rows[i] = row
    lengths = (np.array([len(row[side]) for row in rows], dtype=np.int64) for side in (0, 1))
    is_kept, counts = filter_lengths(*lengths, replace(filters, max_length=limit))
    rows = [row for row, kept in zip(rows, is_kept.tolist()) if kept]
    pairs = EncodedPairs.of([row[0] for row in rows], [row[1] for row in rows])
    return Part(number, pairs, budget.batches(pairs, number).epoch(epoch) if rows else []), counts

"""The training pairs of an epoch, part by part, each part with its batches.

A corpus that is tokenised once is one part. Where each epoch is tokenised anew, for BPE dropout, or a corpus is read
as a stream, a part holds as many pairs as memory takes, and batches are formed within it. Everything depends on seed,
epoch and part alone: training can begin at any batch of any part, and does so when it is taken up again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from datasets import Dataset

from .batches import TokenBudgetBatches
from .encoding import EncodedPairs, Encoder, encode_in_slices
from .filters import FilterSettings, PairFilter, filter_lengths
from .mixture import mixed_rows, mixed_stream
from .sources.parallel_files import Pair

# Pairs of a part that is tokenised in memory: enough to find partners of like length, seconds of work.
PART_SIZE = 20_000


@dataclass(frozen=True)
class Budget:
    """What bounds a batch, and the seed of all order.

    Attributes:
        max_tokens: of padded source, and of padded target.
        max_sentences: where given.
        max_length: tokens on a side of a pair.
    """

    max_tokens: int
    max_sentences: int | None = None
    max_length: int | None = None
    seed: int = 0

    def batches(self, pairs: EncodedPairs, part: int = 0, weights: list[float] | None = None) -> TokenBudgetBatches:
        """The batches of a part."""
        seed = [self.seed, part] if part else self.seed
        lengths = pairs.source_lengths, pairs.target_lengths
        return TokenBudgetBatches(*lengths, self.max_tokens, self.max_sentences, seed, pairs.origins, weights)


@dataclass(frozen=True)
class Part:
    """A part of an epoch: number, pairs, batches as arrays of rows; of a stream, also what filters found in it."""

    number: int
    pairs: EncodedPairs
    batches: list[np.ndarray]
    counts: dict[str, int] | None = None


class TokenisedCorpus:
    """A corpus that was tokenised once.

    Args:
        weights: of the sources that are mixed, where there are several.
    """

    def __init__(self, pairs: EncodedPairs, budget: Budget, weights: list[float] | None = None):
        self.pairs = pairs
        self.token_budget = budget.batches(pairs, weights=weights)

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch from number `first` on: one in all."""
        if first == 0:
            yield Part(0, self.pairs, self.token_budget.epoch(epoch))


class ResampledCorpus:
    """A corpus that each epoch tokenises anew, with BPE dropout.

    Args:
        text: rows of `source` and `target`.
        encode: with dropout.
        encode_plainly: without, for pairs that dropout makes longer than `budget.max_length`.
        origins, weights: of a mixture.
    """

    def __init__(
        self,
        text: Dataset,
        encode: Encoder,
        encode_plainly: Encoder,
        budget: Budget,
        origins: np.ndarray | None = None,
        weights: list[float] | None = None,
    ):
        self.text = text
        self.encode, self.encode_plainly = encode, encode_plainly
        self.budget = budget
        self.origins, self.weights = origins, weights

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch from number `first` on, each of up to 20 000 random pairs."""
        generator = np.random.default_rng([self.budget.seed, epoch])
        rows = np.arange(len(self.text))
        if self.weights is not None:
            rows = mixed_rows(self.origins, self.weights, generator)
        rows = generator.permutation(rows)
        for number in range(first, -(-len(rows) // PART_SIZE)):
            chosen = self.text[rows[number * PART_SIZE : (number + 1) * PART_SIZE]]
            yield encoded_part(
                epoch, number, chosen["source"], chosen["target"], self.encode, self.encode_plainly, self.budget
            )


class StreamedCorpus:
    """A corpus that fits neither memory nor disk: read anew in each epoch, part after part.

    Args:
        sources: open the text of a source from its beginning.
        weights: of the sources; `None` reads them one after another.
        filters: which pairs are left out.
        encode, encode_plainly: as in [`ResampledCorpus`].
        part_size: pairs read for a part.
    """

    def __init__(
        self,
        sources: list[Callable[[], Iterator[Pair]]],
        weights: list[float] | None,
        filters: FilterSettings,
        encode: Encoder,
        encode_plainly: Encoder,
        budget: Budget,
        part_size: int,
    ):
        self.sources, self.weights = sources, weights
        self.filters = filters
        self.encode, self.encode_plainly = encode, encode_plainly
        self.budget = budget
        self.part_size = part_size

    def parts(self, epoch: int, first: int = 0) -> Iterator[Part]:
        """The parts of an epoch from number `first` on. Those before are read, but not tokenised."""
        pairs = islice(self._pairs(epoch), first * self.part_size, None)
        number = first
        while chunk := list(islice(pairs, self.part_size)):
            pair_filter = PairFilter(self.filters)
            kept = list(pair_filter(chunk))
            sources, targets = map(list, zip(*kept)) if kept else ([], [])
            part = encoded_part(
                epoch, number, sources, targets, self.encode, self.encode_plainly, self.budget, self.filters
            )
            # Without batches it is passed on as well: its counts belong to the report.
            yield replace(part, counts={**pair_filter.counts, **(part.counts or {})})
            number += 1

    def _pairs(self, epoch: int) -> Iterator[Pair]:
        if self.weights is None:
            return (pair for source in self.sources for pair in source())
        return mixed_stream(self.sources, self.weights, np.random.default_rng([self.budget.seed, epoch]))


def encoded_part(
    epoch: int,
    number: int,
    sources: list[str],
    targets: list[str],
    encode: Encoder,
    encode_plainly: Encoder,
    budget: Budget,
    filters: FilterSettings | None = None,
) -> Part:
    """Tokenise a part of an epoch and form its batches.

    Pairs over `budget.max_length`, or over what a batch holds, keep their plain tokens, if these fit, and are left out
    otherwise.

    Args:
        filters: by length, for pairs that have not been through them; they are counted then.
    """
    generator = np.random.default_rng([budget.seed, epoch, number, 1])
    rows = list(zip(*encode_in_slices(encode, sources, targets, generator)))
    limit = min(budget.max_length or budget.max_tokens, budget.max_tokens)
    too_long = [i for i, row in enumerate(rows) if max(map(len, row)) > limit]
    if too_long:
        plain = encode_in_slices(encode_plainly, [sources[i] for i in too_long], [targets[i] for i in too_long])
        for i, row in zip(too_long, zip(*plain)):
            rows[i] = row
    counts = None
    if filters:
        lengths = (np.array([len(row[side]) for row in rows], dtype=np.int64) for side in (0, 1))
        is_kept, counts = filter_lengths(*lengths, replace(filters, max_length=limit))
        rows = [row for row, kept in zip(rows, is_kept.tolist()) if kept]
    elif too_long:
        rows = [row for row in rows if max(map(len, row)) <= limit]
    if not rows:
        return Part(number, EncodedPairs.of([], []), [], counts)
    pairs = EncodedPairs.of([row[0] for row in rows], [row[1] for row in rows])
    return Part(number, pairs, budget.batches(pairs, number).epoch(epoch), counts)

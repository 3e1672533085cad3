"""Batches of similar length by token count (section 5.1), and the order in which mixed sources fill an epoch."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..errors import InputError, counted
from .sources.text_files import Pair

# An epoch is taken for a mistake if it exceeds both: this many pairs, and this many times the pairs of the sources.
LARGEST_EPOCH, LARGEST_GROWTH = 10_000_000, 100


def mixed_rows(origins: np.ndarray, weights: list[float], generator: np.random.Generator) -> np.ndarray:
    """Return the row numbers of a mixed epoch, in no particular order: int64, each row at least once.

    Args:
        origins: `(pairs,)`, the index of each pair's source.
        weights: the weights of the sources, all above 0.
        generator: chooses the pairs that occur one more time than the rest of their source.
    """
    sources = [np.flatnonzero(origins == number) for number in range(len(weights))]
    length = mixed_length([len(rows) for rows in sources], weights)
    parts = []
    for rows, weight in zip(sources, weights):
        repeats, rest = divmod(round(length * weight), max(len(rows), 1))
        if len(rows):
            parts += [rows] * repeats + [generator.choice(rows, rest, replace=False)]
    return np.concatenate(parts)


def mixed_length(sizes: list[int], weights: list[float]) -> float:
    """Return the factor by which a source's weight is multiplied to give its number of pairs in an epoch.

    Args:
        sizes: the number of pairs in each source.

    Raises:
        InputError: the weights make the epoch too large for memory.
    """
    length = max(size / weight for size, weight in zip(sizes, weights))
    pairs = sum(length * weight for size, weight in zip(sizes, weights) if size)
    if not pairs <= max(LARGEST_EPOCH, LARGEST_GROWTH * sum(sizes)):
        raise InputError(
            f"The weights {', '.join(f'{weight:g}' for weight in weights)} of training sources with "
            f"{', '.join(f'{size:,}' for size in sizes)} pairs make an epoch of {pairs:,.0f} pairs, since each source "
            "is read completely. Choose weights that are closer to the sizes."
        )
    return length


def mixed_stream(
    sources: list[Callable[[], Iterator[Pair]]], weights: list[float], generator: np.random.Generator
) -> Iterator[Pair]:
    """Yield pairs drawn from the sources by weight, until every source has been read completely at least once.

    Args:
        sources: functions that each open a source at its beginning.
        generator: draws the source of each pair; the same generator gives the same stream.
    """
    shares = np.cumsum(weights) / np.sum(weights)
    streams = [source() for source in sources]
    is_read = [False] * len(sources)
    while True:
        for number in np.searchsorted(shares, generator.random(1024), side="right").tolist():
            pair = next(streams[number], None)
            if pair is None:
                is_read[number] = True
                if all(is_read):
                    return
                streams[number] = sources[number]()
                pair = next(streams[number], None)
                if pair is None:  # an empty source
                    continue
            yield pair


class TokenBudgetBatches:
    """Splits a corpus into batches whose padded source and padded target hold at most `max_tokens` tokens each.

    Every pair occurs exactly once per epoch, unless sources are mixed by weight. Contents and order depend only on the
    seed and the epoch, so any process can reproduce any epoch at any time.

    Args:
        source_lengths, target_lengths: `(pairs,)`, in tokens.
        max_tokens: token budget of each side, padding included.
        max_sentences: optional limit on the number of pairs in a batch.
        seed: seed of the shuffling; one number or several.
        origins, weights: if several sources are mixed, as in [`mixed_rows`].

    Raises:
        InputError: a single pair exceeds the budget, or the weights make the epoch too large for memory.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        max_tokens: int,
        max_sentences: int | None = None,
        seed: int | Sequence[int] = 0,
        origins: np.ndarray | None = None,
        weights: list[float] | None = None,
    ):
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        self.longest_side = np.maximum(source_lengths, target_lengths)
        if self.longest_side.max() > max_tokens:
            too_long = counted((self.longest_side > max_tokens).sum(), "pair")
            raise InputError(
                f"training.max_tokens={max_tokens} is too small for {too_long} with up to "
                f"{self.longest_side.max():,} tokens on a side. Raise max_tokens or lower data.max_length."
            )
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences or max_tokens
        self.seed = [seed] if isinstance(seed, int) else list(seed)
        self.origins, self.weights = origins, weights
        if weights is not None:
            mixed_length(np.bincount(origins, minlength=len(weights)).tolist(), weights)

    def epoch(self, number: int) -> list[np.ndarray]:
        """The batches of one epoch, in order: int64 arrays of row numbers."""
        generator = np.random.default_rng([*self.seed, number])
        order = self._shuffled(generator)
        # A stable sort of a shuffled order, so that pairs of the same length are batched differently in each epoch.
        # Source lengths ascend for odd target lengths and descend for even ones, so that a batch that spans two target
        # lengths still has similar source lengths.
        source, target = self.source_lengths[order], self.target_lengths[order]
        order = order[np.lexsort((np.where(target % 2, source, -source), target))]
        batches = self._cut(order)
        return [batches[i] for i in generator.permutation(len(batches))]

    def random_padding_ratio(self) -> float:
        """The [`padding_ratio`] that the first epoch would have if batches were filled regardless of length."""
        return self.padding_ratio(self._cut(self._shuffled(np.random.default_rng([*self.seed, 0]))))

    def padding_ratio(self, batches: list[np.ndarray]) -> float:
        """The share of padding among all tokens of the given batches, source and target together."""
        padded = tokens = 0
        for batch in batches:
            for lengths in (self.source_lengths[batch], self.target_lengths[batch]):
                padded += len(batch) * int(lengths.max())
                tokens += int(lengths.sum())
        return 1 - tokens / padded

    def _shuffled(self, generator: np.random.Generator) -> np.ndarray:
        if self.weights is None:
            return generator.permutation(len(self.source_lengths))
        return generator.permutation(mixed_rows(self.origins, self.weights, generator))

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        batches, start, longest = [], 0, 0
        for end, length in enumerate(self.longest_side[order].tolist()):
            longest_with_row = max(longest, length)
            size = end + 1 - start
            if size * longest_with_row > self.max_tokens or size > self.max_sentences:
                batches.append(order[start:end])
                start, longest = end, length
            else:
                longest = longest_with_row
        batches.append(order[start:])
        return batches

"""Batches of sentences of similar length, by token count (section 5.1): little padding, and similar work per step."""

from collections.abc import Sequence

import numpy as np

from ..errors import InputError, counted
from .mixture import mixed_length, mixed_rows


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

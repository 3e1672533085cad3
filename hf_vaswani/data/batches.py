"""Batches by token count, of sentences of like length (section 5.1): little padding, even work for each update."""

import numpy as np

from ..errors import InputError


class TokenBudgetBatches:
    """Cuts a corpus into batches whose padded source and padded target hold at most `max_tokens` tokens each.

    Every pair comes exactly once an epoch. Composition and order depend on seed and epoch alone, so any epoch can be
    made again at any time, by any process.

    Args:
        source_lengths, target_lengths: `(pairs,)`, in tokens.
        max_tokens: budget of each side, padding included.
        max_sentences: most pairs in a batch, where given.
        seed: of the order.

    Raises:
        InputError: where a pair alone is over the budget.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        max_tokens: int,
        max_sentences: int | None = None,
        seed: int = 0,
    ):
        self.source_lengths = source_lengths
        self.target_lengths = target_lengths
        self.longest_side = np.maximum(source_lengths, target_lengths)
        if self.longest_side.max() > max_tokens:
            raise InputError(
                f"A pair has {self.longest_side.max()} tokens on one side, more than a batch of "
                f"training.max_tokens={max_tokens} holds. Raise max_tokens or lower data.max_length."
            )
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences or len(source_lengths)
        self.seed = seed

    def epoch(self, number: int) -> list[np.ndarray]:
        """The batches of one epoch, in order: int64 arrays of row numbers."""
        generator = np.random.default_rng([self.seed, number])
        # A stable sort of a shuffled order: pairs of one length meet different partners in each epoch.
        order = generator.permutation(len(self.source_lengths))
        order = order[np.lexsort((self.source_lengths[order], self.target_lengths[order]))]
        batches = self._cut(order)
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        batches, start, longest = [], 0, 0
        for end, row in enumerate(order):
            longest_with_row = max(longest, self.longest_side[row])
            size = end + 1 - start
            if size * longest_with_row > self.max_tokens or size > self.max_sentences:
                batches.append(order[start:end])
                start, longest = end, self.longest_side[row]
            else:
                longest = longest_with_row
        batches.append(order[start:])
        return batches

    def padding_ratio(self, batches: list[np.ndarray]) -> float:
        """Share of padding among all tokens of these batches, source and target together."""
        padded = tokens = 0
        for batch in batches:
            for lengths in (self.source_lengths[batch], self.target_lengths[batch]):
                padded += len(batch) * lengths.max()
                tokens += lengths.sum()
        return float(1 - tokens / padded)

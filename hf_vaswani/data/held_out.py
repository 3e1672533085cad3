"""Validation and test pairs held out of the training text, if they have no text of their own.

A hash of the pair's text and a seed decides which part it belongs to. So pairs with the same text are always in the
same part, and nothing held out is trained on; nothing has to be remembered, however large the text is, and a stream
can be split as it is read; and a pair stays in its part when text is added, reordered or moved to another file.
Shares are met up to chance: 5% of 100,000 pairs are 5,000 ± 140.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .filters import hash_of_pair
from .sources.parallel_files import Pair


@dataclass(frozen=True)
class HeldOut:
    """Which pairs of the training text are held out; none by default.

    Attributes:
        validation, test: shares of the text, at least 0 and together below 1.
        seed: a different seed holds out different pairs; at least 0 and below 2^64.
    """

    validation: float = 0.0
    test: float = 0.0
    seed: int = 1

    def __bool__(self) -> bool:
        return bool(self.validation or self.test)

    def part_of(self, pair: Pair) -> str:
        """`"train"`, `"validation"` or `"test"`."""
        position = hash_of_pair(*pair, self.seed) / 2**64
        if position < self.validation:
            return "validation"
        return "test" if position < self.validation + self.test else "train"

    def select(self, pairs: Iterable[Pair], part: str) -> Iterator[Pair]:
        """The pairs of a part, in order."""
        return (pair for pair in pairs if self.part_of(pair) == part) if self else iter(pairs)

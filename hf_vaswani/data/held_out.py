"""Validation and test pairs held out of the training text, where they have no text of their own.

A pair's text decides, hashed with a seed, to which part the pair belongs. So pairs of equal text are always in one
part, and none that is held out is trained on; nothing has to be remembered, however large the text is, and a stream
is parted as it comes; and a pair stays in its part when text is added, or comes in another order or from another
file. Shares are met as closely as chance has it: 5% of 100 000 pairs are 5 000, give or take 140.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .filters import hash_of_pair
from .sources.parallel_files import Pair


@dataclass(frozen=True)
class HeldOut:
    """Which pairs of the training text are held out; by default none.

    Attributes:
        validation, test: shares of the text, at least 0 and together below 1.
        seed: another one holds out others; at least 0 and below 2^64.
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
        """The pairs that belong to a part, in their order."""
        return (pair for pair in pairs if self.part_of(pair) == part) if self else iter(pairs)

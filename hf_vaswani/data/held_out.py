"""Holds validation and test pairs out of the training text, for when there are no separate files for them.

A hash of a pair's text and a seed decides which part the pair belongs to. So pairs with the same text are always in
the same part, and nothing held out is trained on; nothing has to be stored, however large the text is, and a stream
can be split as it is read; and a pair stays in its part when text is added, reordered or moved to another file. The
shares are subject to chance: 5% of 100,000 pairs are 5,000 ± 140.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from .filters import hash_of_pair
from .sources.tables import Languages
from .sources.text_files import Pair
from .sources.text_source import TextSource, iterate_pairs


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
        """The part that a pair belongs to: `"train"`, `"validation"` or `"test"`."""
        position = hash_of_pair(*pair, self.seed) / 2**64
        if position < self.validation:
            return "validation"
        return "test" if position < self.validation + self.test else "train"

    def select(self, pairs: Iterable[Pair], part: str) -> Iterator[Pair]:
        """The pairs of a part, in order."""
        return (pair for pair in pairs if self.part_of(pair) == part) if self else iter(pairs)

    def pairs_of(self, source: TextSource, languages: Languages, part: str, streaming: bool = False) -> Iterator[Pair]:
        """The pairs of a source that belong to a part, regardless of the direction in which the source is read.

        Nothing is held out of a source whose pairs were made from training text: all of them are for training.
        """
        if source.made:
            return iterate_pairs(source, languages, streaming) if part == "train" else iter(())
        chosen = self.select(iterate_pairs(replace(source, reversed=False), languages, streaming), part)
        return ((target, source) for source, target in chosen) if source.reversed else chosen

"""Which words of a training pair are translations of each other, and which of them for certain."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...text.words import Span, word_spans
from ..alignment import LexicalTable, Lexicon, agreed_links, learn_translations
from ..sources.text_files import Pair

# The lowest probability of translations, and that above which they are certain. A word that always becomes two has no
# certain one, as neither is above one half.
LEAST, CERTAIN = 0.05, 0.5
UNKNOWN = 2**31  # more than there are words


class Link(NamedTuple):
    """Two words that are translations of each other.

    Attributes:
        numbers: of the words in source and target, counted from 0.
        spans: where they stand in the texts.
        probability: t(target | source), that of this translation.
        is_certain: whether there is little doubt, in either direction.
    """

    numbers: tuple[int, int]
    spans: tuple[Span, Span]
    probability: float
    is_certain: bool


@dataclass(frozen=True)
class WordAligner:
    """Aligns the words of a pair, whatever their case.

    Attributes:
        numbers: word → its number, of source and target.
        lowercase: target words that also occur in lower case.
        forward, backward: t(target | source) and t(source | target) of these numbers.
    """

    numbers: tuple[dict[str, int], dict[str, int]]
    lowercase: set[str]
    forward: Lexicon
    backward: Lexicon

    @classmethod
    def learn(cls, pairs: Iterable[Pair]) -> "WordAligner":
        """Learn from pairs, see [`learn_translations`]; the same pairs give the same aligner."""
        numbers: tuple[dict[str, int], dict[str, int]] = {}, {}
        rows: tuple[list[np.ndarray], list[np.ndarray]] = [], []
        lowercase = set()
        for pair in pairs:
            for side, text in enumerate(pair):
                known, words = numbers[side], [text[slice(*span)] for span in word_spans(text)]
                if side:
                    lowercase.update(word for word in words if word.islower())
                row = [known.setdefault(word.lower(), len(known)) for word in words]
                rows[side].append(np.array(row, np.int64))
        tables = learn_translations(*rows), learn_translations(*reversed(rows))
        return cls(numbers, lowercase, *(Lexicon(_probable(table)) for table in tables))

    def __call__(self, source: str, target: str) -> list[Link]:
        """The words that are translations of each other, without punctuation, in the order of the source."""
        spans = word_spans(source), word_spans(target)
        words = [[text[slice(*span)].lower() for span in own] for text, own in zip((source, target), spans)]
        ids = [
            np.array([known.get(word, UNKNOWN) for word in own], np.int64) for known, own in zip(self.numbers, words)
        ]
        forward, backward = self.forward(*ids), self.backward(*reversed(ids)).T
        links = dict(agreed_links(forward, backward))
        # Names and numbers that are rare, or were never seen, stay as they are.
        only = [{word: number for number, word in enumerate(own) if own.count(word) == 1} for own in words]
        linked = set(links.values())
        for word, number in only[0].items():
            place = only[1].get(word)
            if place is not None and number not in links and place not in linked:
                links[number], forward[number, place], backward[number, place] = place, 1.0, 1.0
        # A word that is also the likeliest origin of words without a link has a translation of several words.
        origins = forward.argmax(0).tolist() if forward.size else []
        linked = set(links.values())
        several = {number for place, number in enumerate(origins) if place not in linked and forward[number, place]}
        is_certain = np.minimum(forward, backward) > CERTAIN
        return [
            Link(
                (number, place),
                (spans[0][number], spans[1][place]),
                float(forward[number, place]),
                bool(is_certain[number, place]),
            )
            for number, place in sorted(links.items())
            if words[0][number][0].isalnum() and words[1][place][0].isalnum()
            if is_certain[number, place] or number not in several
        ]


def _probable(table: LexicalTable) -> LexicalTable:
    kept = table.probabilities >= LEAST
    return LexicalTable(
        *(values[kept] for values in (table.sources, table.targets, table.probabilities, table.counts))
    )

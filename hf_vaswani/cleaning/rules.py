"""Reasons to leave a pair out that need no model: what its texts look like, by themselves and next to each other."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..data.sources.text_files import Pair
from ..text.keep_patterns import KINDS
from ..text.language_evidence import count_scripts
from ..text.words import SPACELESS
from .near_duplicates import band_hashes

# Reason → what the pairs are, in the order in which reasons are looked for: each pair has the first one.
REASONS = {
    "empty": "a side without letters or digits",
    "damaged": "characters that were damaged, such as U+FFFD",
    "copy": "a target that copies its source",
    "repeats": "the same words over and over",
    "long": "much longer than the other pairs",
    "script": "letters of another script",
    "swapped": "sides that are in each other's language",
    "language": "another language",
    "mixed": "passages in the other side's language",
    "length": "sides whose lengths differ too much",
    "numbers": "numbers that only one side has",
    "addresses": "web or mail addresses that only one side has",
    "test": "a line of the test set",
    "score": "probably not a translation",
    "duplicate": "an exact duplicate of an earlier pair",
    "near_duplicate": "an earlier pair but for digits, punctuation, case, or a few words",
}
# Marks are no `\\w`, but parts of words: the vowels of Hindi and Thai, the points of Hebrew, the tilde of a Guarani g.
_MARKS = "".join(mark for mark in map(chr, range(0x300, 0x20000)) if unicodedata.category(mark).startswith("M"))
WORD = re.compile(rf"\w[\w{_MARKS}]*")
NO_LETTER = re.compile(r"[\d_]")
# A number, also with a mark or space before each three digits.
NUMBER = re.compile(r"\d+(?:[.,'\u066c\u2019\u00a0\u202f ]\d{3}(?!\d))*")
# What stands for characters that could not be read; private ones; pieces of boxes in words, which once were letters.
DAMAGED = re.compile("[\ufffd\ue000-\uf8ff]|\\w[\u2500-\u259f]|[\u2500-\u259f]\\w")
ADDRESS = re.compile("|".join(KINDS[name] for name in ("url", "email")), re.IGNORECASE)
# How alike two sides are that count as a copy, in words of several letters.
COPIED, COPIED_WORDS = 0.8, 3
REPEATED, REPEATED_LENGTH = 0.6, 12
LEAST_KNOWN = 20
# Words of a long text, or letters in a script that has no spaces between words.
LONG_WORDS, LONG_LETTERS = 4, 10
SPACELESS_LETTER = re.compile(f"[{SPACELESS}]")
BITS = 8

MEASURED = (
    "source_length", "target_length", "copied", "repeated", "source_script", "target_script", "numbers", "addresses"
)  # fmt: skip


@dataclass(frozen=True)
class Looks:
    """What a pair looks like.

    Attributes:
        values: by the names in [`MEASURED`]; scripts are shares of the expected ones, and numbers and addresses those
            that only one side has.
        hashes: of the pair, of what is left of it without digits, marks, and case, and of each side.
        bands: of both sides, see [`band_hashes`].
        is_empty, is_damaged: whether a side has no letters or digits, or has characters that could not be read.
    """

    values: tuple[float, ...]
    hashes: tuple[int, int, int, int]
    bands: np.ndarray
    is_empty: bool
    is_damaged: bool


def look_at(pair: Pair, scripts: tuple[frozenset[str], frozenset[str]]) -> Looks:
    """Measure a pair.

    Args:
        scripts: of each side, as [`usual_scripts`] finds them.
    """
    words = [WORD.findall(text.casefold()) for text in pair]
    lengths = tuple(float(len(text)) for text in pair)
    shares = tuple(_script_share(text, own) for text, own in zip(pair, scripts))
    others = (_others(*(list(map(_digits, NUMBER.findall(text))) for text in pair)), _others(*map(_addresses, pair)))
    values = (*lengths, _copied(*words), max(map(_repeated, words)), *shares, *others)
    bare = [NO_LETTER.sub("", "".join(own)) for own in words]
    hashes = (hash_of(*pair), hash_of(*bare), *(hash_of(" ".join(own)) for own in words))
    return Looks(values, hashes, band_hashes(words), not all(words), any(map(DAMAGED.search, pair)))


def is_long(text: str) -> bool:
    """Whether a text has so many words that two texts have it in common for a reason."""
    return len(text.split()) >= LONG_WORDS or len(SPACELESS_LETTER.findall(text)) >= LONG_LETTERS


def usual_scripts(texts: list[str], least: float = 0.02) -> frozenset[str]:
    """The scripts that make up at least a share of the letters of some texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(count_scripts(text))
    return frozenset(script for script, count in counts.items() if count >= least * counts.total())


def _copied(source: list[str], target: list[str]) -> float:
    """The share of words that both sides have in common; 0 if they have few."""
    one, other = (Counter(word for word in words if not word.isdigit()) for words in (source, target))
    if source == target and one:
        return 1.0
    if min(one.total(), other.total()) < COPIED_WORDS:
        return 0.0
    return (one & other).total() / max(one.total(), other.total())


def _digits(number: str) -> str:
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal()).lstrip("0")


def _addresses(text: str) -> list[str]:
    return ADDRESS.findall(text) if "@" in text or "." in text or "/" in text else []


def _others(one: list[str], other: list[str]) -> float:
    """How many items only one of two lists has; not a number if both are empty."""
    if not one and not other:
        return math.nan
    return float((Counter(one) - Counter(other) | Counter(other) - Counter(one)).total())


def _repeated(words: list[str]) -> float:
    """The share of words that have come before, after the same word; any long text repeats many of its words."""
    return 1 - len({*zip(words, words[1:])}) / (len(words) - 1) if len(words) >= REPEATED_LENGTH else 0.0


def _script_share(text: str, scripts: frozenset[str]) -> float:
    letters = count_scripts(text)
    return sum(letters[script] for script in scripts) / letters.total() if letters else 1.0


def hash_of(*texts: str) -> int:
    """A 64-bit hash of texts, the same in every process."""
    data = "\0".join(texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=BITS).digest(), "little")


@dataclass(frozen=True)
class Limits:
    """What a pair may have, drawn from the text.

    Attributes:
        length: characters of a side.
        ratio: how many times longer than usual one side may be.
        script: the least share of letters of the usual scripts.
        score: the least score.
        copied, repeated: the greatest share of words that both sides have, and that repeat others.
        mixed: the greatest share of words in passages of the other side's language.
        numbers, addresses: the most that only one side has.
    """

    length: int
    ratio: float
    script: float = 0.5
    score: float = 0.5
    copied: float = COPIED
    repeated: float = REPEATED
    mixed: float = 1.0
    numbers: float = math.inf
    addresses: float = math.inf

    @classmethod
    def of(cls, good: Sequence[Looks], length_ratio: float) -> "Limits":
        """Limits for texts that are like others.

        Args:
            good: looks of good pairs.
            length_ratio: as in [`PairMeasures`].
        """
        values = dict(zip(MEASURED, np.array([looks.values for looks in good]).reshape(-1, len(MEASURED)).T))
        logs = [np.log(np.maximum(values[f"{side}_length"], 1)) for side in ("source", "target")]
        longest = np.exp(np.quantile(np.maximum(*logs), 0.999)) * 1.5
        differences = np.abs(logs[1] - logs[0] - np.log(length_ratio))
        return cls(
            max(int(longest), 100),
            float(np.exp(max(np.quantile(differences, 0.995) * 1.25, np.log(2.5)))),
            numbers=max(_usual(values["numbers"], 0.99), 1.0),
            addresses=_usual(values["addresses"], 0.9),
        )


def _usual(values: np.ndarray, share: float) -> float:
    """A quantile of the values that are numbers; infinity if these are few."""
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) >= LEAST_KNOWN else math.inf

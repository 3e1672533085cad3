"""Noise of sources: capitals, missing punctuation, typing errors."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..sources.text_files import Pair

# Punctuation, except within words and numbers: "don't", "3.5".
PUNCTUATION = re.compile(r"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)")
# Shorter words are left alone: an error often makes another word of them.
WORD = re.compile(r"[^\W\d_]{4,}")
# Of the words of a text with errors.
ERROR_RATE = 0.15


def uppercase(text: str) -> str:
    """The text in capitals."""
    return text.upper()


def without_punctuation(text: str) -> str:
    """The text without its punctuation marks, except those within words and numbers."""
    return re.sub(r" {2,}", " ", PUNCTUATION.sub("", text))


def with_typos(text: str, generator: np.random.Generator) -> str:
    """The text with errors in some of its words of four letters and more, one in each: letters that are swapped,
    missing, doubled, or replaced by another letter of the text."""
    letters = "".join(character for character in text if character.isalpha())

    def damaged(match: re.Match) -> str:
        word = match[0]
        if generator.random() >= ERROR_RATE:
            return word
        at, kind = int(generator.integers(len(word) - 1)), int(generator.integers(4))
        first, second = word[at], word[at + 1]
        new = (second + first, first, first + first + second, first + letters[generator.integers(len(letters))])[kind]
        return word[:at] + new + word[at + 2 :]

    return WORD.sub(damaged, text)


@dataclass(frozen=True)
class PartlyLowercase:
    """Pairs with a share of the sources in lower case, as which a tokenizer is to read capitals."""

    pairs: Iterable[Pair]
    share: float

    def __iter__(self) -> Iterator[Pair]:
        generator = np.random.default_rng(0)
        for source, target in self.pairs:
            yield (source.lower() if generator.random() < self.share else source), target

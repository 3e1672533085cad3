"""The generator of the built-in corpus: German sentences with their English translation, from a small grammar.

The package ships what it generates in `hf_vaswani/data/sources/built_in/`, so that a first run needs no download;
`python -m scripts.corpus` writes it again. The words are simple, but the grammar is German: three genders,
four cases, verbs at the end of the clause, separable verbs, number words with the unit first. Word-by-word
translation fails on most sentences. The conventions that give each sentence exactly one translation are in
`grammar.py`. Some numbers are then written in digits, and some names changed (`variety.py`).
"""

from __future__ import annotations

import re
from random import Random

from .dictionary import word_dictionary
from .grammar import sentence_pair
from .variety import varied

__all__ = ["generate_corpus", "translate_word_by_word"]

VALIDATION_SIZE = 500
TEST_SIZE = 500
SMALLEST_SIZE = VALIDATION_SIZE + TEST_SIZE + 1
# The grammar can produce more, but its smaller sentence types run out, and the longer ones take over.
LARGEST_SIZE = 500_000


def generate_corpus(seed: int = 1, size: int = 24_000) -> dict[str, list[tuple[str, str]]]:
    """The built-in corpus, the same for the same seed and size on every machine.

    No two pairs have the same German or the same English sentence, not even if case and punctuation are ignored. So
    each German sentence has one translation, and no validation or test sentence is seen in training.

    Args:
        seed: Seed of the random choices.
        size: Number of sentence pairs in all splits together, from 1,001 to 500,000.

    Returns:
        The splits "train", "validation" and "test", each a list of (German, English) pairs in random order.
        500 pairs are for validation, 500 for test and the rest for training.

    Raises:
        ValueError: If `size` is too small for the splits, or more than `LARGEST_SIZE`.
    """
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise ValueError(
            f"size is {size:,}, but the built-in corpus has from {SMALLEST_SIZE:,} pairs "
            f"({VALIDATION_SIZE} for validation, {TEST_SIZE} for test, one for training) to {LARGEST_SIZE:,}."
        )
    pairs = distinct_pairs(Random(seed), Random(seed), size)
    train_size = size - VALIDATION_SIZE - TEST_SIZE
    return {
        "train": pairs[:train_size],
        "validation": pairs[train_size:-TEST_SIZE],
        "test": pairs[-TEST_SIZE:],
    }


def distinct_pairs(rng: Random, variety: Random, size: int) -> list[tuple[str, str]]:
    """Random sentence pairs, no two of which are alike on either side; the second generator varies what the first
    one draws."""
    pairs: list[tuple[str, str]] = []
    seen_german: set[str] = set()
    seen_english: set[str] = set()

    def is_new(pair: tuple[str, str]) -> bool:
        german, english = map(bare_words, pair)
        if german in seen_german or english in seen_english:
            return False
        seen_german.add(german)
        seen_english.add(english)
        return True

    while len(pairs) < size:
        pair = sentence_pair(rng)
        if is_new(pair):
            other = varied(variety, *pair)
            pairs.append(other if is_new(other) else pair)
    return pairs


def bare_words(sentence: str) -> str:
    """A sentence without case and punctuation."""
    return re.sub(r"[^\w ]", "", sentence.lower())


def translate_word_by_word(german: str) -> str:
    """A baseline translation: each German word is replaced by its usual English word.

    Order and punctuation stay as they are, and unknown words are copied. The sentence begins with a capital,
    and "a" becomes "an" before a vowel.

    Args:
        german: A German sentence, such as `generate_corpus` makes.

    Returns:
        Its words in English.
    """
    english = re.sub(r"[\w-]+", lambda match: translate_word(match.group(), match.start() == 0), german)
    english = re.sub(r"\ba(?= [aeiou])", "an", english)
    english = re.sub(r" +(?=[ ,.?])", "", english).strip()
    return english[:1].upper() + english[1:]


def translate_word(word: str, is_first: bool) -> str:
    """The English of a word; a capital marks a noun, except in the first word of a sentence."""
    dictionary = word_dictionary()
    forms = (word.lower(), word) if is_first else (word, word.lower())
    return next((dictionary[form] for form in forms if form in dictionary), word)

"""Links the words of a translation to the source words that they come from, by the alignment of their tokens.

Tokens are located in the text by their letters, whatever markers a tokenizer puts at their ends; a token that is not
found links nothing.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from ..evaluation.token_text import readable_tokens
from ..pipeline.hypothesis import Hypothesis

# In scripts without spaces, each character is a word; in others, letters and what joins them, or a single mark.
WORD = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff]"
    r"|[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff]"
    r"(?:[\w\u0300-\u036f\u200c\u200d'’·-]*\w)?"
    r"|[^\w\s]"
)
MARKS = re.compile(r"^(?:▁+|##|Ġ+|￭)|(?:@@|</w>|￭|▁+)$")
# How many characters between two tokens may belong to neither: whitespace, or what the tokenizer does not know.
FARTHEST = 24

Span = tuple[int, int]


class LinkedSentence(NamedTuple):
    """A sentence and its translation, the spans of their words, and pairs of numbers of linked words."""

    source: str
    target: str
    source_words: list[Span]
    target_words: list[Span]
    links: list[tuple[int, int]]


def link_words(tokenizer: PreTrainedTokenizerBase, source: str, hypothesis: Hypothesis) -> LinkedSentence:
    """Link the words of a sentence to those of its translation; without an alignment there are no links."""
    target = hypothesis["translation_text"]
    source_words, target_words = word_spans(source), word_spans(target)
    links: set[tuple[int, int]] = set()
    if "alignment" in hypothesis:
        sides = ((source, source_words, "source_tokens"), (target, target_words, "target_tokens"))
        numbers = [
            [words_at(words, span) for span in token_spans(readable_tokens(tokenizer, hypothesis[name]), text)]
            for text, words, name in sides
        ]
        for of_source, of_target in hypothesis["alignment"]:
            links |= {(s, t) for s in numbers[0][of_source] for t in numbers[1][of_target]}
    return LinkedSentence(source, target, source_words, target_words, sorted(links))


def word_spans(text: str) -> list[Span]:
    """Start and end of each word and each punctuation mark of a text."""
    return [match.span() for match in WORD.finditer(text)]


def words_at(words: Sequence[Span], span: Span | None) -> list[int]:
    """Numbers of the words that share a character with a span."""
    if span is None:
        return []
    return [number for number, (start, end) in enumerate(words) if start < span[1] and span[0] < end]


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """The span of each token in a text, from left to right; None if its letters are not found."""
    folded, at, spans = _folded(text), 0, []
    for token in tokens:
        found = None
        for letters in dict.fromkeys((token, MARKS.sub("", token), MARKS.sub("", MARKS.sub("", token)))):
            letters = _folded(letters.replace("▁", " ")).strip()
            start = folded.find(letters, at, at + len(letters) + FARTHEST) if letters else -1
            if start >= 0:
                found = (start, start + len(letters))
                break
        spans.append(found)
        at = found[1] if found else at
    return spans


def _folded(text: str) -> str:
    """The text, at the same length, without differences that tokenizers ignore: upper case, compatibility forms."""
    return "".join(_folded_character(character) for character in text)


def _folded_character(character: str) -> str:
    plain = unicodedata.normalize("NFKC", character).lower()
    return plain if len(plain) == 1 else character

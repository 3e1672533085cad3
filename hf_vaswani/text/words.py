"""Words of a text, to link them with the words of its translation."""

import re
from collections.abc import Sequence

# Characters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Chinese, Japanese.
SPACELESS = "\u0e00-\u109f\u1780-\u17ff\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
# In these scripts, each character is a word; in others, letters and what joins them, or a single mark.
WORD = re.compile(
    rf"[{SPACELESS}]|[^\W{SPACELESS}]"
    r"(?:[\w\u0300-\u036f\u200c\u200d'’·-]*\w)?"
    r"|[^\w\s]"
)

Span = tuple[int, int]


# Links between the words of two texts, by their numbers.
Links = set[tuple[int, int]]


def word_spans(text: str) -> list[Span]:
    """Start and end of each word and each punctuation mark of a text."""
    return [match.span() for match in WORD.finditer(text)]


def words_at(words: Sequence[Span], span: Span | None) -> list[int]:
    """Numbers of the words that share a character with a span."""
    if span is None:
        return []
    return [number for number, (start, end) in enumerate(words) if start < span[1] and span[0] < end]

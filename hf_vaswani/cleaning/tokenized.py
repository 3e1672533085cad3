"""Text that was tokenized, with spaces around marks: found, and put back by the rules of sacremoses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .spelling import APOSTROPHES

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer

# A comma or period that ends a word, and whether a space comes before it.
MARK = re.compile(r"(?<=\S)(\s?)[.,](?=\s|$)")
# Lines of a text that are looked at, and the share of them that makes those without such marks tokenized, too.
SAMPLE, LEAST_SHARE = 2000, 0.5
# An apostrophe within a word, with a space before it; the same after a word, as a quotation ends; and without a space.
SPLIT = re.compile(rf"(?<=[^\W\d_]) ([{APOSTROPHES}]) ?(?=[^\W\d_])")
SPLIT_BEFORE = re.compile(rf"(?<=[^\W\d_]) ([{APOSTROPHES}])(?=[^\W\d_])")
CLOSING = re.compile(rf"(?<=\w) ?[{APOSTROPHES}](?!\w| \w)")
INNER = re.compile(rf"(?<=[^\W\d_])[{APOSTROPHES}](?=[^\W\d_])")
# What sacremoses leaves apart, or joins to the wrong word: quotations, and the marks of Arabic.
QUOTED, MARKED = re.compile("“ ?([^“”]*?) ?”"), re.compile(" (?=[؟،؛۔]|[.,;:!?]+”|”(?:[.,;:!?]|$))")
# How many times more frequent than both others the first must be, to be letters of words that were cut apart.
TIMES, LEAST_LINES = 10, 20


@dataclass(frozen=True)
class Spacing:
    """How one side of a text uses spaces.

    Attributes:
        is_tokenized: whether most lines have spaces before their commas and periods.
        splits_apostrophes: whether words are cut at their apostrophes: `jach 'a` for `jach'a`.
        only_before: whether these have a space before them only, so that `the dogs ' bowls` are two words.
    """

    is_tokenized: bool = False
    splits_apostrophes: bool = False
    only_before: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Spacing":
        """The spacing of some texts."""
        tokenized = decided = split = before = closing = inner = 0
        for text in texts:
            verdict = _is_tokenized(text)
            decided += verdict is not None
            tokenized += verdict is True
            split += len(SPLIT.findall(text))
            before += len(SPLIT_BEFORE.findall(text))
            closing += len(CLOSING.findall(text))
            inner += len(INNER.findall(text))
        splits = split >= max(LEAST_LINES, TIMES * closing, TIMES * inner)
        return cls(tokenized > LEAST_SHARE * decided, splits, splits and before > LEAST_SHARE * split)


def detokenized(text: str, language: str, spacing: Spacing) -> str:
    """A text without the spaces that a tokenizer has put into it.

    Args:
        language: its code; sacremoses has rules of its own for some.
        spacing: of the text that it is from, which decides on lines without commas and periods.
    """
    if spacing.splits_apostrophes:
        text = (SPLIT_BEFORE if spacing.only_before else SPLIT).sub(r"\1", text)
    verdict = _is_tokenized(text)
    if verdict or (verdict is None and spacing.is_tokenized):
        words = QUOTED.sub(r"“\1”", text).split()
        text = MARKED.sub("", _detokenizer(language).detokenize(words, unescape=False))
    return text


def _is_tokenized(text: str) -> bool | None:
    """Whether all commas and periods have a space before them; `None` if there are none, or some of both."""
    spaces = {bool(space) for space in MARK.findall(text)}
    return spaces.pop() if len(spaces) == 1 else None


@lru_cache
def _detokenizer(language: str) -> "MosesDetokenizer":
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(re.split("[-_]", language)[0].lower())

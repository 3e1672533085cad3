"""Splits long texts into pieces that a model can take, at sentence ends where possible, and joins the translations.

The file travels with each checkpoint as remote code and therefore imports nothing but torch and its siblings.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import torch

from .pipeline_hypothesis import Hypothesis

CLOSING = "[\"'”’»)\\]」』】）》]*"
# Where a text may be split, best first: sentence ends, clause ends, whitespace. Scripts without spaces need none after
# their punctuation.
DIVISIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[.!?…؟۔।॥։።។။]+{CLOSING}\s+|[。！？｡．]+{CLOSING}\s*",
        rf"[,;:–—،؛፣፤]{CLOSING}\s+|[，、；：]{CLOSING}\s*",
        r"\s+",
    )
)
# Chinese, Japanese, their punctuation and full-width forms: there is no space between sentences.
SPACELESS = re.compile(r"[\u2e80-\u30ff\u31c0-\u9fff\uf900-\ufaff\uff00-\uff65]$")


class Piece(NamedTuple):
    """A part of a text, and the line break that follows it, `""` within a line."""

    text: str
    line_break: str = ""


def split_text(text: str, fits: Callable[[str], bool], packs: bool = True) -> list[Piece]:
    """Split a text into pieces that fit, without line breaks inside.

    A line is split at sentence ends (the period of an abbreviation looks like one). A sentence that does not fit is
    split at the ends of clauses, then at whitespace, then between characters.

    Args:
        fits: whether a piece is short enough.
        packs: put as many sentences into a piece as fit, instead of one.
    """
    pieces = []
    for line in text.splitlines(keepends=True):
        content = line.splitlines()[0]
        wholes = [content] if packs else _divide(content, 0)
        parts = [part for whole in wholes for part in _pack(whole.strip(), fits) if part] or [""]
        pieces += [Piece(part) for part in parts[:-1]]
        pieces.append(Piece(parts[-1], line[len(content) :]))
    return pieces or [Piece("")]


def join_texts(translations: list[str], pieces: list[Piece]) -> str:
    """Join the translations of the pieces of one text.

    Line breaks are those of the text. Within a line, translations are joined by spaces, except after Chinese and
    Japanese.
    """
    joined = ""
    for translation, piece in zip(translations, pieces):
        translation = translation.strip()
        needs_space = translation and joined and not joined[-1].isspace() and not SPACELESS.search(joined)
        joined += (" " if needs_space else "") + translation + piece.line_break
    return joined


def join_hypotheses(
    pieces: list[Piece],
    results: list[list[Hypothesis]],
    lengths: list[list[int]],
    penalty: Callable[[int], float],
) -> list[Hypothesis]:
    """Join the hypotheses of the pieces of one text: the best of all pieces become the best of the text, and so on.

    Args:
        results: for each piece its hypotheses, as the translation pipeline returns them.
        lengths: for each piece the number of tokens in each hypothesis.
        penalty: the divisor of a log-probability for a given length, which makes it a score.
    """
    joined = []
    for rank, parts in enumerate(zip(*results)):
        result: Hypothesis = {}
        if "translation_text" in parts[0]:
            result["translation_text"] = join_texts([part["translation_text"] for part in parts], pieces)
        else:
            result["translation_token_ids"] = torch.cat([part["translation_token_ids"] for part in parts])
        if "score" in parts[0]:
            sizes = [row[rank] for row in lengths]
            log_probability = sum(part["score"] * penalty(size) for part, size in zip(parts, sizes) if size)
            result["score"] = log_probability / penalty(sum(sizes) or 1)
        if "alignment" in parts[0]:
            result |= _join_alignments(parts)
        joined.append(result)
    return joined


def _join_alignments(parts: tuple[Hypothesis, ...]) -> Hypothesis:
    joined: Hypothesis = {"alignment": [], "source_tokens": [], "target_tokens": []}
    for part in parts:
        sources, targets = len(joined["source_tokens"]), len(joined["target_tokens"])
        joined["alignment"] += [(source + sources, target + targets) for source, target in part["alignment"]]
        joined["source_tokens"] += part["source_tokens"]
        joined["target_tokens"] += part["target_tokens"]
    return joined


def _pack(text: str, fits: Callable[[str], bool], level: int = 0) -> list[str]:
    if not text or fits(text):
        return [text]
    parts = _divide(text, level)
    packed, start = [], 0
    while start < len(parts):
        count = _longest_fit(parts, start, fits)
        if count == 0 and level < len(DIVISIONS):
            packed += _pack(parts[start].strip(), fits, level + 1)
        else:  # a single character that does not fit stays alone
            packed.append("".join(parts[start : start + max(count, 1)]).strip())
        start += max(count, 1)
    return packed


def _divide(text: str, level: int) -> list[str]:
    """Split a text into parts by a level of `DIVISIONS`; beyond the last level, into its characters."""
    if level == len(DIVISIONS):
        return list(text)
    ends = [0, *(match.end() for match in DIVISIONS[level].finditer(text)), len(text)]
    return [text[start:end] for start, end in zip(ends, ends[1:]) if start < end]


def _longest_fit(parts: list[str], start: int, fits: Callable[[str], bool]) -> int:
    """How many parts from `start` on fit together: doubled until they do not, then narrowed down by bisection."""

    def fit(count: int) -> bool:
        return fits("".join(parts[start : start + count]).strip())

    available = len(parts) - start
    good, bad = 0, 1
    while bad <= available and fit(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, available + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fit(middle) else (good, middle)
    return good


__all__ = ["Piece", "join_hypotheses", "split_text"]

"""What the translation pipeline returns for each translation of a text, and signs that a translation is wrong.

The file travels with each checkpoint as remote code and therefore imports nothing but torch.
"""

from collections import Counter
from typing import TypedDict

import torch

# How many times shorter or longer than expected a translation may be, with a margin in bytes for short texts.
USUAL_FACTOR, ANY_FACTOR, MARGIN = 2.5, 6, 10
LOOP_LENGTH, LOOP_COUNT = 10, 4


class Hypothesis(TypedDict, total=False):
    """One translation of a text, in the form of transformers 4's pipeline, with the keys that were requested."""

    translation_text: str
    translation_token_ids: torch.LongTensor
    score: float
    alignment: list[tuple[int, int]]
    source_tokens: list[str]
    target_tokens: list[str]
    warning: str


def translation_warning(source: str, translation: str, ratio: float | None = None) -> str | None:
    """What is suspicious about a translation, or `None`.

    Args:
        ratio: the usual length of a translation divided by that of its source, both in UTF-8, if known.
    """
    expected, length = len(source.encode()) * (ratio or 1), len(translation.encode())
    factor = USUAL_FACTOR if ratio else ANY_FACTOR
    if length * factor + MARGIN < expected:
        return "far shorter than usual"
    if length > expected * factor + MARGIN:
        return "far longer than usual"
    repeated = _most_repeated(translation)
    # Twice as often as the source: a loop, rather than a translated repetition.
    if repeated >= LOOP_COUNT and repeated > 2 * _most_repeated(source):
        return "repeats itself"
    return None


def _most_repeated(text: str) -> int:
    """How often the most frequent sequence of ten characters occurs."""
    sequences = (text[start : start + LOOP_LENGTH] for start in range(len(text) - LOOP_LENGTH + 1))
    return max(Counter(sequences).values(), default=0)


__all__ = ["Hypothesis", "translation_warning"]

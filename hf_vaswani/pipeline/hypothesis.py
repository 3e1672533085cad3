"""What the translation pipeline returns for each translation of a text, and signs that a translation is wrong."""

from collections import Counter
from collections.abc import Callable
from typing import TypedDict

import torch

from ..core.pipeline_sentences import Piece, join_texts

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
        if warning := next((part["warning"] for part in parts if "warning" in part), None):
            result["warning"] = warning
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


__all__ = ["Hypothesis", "join_hypotheses", "translation_warning"]

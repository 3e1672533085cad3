"""Splits texts into sentences, or into pieces like the model's training text, and joins their translations."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import torch
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ...core.sentence_splitting import Piece, join_texts, split_like_training_text, split_text
from ...core.tokenization_vaswani import leading_marks
from ...text.normalization import is_blank
from ..encoder import SourceLimits
from ..segments import MASK, Hypothesis, Segment


class Sentences:
    """Texts → their pieces, and back.

    Args:
        split_sentences: as in [`TranslationOptions`].
        limits: how long a source may be.
        length: returns the number of tokens in a text.
        penalty: the divisor of a log-probability for a given length, which makes it a score.
        empty: hypotheses of a text with nothing to translate.
        mask: hides spans of a segment's text that are to be kept, and returns them, too.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        tokenizer: PreTrainedTokenizerBase,
        split_sentences: bool | None,
        limits: SourceLimits,
        length: Callable[[str], int],
        penalty: Callable[[int], float],
        empty: Callable[[], list[Hypothesis]],
        mask: Callable[[Segment], tuple[str, list[str]]] | None,
    ):
        self.config, self.tokenizer, self.split_sentences = config, tokenizer, split_sentences
        self.limits, self.length, self.penalty, self.empty, self.mask = limits, length, penalty, empty, mask

    def before(self, segments: list[Segment]) -> list[Segment]:
        return [part for segment in segments for part in self._split(segment)]

    def after(self, segments: list[Segment]) -> list[Segment]:
        return [self._joined(list(parts)) for _, parts in groupby(segments, key=lambda segment: segment.owner)]

    def _split(self, segment: Segment) -> list[Segment]:
        text, kept = self.mask(segment) if self.mask else (segment.piece.text, [])
        contents = iter(kept)
        return [
            Segment(
                segment.owner, piece, segment.prefix, text_with_masks=piece.text if self.mask else "",
                contents=[next(contents) for _ in range(piece.text.count(MASK))] if kept else (),
            )
            for piece in self._pieces(text, segment.prefix)
        ]  # fmt: skip

    def _pieces(self, text: str, prefix: str) -> list[Piece]:
        marks = leading_marks(self.tokenizer, text)  # each piece needs them
        pieces = self._divided(text[len(marks) :], prefix)
        return [Piece(marks + piece.text, piece.space) for piece in pieces] if marks else pieces

    def _divided(self, text: str, prefix: str) -> list[Piece]:
        if self.split_sentences:
            fits = self.limits.piece
            return split_text(text, lambda part: self.length(part) <= fits, packs=self.limits.is_known)
        if self.split_sentences is None and knows_training_text(self.config) and not prefix:
            known = self.config.longest_training_source, self.config.multi_sentence_share
            return split_like_training_text(text, *known, self.length, is_blank)
        return [Piece(text)]

    def _joined(self, parts: list[Segment]) -> Segment:
        for part in parts:
            if part.result is None:
                part.result = self.empty()
                part.target_lengths = [0] * len(part.result)
        ids = [token_id for part in parts if part.row for token_id in part.row["input_ids"]]
        text = replace(parts[0], row={"input_ids": ids})
        if errors := [part.result for part in parts if isinstance(part.result, Exception)]:
            text.result = errors[0]
        elif len(parts) > 1 or parts[0].piece.space:
            joined = ((part.piece, part.hypotheses, part.target_lengths) for part in parts)
            text.result = join_hypotheses(*map(list, zip(*joined)), self.penalty)
        return text


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
        if "confidence" in parts[0]:
            sizes = [row[rank] for row in lengths]
            weighted = sum(part["confidence"] * size for part, size in zip(parts, sizes))
            result["confidence"] = weighted / sum(sizes) if sum(sizes) else 1.0
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


def knows_training_text(config: PreTrainedConfig) -> bool:
    """Whether a model is of this package, so that its config may say what it was trained on."""
    return hasattr(config, "multi_sentence_share")


__all__ = ["Sentences", "knows_training_text"]

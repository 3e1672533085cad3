"""Splits texts into sentences, or into pieces like those that the model was trained on, and joins their translations."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ...core.pipeline_sentences import Piece, split_like_training_text, split_text
from ...generation.model_checks import SourceLimits
from ...generation.output_scores import Hypothesis, join_hypotheses
from ...text.languages import GROUP_MARK, group_languages
from ...text.normalization import is_blank
from ..segments import MASK, Segment


class Sentences:
    """Texts → their pieces, and back.

    Args:
        split_sentences: as in [`TranslationOptions`].
        limits: how long a source may be.
        length: returns the number of tokens in a text.
        penalty: the divisor of a log-probability for a given length, which makes it a score.
        empty: hypotheses of a text with nothing to translate.
        mask: hides spans of a text that are to be kept, and returns them, too.
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
        mask: Callable[[str], tuple[str, list[str]]] | None,
    ):
        self.config, self.has_groups, self.split_sentences = config, bool(group_languages(tokenizer)), split_sentences
        self.limits, self.length, self.penalty, self.empty, self.mask = limits, length, penalty, empty, mask

    def before(self, segments: list[Segment]) -> list[Segment]:
        return [part for segment in segments for part in self._split(segment)]

    def after(self, segments: list[Segment]) -> list[Segment]:
        return [self._joined(list(parts)) for _, parts in groupby(segments, key=lambda segment: segment.owner)]

    def _split(self, segment: Segment) -> list[Segment]:
        text, kept = self.mask(segment.piece.text) if self.mask else (segment.piece.text, [])
        contents = iter(kept)
        return [
            Segment(
                segment.owner, piece, segment.prefix, masked=piece.text if self.mask else "",
                contents=[next(contents) for _ in range(piece.text.count(MASK))] if kept else (),
            )
            for piece in self._pieces(text, segment.prefix)
        ]  # fmt: skip

    def _pieces(self, text: str, prefix: str) -> list[Piece]:
        if self.has_groups and (mark := GROUP_MARK.match(text)):  # each piece needs it
            pieces = self._divided(text[mark.end() :], prefix)
            return [Piece(mark.group() + piece.text, piece.space) for piece in pieces]
        return self._divided(text, prefix)

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


def knows_training_text(config: PreTrainedConfig) -> bool:
    """Whether a model is of this package, so that its config may say what it was trained on."""
    return hasattr(config, "multi_sentence_share")


__all__ = ["Sentences", "knows_training_text"]

"""Warns of translations that may be wrong, and of sources that may not be what the model translates."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from transformers import PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging

from ...text.source_warnings import translation_warning
from ..segments import Segment

if TYPE_CHECKING:
    from .terms import Terms

logger = logging.get_logger(__name__)


class TranslationWarnings:
    """Warns of translations that may be wrong.

    Args:
        gives: whether each such translation gets a `warning`; otherwise a message counts them.
        terms: the step for terms or spans to be kept, if there are any.
        texts, first: number of texts, and the number of the first one, for the message.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        gives: bool,
        terms: "Terms | None",
        texts: int,
        first: int,
    ):
        self.ratio, self.gives, self.terms = getattr(config, "length_ratio", None), gives, terms
        self.texts, self.first = texts, first

    def before(self, segments: list[Segment]) -> list[Segment]:
        return segments

    def after(self, segments: list[Segment]) -> list[Segment]:
        found: dict[int, str] = {}
        for segment in segments:
            source = segment.source
            for number, hypothesis in enumerate(segment.hypotheses if self.gives else segment.hypotheses[:1]):
                if (warning := self._warning(segment, source, number)) is None:
                    continue
                if self.gives:
                    hypothesis["warning"] = warning
                else:
                    found.setdefault(segment.owner, f"{source[:60]!r}: {warning}")
        if found:
            owner, warning = next(iter(found.items()))
            logger.warning(
                f"{len(found)} of {self.texts} translations may be wrong; the first, of inputs[{self.first + owner}], "
                f"{warning}."
            )
        return segments

    def _warning(self, segment: Segment, source: str, number: int) -> str | None:
        hypothesis = segment.hypotheses[number]
        if self.terms and (missing := self.terms.finally_missing(segment, hypothesis)):
            from ...text.glossary import shown_constraints

            return f"lacks {shown_constraints(missing)}"
        if self.terms and (repeated := self.terms.repeated(segment, number)):
            return repeated
        text = hypothesis.get("translation_text")
        return None if text is None else translation_warning(source, text, self.ratio)


class SourceWarnings:
    """Adds to the warnings of translations the reasons to doubt that their sources can be translated.

    Args:
        language: code of the source language, if known.
        shown: returns a text without what is to be kept.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, language: str | None, shown: Callable[[str], str]):
        self.tokenizer, self.language, self.shown = tokenizer, language, shown
        self.texts: list[str] = []

    def before(self, segments: list[Segment]) -> list[Segment]:
        self.texts = [self.shown(segment.piece.text) for segment in segments]
        return segments

    def after(self, segments: list[Segment]) -> list[Segment]:
        from ...text.source_warnings import source_warnings  # only where they are requested

        unknown = {
            segment.owner for segment in segments
            if segment.row and self.tokenizer.unk_token_id in segment.row["input_ids"]
        }  # fmt: skip
        for found, segment in zip(source_warnings(self.texts, self.tokenizer, self.language, unknown), segments):
            for hypothesis in segment.hypotheses if found else ():
                hypothesis["warning"] = "; ".join([*found, *filter(None, [hypothesis.get("warning")])])
        return segments


__all__ = ["SourceWarnings", "TranslationWarnings"]

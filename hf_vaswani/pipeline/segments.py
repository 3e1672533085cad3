"""Texts and pieces of texts on their way through the translation engine, and what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.pipeline_sentences import Piece
from ..generation.output_scores import Hypothesis

if TYPE_CHECKING:  # only texts with terms need them
    from ..generation.term_automaton import TermAutomaton
    from ..text.glossary import Demand

Result = list[Hypothesis] | Exception


class SourceTooLong(ValueError):
    """A text of more tokens than the limit."""

    def __init__(self, length: int, limit: int):
        super().__init__(f"{length:,} tokens, more than the limit of {limit:,}")


class TermsUnmet(ValueError):
    """A text of which no translation with all terms was found."""


@dataclass(eq=False, slots=True)
class Segment:
    """A text, or a piece of one, on its way from text to hypotheses.

    Attributes:
        owner: position of the text that this is, or is a piece of.
        piece: the text itself, and the whitespace after it.
        prefix: what its translation must begin with; "" for anything.
        marked: what the model reads in place of the text, with markers of `text/markers.py`; "" for the text itself.
        inputs: the tokenizer's output; `None` if there is nothing to translate.
        prompt: token ids of the decoder's start and the prefix; empty without a prefix.
        result: its hypotheses, best first, or why there are none.
        target_lengths: number of tokens in each hypothesis.
        demands: the terms that its translations must have.
        automata: those of the demands, if they are searched for.
        contents: what is to be kept of the text, in its order.
        kept: what the placeholders in the piece stand for; `shown` is the piece without them, if it has been changed.
        is_straggler: whether the search of its batch left it without a result, to be searched with other stragglers.
    """

    owner: int
    piece: Piece
    prefix: str = ""
    marked: str = ""
    inputs: dict[str, Any] | None = None
    prompt: Sequence[int] = ()
    result: Result | None = None
    target_lengths: Sequence[int] = ()
    demands: "Sequence[Demand]" = ()
    automata: "Sequence[TermAutomaton]" = ()
    contents: Sequence[str] = ()
    kept: Sequence[str] = ()
    shown: str = ""
    is_straggler: bool = False

    @property
    def length(self) -> int:
        """The number of source tokens, special tokens included."""
        return len(self.inputs["input_ids"]) if self.inputs else 0

    @property
    def is_open(self) -> bool:
        """Whether there is anything to translate, and no result yet."""
        return self.inputs is not None and self.result is None


__all__ = ["Result", "Segment", "SourceTooLong", "TermsUnmet"]

"""What passes between the stages of a translation: pieces of texts, what is searched for and found, and errors."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

import torch

from ..core.sentence_splitting import Piece
from ..generation.fast_beam_search import UnfinishedSentences
from ..generation.settings import GenerateArguments
from ..text.words import Span, word_spans

if TYPE_CHECKING:  # only texts with terms need them
    from ..generation.term_automaton import TermAutomata, TermAutomaton
    from ..text.glossary import Term, TermConstraint

# What stands for each span that is to be kept while a text is divided into sentences.
MASK = "\ufdef"
# A tokenizer's output for one text: `input_ids`, and what else the model needs.
Row = dict[str, Any]


class Hypothesis(TypedDict, total=False):
    """One translation of a text, in the form of transformers 4's pipeline, with the keys that were requested."""

    translation_text: str
    translation_token_ids: torch.LongTensor
    score: float
    confidence: float
    alignment: list[tuple[int, int]]
    source_tokens: list[str]
    target_tokens: list[str]
    warning: str
    pivot_text: str


Result = list[Hypothesis] | Exception


class SourceTooLong(ValueError):
    """A text of more tokens than the limit."""

    def __init__(self, length: int, limit: int):
        super().__init__(f"{length:,} tokens, more than the limit of {limit:,}")


class MissingTerm(ValueError):
    """A text of which no translation with all terms was found."""


class Candidate(NamedTuple):
    """A translation as a search returns it.

    Attributes:
        ids: token ids, from the decoder's start token to the end token.
        score: as beam search ranks it, if requested.
        alignment: `alignment`, `source_tokens` and `target_tokens`, if requested.
        hypothesis: what a pipeline with stages of its own has made of it.
    """

    ids: Sequence[int]
    score: float | None = None
    alignment: dict[str, list] | None = None
    hypothesis: Hypothesis | None = None


@dataclass(frozen=True)
class Occurrence:
    """A source term in a text.

    Attributes:
        start, end: where it is.
        source: the term, for messages.
        terms: the target terms to choose from.
    """

    start: int
    end: int
    source: str
    terms: "tuple[Term, ...]"


class TermText(NamedTuple):
    """A translation that is to have terms.

    Attributes:
        occurrences: the source's terms.
        fixed: places in the translation that must stay as they are.
    """

    source: str
    translation: str
    occurrences: Sequence[Occurrence]
    fixed: Sequence[Span] = ()


@dataclass
class Placement:
    """A translation with terms.

    Attributes:
        text: the translation.
        score: the model's; `None` if the translation cannot be scored.
        repeated: words that say the same as a term, each with the term.
        replaced: the words that terms have replaced, and how many of each are left.
        is_probable: whether the model may find a better translation with the terms.
    """

    text: str
    score: "WordScores | None" = None
    repeated: list[tuple[str, Occurrence]] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)
    is_probable: bool = False

    def is_said_again_in(self, text: str) -> bool:
        """Whether another translation has more of the words that terms have replaced here."""
        counts = Counter(text[start:end].lower() for start, end in word_spans(text))
        return any(counts[word] > count for word, count in self.replaced.items())


@dataclass(eq=False, slots=True)
class Segment:
    """A text, or a piece of one, on its way from text to hypotheses.

    Attributes:
        owner: position of the text that this is, or is a piece of.
        piece: the text itself, and the whitespace after it.
        prefix: what its translation must begin with; "" for anything.
        text_with_masks: the piece with a mark in place of each span that is to be kept.
        contents: these spans, in their order.
        placeholders: the spans among them that placeholders stand for in the piece.
        text_with_terms: what the model reads in place of the text, with the markers of `text/markers.py`; "" for the
            text itself.
        row: the tokenizer's output; `None` if there is nothing to translate.
        prompt: token ids of the decoder's start and the prefix; empty without a prefix.
        result: its hypotheses, best first, or why there are none.
        target_lengths: number of tokens in each hypothesis.
        constraints: the terms that its translations must have.
        automata: the constraints as automata, if they are searched for.
        placements: how terms were put into a hypothesis, by its number.
        is_unfinished: whether the search of its batch left it without a result, to be searched with others like it.
    """

    owner: int
    piece: Piece
    prefix: str = ""
    text_with_masks: str = ""
    contents: Sequence[str] = ()
    placeholders: Sequence[str] = ()
    text_with_terms: str = ""
    row: Row | None = None
    prompt: Sequence[int] = ()
    result: Result | None = None
    target_lengths: Sequence[int] = ()
    constraints: "Sequence[TermConstraint]" = ()
    automata: "Sequence[TermAutomaton]" = ()
    placements: dict[int, Placement] = field(default_factory=dict)
    is_unfinished: bool = False

    @property
    def length(self) -> int:
        """The number of source tokens, special tokens included."""
        return len(self.row["input_ids"]) if self.row else 0

    @property
    def is_open(self) -> bool:
        """Whether there is anything to translate, and no result yet."""
        return self.row is not None and self.result is None

    @property
    def source(self) -> str:
        """The text as its author wrote it, without placeholders."""
        if not self.text_with_masks:
            return self.piece.text
        parts = self.text_with_masks.split(MASK)
        return "".join(part for pair in zip(parts, [*self.contents, ""]) for part in pair)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """Its translations, if it has any."""
        return self.result if isinstance(self.result, list) else []

    def place_in_piece(self, start: int) -> int:
        """Where a character of `text_with_masks` is in the piece, which has spans in place of masks, beyond those that
        placeholders stand for."""
        masks = self.text_with_masks[:start].count(MASK)
        return start + sum(len(span) - len(MASK) for span in self.contents[len(self.placeholders) : masks])

    def set_result(self, text: str, empty: list[Hypothesis]) -> None:
        """Set a translation that needs no search.

        Args:
            empty: hypotheses of a text with nothing to translate.
        """
        self.result = [{**hypothesis, "translation_text": text} for hypothesis in empty]
        self.target_lengths = [0] * len(empty)


@dataclass(frozen=True)
class SearchRequest:
    """What a search is to find, the same for all of its batches.

    Attributes:
        arguments: the arguments of `generate()`, resolved.
        n_best: number of hypotheses, with scores; `None` for as many as `num_return_sequences` says.
        return_scores, return_alignments: what hypotheses are to have besides their tokens.
    """

    arguments: GenerateArguments
    n_best: int | None = None
    return_scores: bool | None = None
    return_alignments: bool | None = None

    @property
    def hypotheses(self) -> int:
        """The number of hypotheses of each text; errors as in [`GenerateArguments.hypotheses`]."""
        return self.arguments.hypotheses(self.n_best)


class WordScores(NamedTuple):
    """The score of a translation, and how much each of its words contributes.

    Attributes:
        log_probability: of the whole translation.
        length: number of its tokens, the end token included.
        words: the log-probability of each word that `word_spans` finds: the sum of its tokens'.
    """

    log_probability: float
    length: int
    words: tuple[float, ...]


class SearchBatch(NamedTuple):
    """Texts that are searched together.

    Attributes:
        rows: the sources.
        prompts: for each, the tokens that its translations begin with, of equal numbers; or None.
        constraints: the terms that translations must have.
        unfinished: if given, the search may leave sentences out; their candidates mean nothing.
        finished: called with the number of a row that is done before the others, if the backend knows it.
    """

    rows: Sequence[Row]
    prompts: Sequence[Sequence[int]] | None = None
    constraints: "TermAutomata | None" = None
    unfinished: UnfinishedSentences | None = None
    finished: Callable[[int], None] = lambda number: None


class SearchBackend(Protocol):
    """An engine that computes translations.

    Attributes:
        name, title: what options and messages call it.
        takes_constraints: whether it can search for terms.
        makes_batches: whether it forms batches itself, and distributes them to workers of its own.
        leaves_unfinished: whether it can leave the last sentences of a batch without a result.
        must_see_all: whether it must see all batches, in their order.
    """

    name: str
    title: str
    takes_constraints: bool
    makes_batches: bool
    leaves_unfinished: bool
    must_see_all: bool

    def search(self, batch: SearchBatch, request: SearchRequest) -> list[list[Candidate]]:
        """The candidates of each row of a batch, best first."""
        ...

    def obstacle(self, request: SearchRequest, longest: int) -> str | None:
        """Why it cannot search with these arguments, if so.

        Args:
            longest: number of tokens of the longest source.
        """
        ...

    @staticmethod
    def computes_the_same(request: SearchRequest) -> bool:
        """Whether PyTorch would find the same translations and scores with the same arguments."""
        ...


def attempt(work: Callable[[list[Segment]], None], segments: list[Segment], on_error: str) -> None:
    """Do some work on segments; if it fails and errors are returned, do it again on each half."""
    try:
        return work(segments)
    except Exception as exception:
        if on_error == "raise":
            raise
        # Kept without its frames, which hold the tensors of a batch that may have been too large.
        error = exception.with_traceback(None)
    if len(segments) == 1:
        segments[0].result = error
        return None
    middle = len(segments) // 2
    attempt(work, segments[:middle], on_error)
    return attempt(work, segments[middle:], on_error)


__all__ = [
    "MASK", "Candidate", "Hypothesis", "MissingTerm", "Occurrence", "Placement", "Result", "Row",
    "SearchBackend", "SearchBatch", "SearchRequest",
    "Segment",
    "SourceTooLong", "WordScores", "attempt",
]  # fmt: skip

"""Sentences on their way over a third language, and terms by the words that stand for them there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.sentence_splitting import Piece, join_texts
from .glossary import Entry, Glossary
from .words import Links, Span, word_spans


class PivotTerms(Glossary):
    """The terms of one sentence in the third language.

    The words of a term may be in it once more, for something else, so that it is known which of them count.

    Args:
        places: for each entry, which of its occurrences are the term, counted from 0.
    """

    def __init__(self, places: Mapping[Entry, frozenset[int]]):
        super().__init__(places)
        self.places = dict(places)

    @classmethod
    def of_places(cls, text: str, terms: Iterable[tuple[Span, Entry]]) -> "PivotTerms":
        """Terms from where they are in a sentence.

        Args:
            terms: the place of each, and its entry in the user's glossary.
        """
        found: dict[tuple[bool, str], list[tuple[Span, Entry]]] = defaultdict(list)
        for (start, end), entry in terms:
            words = text[start:end]
            is_exact = entry.is_exact(words)
            found[is_exact, words if is_exact else words.lower()].append(((start, end), entry))
        places = {}
        for (_, words), own in found.items():
            targets = dict.fromkeys(target for _, entry in own for target in entry.targets)
            merged, taken = Entry(words, tuple(targets), own[0][1].case), [place for place, _ in own]
            occurrences = Glossary([merged]).find(text)
            places[merged] = frozenset(n for n, (*place, _) in enumerate(occurrences) if tuple(place) in taken)
        return cls(places)

    def find(self, source: str) -> Iterator[tuple[int, int, Entry]]:
        seen: Counter[Entry] = Counter()
        for start, end, entry in super().find(source):
            if seen[entry] in self.places[entry]:
                yield start, end, entry
            seen[entry] += 1


@dataclass(frozen=True)
class PivotSentence:
    """A sentence of a text in the third language.

    Attributes:
        space: the whitespace after it in the text.
        kept: what is to stay as it is.
        terms: the terms that its translation must have.
    """

    text: str
    space: str = ""
    kept: tuple[str, ...] = ()
    terms: Glossary = Glossary(())


def compose_links(text: str, pivot: str, translation: str, first: Links | None, second: Links | None) -> Links | None:
    """Links between the words of a text and of its translation over a third language.

    Args:
        first, second: links between the words of the text and of the pivot, and of the pivot and of the translation;
            `None` where there are none, which is so of equal texts.
    """
    first, second = (
        {(word, word) for word in range(len(word_spans(source)))} if links is None and source == target else links
        for source, target, links in ((text, pivot, first), (pivot, translation, second))
    )
    if first is None or second is None:
        return None
    return {(source, target) for source, between in first for word, target in second if word == between}


def joined_pivot(sentences: Sequence[PivotSentence]) -> str:
    """A text in the third language."""
    return join_texts([each.text for each in sentences], [Piece(each.text, each.space) for each in sentences])


def joined_warnings(first: str | None, second: str | None) -> str | None:
    """The warnings of both steps as one, which says what of them is about the pivot."""
    if first and not first.startswith("the source "):
        first = f"pivot text: {first}"
    second = second and second.replace("the source ", "the pivot text ")
    return "; ".join(filter(None, (first, second))) or None

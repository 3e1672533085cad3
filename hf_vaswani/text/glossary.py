"""Glossaries: where a source has terms, and how often its translation has the target terms for them.

Terms are compared word by word: "hound" is not in "hounds", and spaces next to punctuation make no difference. In
scripts without spaces, such as Chinese and Thai, each character is a word.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from ..errors import nearest
from .words import SPACELESS, Links, word_spans, words_at

# Characters of a term, and target terms for one source term. Other services take 1,024 bytes.
LONGEST_TERM, MOST_TARGETS = 1024, 100
SHOWN_ERRORS = 5
EXACT, IGNORE = CASES = ("exact", "ignore")


@cache
def _patterns() -> tuple[re.Pattern, re.Pattern]:
    """Patterns of a word, and of a character that belongs to the same word as such a character next to it."""
    # Marks, such as the vowel signs of Indic scripts, are not letters to `re`.
    marks = "".join(filter(lambda c: unicodedata.category(c)[0] == "M", map(chr, range(0x300, 0x20000))))
    joining = rf"(?![{SPACELESS}])[\w{marks}]"
    return re.compile(rf"[{SPACELESS}]|(?:{joining})+|[^\s\w]"), re.compile(joining)


def words(text: str) -> list[str]:
    """The words of a text; punctuation marks are words of their own."""
    return _patterns()[0].findall(text)


def joins_words(character: str) -> bool:
    """Whether a character and one like it next to it are in the same word."""
    return _patterns()[1].match(character) is not None


@dataclass(frozen=True)
class Term:
    """A term of the target language.

    Attributes:
        text: as it is to be written.
        is_exact: whether its case matters. Otherwise, it may also begin with a capital, as at the start of a sentence.
    """

    text: str
    is_exact: bool

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the term is among the words of a text: indices of its first word and of the one after its last."""
        own = words(self.text) if self.is_exact else _lowered(words(self.text))
        of_text, places = _split(text, not self.is_exact)
        for start in places.get(own[0], ()):
            if of_text[start : start + len(own)] == own:
                yield start, start + len(own)

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Where the term is in a text: its first character and the one after its last."""
        matches = list(_patterns()[0].finditer(text))
        return ((matches[start].start(), matches[end - 1].end()) for start, end in self.spans(text))


@dataclass(frozen=True)
class TermConstraint:
    """Terms of which a translation must have one, as often as their source occurs in the text.

    Attributes:
        terms: the terms to choose from.
        count: how often one of them must occur in the translation.
        source: the source term, for messages.
    """

    terms: tuple[Term, ...]
    count: int
    source: str

    def count_in(self, translation: str) -> int:
        """How many of the `count` times a translation has one of the terms."""
        spans = sorted((end, start) for term in self.terms for start, end in term.spans(translation))
        found = after = 0
        for end, start in spans:
            if start >= after:
                found, after = found + 1, end
        return min(found, self.count)

    def __str__(self) -> str:
        terms = " or ".join(shortened(term.text) for term in self.terms[:SHOWN_ERRORS])
        return f"{terms} for {shortened(self.source)}" + (f", {self.count} times" if self.count > 1 else "")


def shortened(text: str) -> str:
    """A text in quotes, cut after 60 characters."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


def shown_constraints(demands: "Sequence[TermConstraint]") -> str:
    """Demands in words, those after the first few only counted."""
    rest = [f"{len(demands) - SHOWN_ERRORS} more"] if len(demands) > SHOWN_ERRORS else []
    return ", ".join([*map(str, demands[:SHOWN_ERRORS]), *rest])


@dataclass(frozen=True)
class Entry:
    """A line of a glossary.

    Attributes:
        source: the source term.
        targets: the target terms to choose from.
        case: `"exact"` or `"ignore"`; `None` ignores the case of terms without capitals.
    """

    source: str
    targets: tuple[str, ...]
    case: str | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The target terms, each with its case rule."""
        return tuple(Term(text, self.is_exact(text)) for text in self.targets)

    def is_exact(self, term: str) -> bool:
        """Whether the case of the source term or of a target term matters."""
        return term != term.lower() if self.case is None else self.case == EXACT

    def errors(self) -> list[str]:
        """What is wrong with the entry."""
        for text in (self.source, *self.targets):
            if len(text) > LONGEST_TERM:
                return [f"the term {shortened(text)} has {len(text):,} characters, more than {LONGEST_TERM:,}"]
        if len(self.targets) > MOST_TARGETS:
            return [f"{shortened(self.source)} has {len(self.targets):,} target terms, more than {MOST_TARGETS}"]
        if not words(self.source):
            return ["the source term is empty"]
        if not self.targets or not all(map(words, self.targets)):
            return [f"a target term of {self.source!r} is empty"]
        if self.case not in (None, *CASES):
            return [f"the case rule of {self.source!r} must be {' or '.join(CASES)}, not {self.case!r}"]
        return []


class Glossary:
    """Terms and their translations.

    Args:
        entries: the terms.

    Raises:
        ValueError: an entry has no words, or two entries conflict.
    """

    def __init__(self, entries: Iterable[Entry]):
        self.entries = tuple(entries)
        if errors := [f"terms: {error}." for error in glossary_errors(self.entries).values()]:
            rest = [f"{len(errors) - SHOWN_ERRORS} more terms have errors."] if len(errors) > SHOWN_ERRORS else []
            raise ValueError(" ".join(errors[:SHOWN_ERRORS] + rest))
        self._exact, self._lowered = _Tree(), _Tree()
        for entry in self.entries:
            own = words(entry.source)
            if entry.is_exact(entry.source):
                self._exact.add(own, entry)
            else:
                self._lowered.add(_lowered(own), entry)

    @classmethod
    def of(cls, terms: "Mapping[str, str | Sequence[str]] | Glossary") -> "Glossary":
        """A glossary from a dict: source term → target term, or several to choose from.

        Raises:
            ValueError: it is not such a dict, or its terms cannot be used.
        """
        if isinstance(terms, Glossary):
            return terms
        example = 'such as {"Hund": "hound"} or {"Hund": ["hound", "dog"]}'
        if not isinstance(terms, Mapping):
            raise ValueError(f"terms must be a dict, {example}, got {type(terms).__name__}.")
        entries = []
        for source, targets in terms.items():
            targets = (targets,) if isinstance(targets, str) else targets
            if not (isinstance(targets, Sequence) and all(isinstance(text, str) for text in (source, *targets))):
                raise ValueError(f"terms must be a dict of texts, {example}, got {repr({source: targets})[:60]}.")
            entries.append(Entry(source, tuple(targets)))
        return cls(entries)

    def demands(self, source: str) -> list[TermConstraint]:
        """What a translation of a source must have, see [`find`]."""
        counts: Counter[tuple[Term, ...]] = Counter()
        sources: dict[tuple[Term, ...], str] = {}
        for _, _, entry in self.find(source):
            counts[entry.terms] += 1
            sources.setdefault(entry.terms, entry.source)
        return [TermConstraint(terms, count, sources[terms]) for terms, count in counts.items()]

    def of_text(self, source: str) -> "Glossary":
        """A glossary of the terms that a source has, with the same demands on its translation."""
        return Glossary(dict.fromkeys(entry for _, _, entry in self.find(source)))

    def unused_warning(self, texts: Sequence[str], name: str) -> str | None:
        """What to say if no source term occurs in some texts, which are called `name`."""
        if not self.entries or any(True for text in texts for _ in self.find(text)):
            return None
        hint = ""
        if any(True for text in texts for entry in self.entries for term in entry.terms for _ in term.spans(text)):
            hint = " The target terms do: are the columns swapped?"
        known = {word for text in texts for word in words(text) if len(word) > 2}
        for entry in () if hint else self.entries:
            if meant := nearest(entry.source, known):
                hint = f" Did you mean {meant!r} by {entry.source!r}?"
                break
        return f"no source term of the glossary occurs in {name}.{hint}"

    def link_terms(
        self, sources: Sequence[str], translations: Sequence[str], alignments: Sequence[Links | None]
    ) -> list[Links | None]:
        """Alignments in which all words of a target term are linked with its source term, and with nothing else.

        Args:
            alignments: for each text the links (source word, target word), by their numbers in `word_spans`, or
                `None`.
        """
        return [
            links if links is None else self._linked(source, translation, links)
            for source, translation, links in zip(sources, translations, alignments)
        ]

    def _linked(self, source: str, translation: str, links: Links) -> Links:
        spans, taken = (word_spans(source), word_spans(translation)), set()
        for start, end, entry in self.find(source):
            places = (place for term in entry.terms for place in term.places(translation) if place not in taken)
            if place := next(places, None):
                taken.add(place)
                own, of_term = words_at(spans[0], (start, end)), words_at(spans[1], place)
                links = {link for link in links if link[1] not in of_term} | {(s, t) for s in own for t in of_term}
        return links

    def find(self, source: str) -> Iterator[tuple[int, int, Entry]]:
        """The longest terms at each place of a source, from left to right: start, end, entry."""
        matches = list(_patterns()[0].finditer(source))
        of_text, place = [match[0] for match in matches], 0
        lowered = _lowered(of_text)
        while place < len(of_text):
            found = self._exact.longest(of_text, place), self._lowered.longest(lowered, place)
            length, entry = max(found, key=lambda pair: pair[0])  # of two, the one whose case matters
            if entry is not None:
                yield matches[place].start(), matches[place + length - 1].end(), entry
            place += max(length, 1)


class _Tree:
    """The source terms of entries as a tree of words, in which the longest one at a place is found in one pass."""

    def __init__(self):
        self._next: dict[tuple[int, str], int] = {}  # node and word → the node after it
        self._entries: dict[int, Entry] = {}

    def add(self, own: Sequence[str], entry: Entry) -> None:
        """Add an entry by its words, unless there is one already."""
        node = 0
        for word in own:
            node = self._next.setdefault((node, word), len(self._next) + 1)
        self._entries.setdefault(node, entry)

    def longest(self, of_text: Sequence[str], start: int) -> tuple[int, Entry | None]:
        """The longest entry at a place of a text, and the number of its words."""
        node, found = 0, (0, None)
        for place in range(start, len(of_text)):
            node = self._next.get((node, of_text[place]))
            if node is None:
                break
            if node in self._entries:
                found = place + 1 - start, self._entries[node]
        return found


def glossary_errors(entries: Sequence[Entry]) -> dict[int, str]:
    """What is wrong with entries: the index of an entry → why it cannot be used."""
    errors = {number: error for number, entry in enumerate(entries) for error in entry.errors()}
    before: dict[tuple, int] = {}
    for number, entry in enumerate(entries):
        if number in errors:
            continue
        is_exact = entry.is_exact(entry.source)
        key = is_exact, *(words(entry.source) if is_exact else _lowered(words(entry.source)))
        first = before.setdefault(key, number)
        if entries[first] != entry and set(entries[first].targets) != set(entry.targets):
            errors[number] = (
                f"{entry.source!r} has other target terms here than before; list all that may translate it together"
            )
    return errors


def _lowered(of_text: Sequence[str]) -> list[str]:
    return [word.lower() for word in of_text]


@lru_cache(maxsize=8)  # many terms are looked for in the same text
def _split(text: str, is_lowered: bool) -> tuple[list[str], dict[str, list[int]]]:
    """The words of a text, perhaps in lower case, and where each of them is."""
    of_text, places = words(text), {}
    of_text = _lowered(of_text) if is_lowered else of_text
    for place, word in enumerate(of_text):
        places.setdefault(word, []).append(place)
    return of_text, places

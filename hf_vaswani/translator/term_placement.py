"""Puts terms into translations where their source words are translated.

Which words of a translation a source word is responsible for shows when it is left out: their probability drops (Li et
al. 2019, "On the Word Alignment from Neural Machine Translation", section 4.2). Beam search with constraints, in
contrast, adds a term that the model does not expect to what the model would have said anyway.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ..text.glossary import Term
from ..text.words import word_spans
from .pairs import WordScores

# By how much the log-probability of a word drops, at least, without the source word that it translates.
TRANSLATED = 1.0
# The same for a word that says again what another one says.
AGAIN = 2.0
# A neighbor of the word that is replaced may belong to it if its probability drops by this share as much, and does if
# the translation is this much more probable without it.
SHARE, GAIN = 0.4, 1.0

Score = Callable[[Sequence[tuple[str, str]]], list[WordScores | None]]


@dataclass(frozen=True)
class Occurrence:
    """A source term in a text, and the target terms to choose from.

    Attributes:
        start, end: where it is.
        source: what it is called in messages.
    """

    start: int
    end: int
    source: str
    terms: tuple[Term, ...]


@dataclass
class Placement:
    """A translation with terms.

    Attributes:
        text: the translation.
        score: by the model; `None` if it cannot be scored.
        missing: occurrences whose source words are not translated, so that there is no place for them.
        repeated: other words that say the same as a term, with the term.
        cost: by how much the words around the terms have become less probable.
    """

    text: str
    score: WordScores | None = None
    missing: list[Occurrence] = field(default_factory=list)
    repeated: list[tuple[str, Occurrence]] = field(default_factory=list)
    cost: float = 0.0


@dataclass(frozen=True)
class _Slot:
    """Where a term goes: a range of words, and what else it could be."""

    occurrence: Occurrence
    first: int
    last: int  # included
    wider: tuple[int, int] | None


def place_terms(
    texts: Sequence[tuple[str, str, Sequence[Occurrence]]], score: Score
) -> list[Placement]:
    """Put terms into translations, in place of the words that translate their sources.

    Args:
        texts: source, translation, and the occurrences whose terms the translation lacks.
        score: scores pairs word by word.
    """
    pairs = [(source, translation) for source, translation, _ in texts]
    scored = score(pairs)
    without = [
        [(_without(source, occurrence), translation) for occurrence in occurrences]
        for source, translation, occurrences in texts
    ]
    rest = iter(score(list(chain.from_iterable(without))))
    slots, placements = [], []
    for (_, translation, occurrences), whole in zip(texts, scored):
        drops = [_drops(whole, next(rest)) for _ in occurrences]
        placement = Placement(translation, whole)
        slots.append(_find_slots(translation, occurrences, drops, placement))
        placements.append(placement)
    _fill(texts, slots, placements, score)
    return placements


def repeated_words(
    texts: Sequence[tuple[str, str, Sequence[Occurrence]]], score: Score
) -> list[list[tuple[str, Occurrence]]]:
    """Words of translations that say again what a term says; arguments as in [`place_terms`]."""
    scored = score([(source, translation) for source, translation, _ in texts])
    without = [(_without(source, each), target) for source, target, occurrences in texts for each in occurrences]
    rest, found = iter(score(without)), []
    for (_, translation, occurrences), whole in zip(texts, scored):
        own = []
        for occurrence in occurrences:
            drops = _drops(whole, next(rest))
            own += _repeated(translation, occurrence, drops, _term_words(translation, occurrence.terms))
        found.append(own)
    return found


def _without(source: str, occurrence: Occurrence) -> str:
    before, after = source[: occurrence.start], source[occurrence.end :]
    return before.rstrip() + after if after[:1].isspace() or not after.strip() else before + after.lstrip()


def _drops(whole: WordScores | None, without: WordScores | None) -> list[float]:
    """By how much each word becomes less probable without a source word; empty if that is not known."""
    return [] if whole is None or without is None else [a - b for a, b in zip(whole.words, without.words)]


def _term_words(text: str, terms: Sequence[Term]) -> set[int]:
    """Numbers of the words of a text that belong to one of some terms."""
    spans = word_spans(text)
    found = set()
    for term in terms:
        for start, end in term.places(text):
            found |= {number for number, (first, last) in enumerate(spans) if first < end and start < last}
    return found


def _find_slots(
    translation: str, occurrences: Sequence[Occurrence], drops: Sequence[list[float]], placement: Placement
) -> list[_Slot]:
    words = [translation[start:end] for start, end in word_spans(translation)]
    candidates = sorted(
        ((drop, number, word) for number, own in enumerate(drops) for word, drop in enumerate(own)),
        key=lambda one: -one[0],
    )
    slots: dict[int, _Slot | None] = {}
    taken: set[int] = set()
    for drop, number, word in candidates:
        if number in slots or word in taken or drop < TRANSLATED or not any(map(str.isalnum, words[word])):
            continue
        occurrence, own = occurrences[number], drops[number]
        has = _term_words(translation, occurrence.terms)
        if word in has:  # it is there already
            slots[number] = None
            taken |= has
            continue
        first = last = word
        while first > 0 and _belongs(own, words, first - 1, drop) and first - 1 not in taken:
            first -= 1
        while last + 1 < len(words) and _belongs(own, words, last + 1, drop) and last + 1 not in taken:
            last += 1
        wider = (first, last) if (first, last) != (word, word) else None
        slots[number] = _Slot(occurrence, word, word, wider)
        taken |= {word}
        placement.repeated += _repeated(translation, occurrence, own, set(range(first, last + 1)) | has)
    placement.missing = [each for number, each in enumerate(occurrences) if number not in slots]
    return [slot for slot in slots.values() if slot]


def _belongs(drops: Sequence[float], words: Sequence[str], word: int, drop: float) -> bool:
    return drops[word] >= max(SHARE * drop, TRANSLATED) and any(map(str.isalnum, words[word]))


def _repeated(
    text: str, occurrence: Occurrence, drops: Sequence[float], own: set[int]
) -> list[tuple[str, Occurrence]]:
    """Words other than its own that depend on a source word, but not the one before them, such as an article."""
    spans = word_spans(text)
    most = max((drops[word] for word in own if word < len(drops)), default=0.0)
    return [
        (text[slice(*spans[word])], occurrence)
        for word, drop in enumerate(drops)
        if word not in own and word + 1 not in own and drop > max(AGAIN, most / 2)
    ]


def _fill(
    texts: Sequence[tuple[str, str, Sequence[Occurrence]]],
    slots: Sequence[list[_Slot]],
    placements: Sequence[Placement],
    score: Score,
) -> None:
    """Set the text and the score of each placement: of several terms for a place, and of a word with or without its
    neighbors, what the model finds most probable."""
    variants: list[list[tuple[tuple[int, int, int], str]]] = []  # of each text: slot, term, whether wider; and text
    for (_, translation, _), own in zip(texts, slots):
        default = [(slot.first, slot.last, slot.occurrence.terms[0]) for slot in own]
        found = [((-1, 0, 0), _filled(translation, default))]
        for number, slot in enumerate(own):
            for term in range(len(slot.occurrence.terms[:4])):
                for wide in range(1 + (slot.wider is not None)):
                    if term or wide:
                        first, last = slot.wider if wide and slot.wider else (slot.first, slot.last)
                        changed = [*default]
                        changed[number] = first, last, slot.occurrence.terms[term]
                        found.append(((number, term, wide), _filled(translation, changed)))
        variants.append(found if own else [])
    scored = iter(score([(text[0], variant) for text, own in zip(texts, variants) for _, variant in own]))
    again = []
    for number, (own, placement) in enumerate(zip(variants, placements)):
        if not own:
            continue
        values = {key: next(scored) for key, _ in own}
        chosen = []
        for place, slot in enumerate(slots[number]):
            ranked = [((place, 0, 0), values[-1, 0, 0])] + [(key, one) for key, one in values.items() if key[0] == place]
            best = max(ranked, key=lambda one: one[1].pair.log_probability - GAIN * one[0][2] if one[1] else -1e9)[0]
            first, last = slot.wider if best[2] and slot.wider else (slot.first, slot.last)
            chosen.append((first, last, slot.occurrence.terms[best[1]]))
        text = _filled(texts[number][1], chosen)
        known = next((values[key] for key, variant in own if variant == text), None)
        before, placement.text = placement.score, text
        placement.score = known
        if known is None:
            again.append((number, before, chosen))
        placement.cost = _cost(texts[number][1], before, text, known, chosen)
    for (number, before, chosen), known in zip(again, score([(texts[n][0], placements[n].text) for n, *_ in again])):
        placements[number].score = known
        placements[number].cost = _cost(texts[number][1], before, placements[number].text, known, chosen)


def _cost(
    translation: str, before: WordScores | None, text: str, after: WordScores | None, chosen: Sequence[tuple[int, int, Term]]
) -> float:
    if before is None or after is None:
        return 0.0
    replaced = sum(sum(before.words[first : last + 1]) for first, last, _ in chosen)
    added = sum(after.words[word] for word in _term_words(text, [term for *_, term in chosen]))
    return (before.pair.log_probability - replaced) - (after.pair.log_probability - added)


def _filled(translation: str, chosen: Sequence[tuple[int, int, Term]]) -> str:
    """A translation with terms in place of ranges of its words."""
    spans = word_spans(translation)
    for first, last, term in sorted(chosen, key=lambda one: -one[0]):
        start, end = spans[first][0], spans[last][1]
        new = term.text
        begins = not any(map(str.isalnum, translation[:start])) or translation[:start].rstrip()[-1:] in ".!?…"
        if begins and translation[start].isupper() and not term.is_exact:
            new = new[:1].upper() + new[1:]
        translation = translation[:start] + new + translation[end:]
    return translation


__all__ = ["Occurrence", "Placement", "place_terms", "repeated_words"]

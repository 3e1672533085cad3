"""Puts terms into translations where their source words are translated.

Which words of a translation come from a source word shows when that is left out: their probability drops (Li et al.
2019, "On the Word Alignment from Neural Machine Translation", section 4.2). Beam search with constraints, in contrast,
adds a term that the model does not expect to what the model would have said anyway.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..text.glossary import Term, joins_words
from ..text.markers import KEEPS
from ..text.words import Span, word_spans, words_at
from .pairs import PairModel
from .segments import Occurrence, Placement, TermText, WordScores

# By how much the log-probability of a word drops, at least, without the source word that it translates: a word that
# could be guessed from the others drops less, so that attention decides. And of a word that says again what another
# one says.
TRANSLATED, GUESSED, AGAIN = 1.0, 0.04, 2.0
# A neighbor of the word to replace may belong to it if its log-probability drops by this share as much. It is replaced
# as well if that makes the translation more probable.
SHARE = 0.4
# The log-probability of a term that the model may choose itself. Synonyms that it never chooses have -8 to -30.
PROBABLE = -10.0
# Of several target terms, and of places for a term whose source word is not translated.
MOST_TERMS, PLACES = 4, 6

Edit = tuple[int, int, Term]  # first character that a term replaces, the one after the last, the term


def place_terms(texts: Sequence[TermText], model: PairModel) -> list[Placement]:
    """Put terms into translations, in place of the words that translate their sources.

    A term whose source is not translated is added where the model finds it most probable.

    Args:
        texts: each with the occurrences whose terms the translation lacks.
        model: scores and aligns pairs.
    """
    placements, (all_drops, choices) = [], _choices(texts, model)
    for text, drops, own_choices in zip(texts, all_drops, choices):
        repeated = chain.from_iterable(
            _repeated(text.translation, occurrence, own, [edit for edit in edits if edit[0] < edit[1]])
            for occurrence, own, edits in zip(text.occurrences, drops, own_choices)
        )
        placements.append(Placement(text.translation, repeated=list(repeated)))
    # In one pass: each translation with the first choice of each term, and with one other choice each.
    variants = [list(_variants(edits)) for edits in choices]
    scored = iter(model.score([
        (source, _edited(translation, edits))
        for (source, translation, *_), own in zip(texts, variants) for _, _, edits in own
    ]))  # fmt: skip
    combined = []
    for (_, translation, *_), own_drops, edits, own, placement in zip(texts, all_drops, choices, variants, placements):
        found = [(number, choice, next(scored)) for number, choice, _ in own]
        best = [_best(number, each, found) for number, each in enumerate(edits)]
        placement.text = _edited(translation, best)
        spans = word_spans(translation)
        replaced = {
            translation[slice(*spans[word])].lower()
            for (start, end, _), drops in zip(best, own_drops) for word in words_at(spans, (start, end))
            if drops[word] >= TRANSLATED
        }  # fmt: skip
        placement.replaced = {word: _lower_words(placement.text).count(word) for word in replaced}
        known = [one for (_, _, each), (*_, one) in zip(own, found) if each == best]
        combined.append((placement, best, known))
    rest = iter(
        model.score([(text[0], placement.text) for text, (placement, _, known) in zip(texts, combined) if not known])
    )
    for placement, best, known in combined:
        placement.score = known[0] if known else next(rest)
        if placement.score:
            words = word_spans(placement.text)
            places = [place for *_, term in best for place in term.places(placement.text)]
            values = [sum(placement.score.words[word] for word in words_at(words, place)) for place in places]
            placement.is_probable = max(values, default=PROBABLE) > PROBABLE
    return placements


def term_places(texts: Sequence[TermText], model: PairModel) -> list[list[Span | None]]:
    """Where each source term is translated: its words in the translation, or `None` if they are not found; arguments
    as in [`place_terms`]."""
    _, choices = _choices(texts, model)
    return [[(own[-1][0], own[-1][1]) if own[-1][0] < own[-1][1] else None for own in edits] for edits in choices]


def _choices(texts: Sequence[TermText], model: PairModel) -> tuple[list[list[list[float]]], list[list[list[Edit]]]]:
    """For each occurrence in each text, what [`_drops`] and [`_edits`] return."""
    all_drops = list(_drops(texts, model))
    unsure = [
        number for number, drops in enumerate(all_drops) if any(max(own, default=0) < TRANSLATED for own in drops)
    ]
    aligned = dict(zip(unsure, model.align([texts[number][:2] for number in unsure]) if unsure else ()))
    return all_drops, [
        _edits(text, drops, aligned.get(number) or set()) for number, (text, drops) in enumerate(zip(texts, all_drops))
    ]


def are_placed(texts: Sequence[TermText], model: PairModel) -> list[list[bool]]:
    """Whether translations have each term where its source words are translated, and no other words that say the same;
    arguments as in [`place_terms`], with the occurrences of all terms."""
    found = []
    aligned = model.align([text[:2] for text in texts]) if texts else []
    for (source, translation, occurrences, _), drops, links in zip(texts, _drops(texts, model), aligned):
        of_source, judged = word_spans(source), []
        for occurrence, own in zip(occurrences, drops):
            words, linked = _term_words(translation, occurrence), _linked(of_source, occurrence, links or ())
            is_there = bool(words & linked) or max((own[word] for word in words), default=0) >= TRANSLATED
            again = [word for word in linked - words if word + 1 not in words and own[word] > AGAIN]
            judged.append(is_there and not again)
        found.append(judged)
    return found


def _drops(texts: Sequence[TermText], model: PairModel) -> Iterator[list[list[float]]]:
    """For each occurrence, by how much each word of the translation is less probable without its source words.

    What the words have with all of the source is about what they have without another term, so that only texts with a
    single occurrence are scored as they are.
    """
    pairs = []
    for source, translation, occurrences, _ in texts:
        pairs += [(_without(source, occurrence), translation) for occurrence in occurrences]
        pairs += [(source, translation)] if len(occurrences) == 1 else []
    scores = iter(model.score(pairs))
    for _, translation, occurrences, _ in texts:
        found = [next(scores) for _ in range(max(len(occurrences), 2))] if occurrences else []
        values = [one.words if one else () for one in found]
        if not all(values):
            yield [[0.0] * len(word_spans(translation))] * len(occurrences)
            continue
        others = [
            [max(column) for column in zip(*values[:number], *values[number + 1 :])] for number in range(len(values))
        ]
        yield [
            [before - after for before, after in zip(other, own)]
            for other, own in zip(others[: len(occurrences)], values)
        ]


def _without(source: str, occurrence: Occurrence) -> str:
    before, after = source[: occurrence.start], source[occurrence.end :]
    return before.rstrip() + after if after[:1].isspace() or not after.strip() else before + after.lstrip()


def _lower_words(text: str) -> list[str]:
    return [text[start:end].lower() for start, end in word_spans(text)]


def _term_words(translation: str, occurrence: Occurrence) -> set[int]:
    """The words of a translation that are one of the terms of an occurrence."""
    spans = word_spans(translation)
    places = [place for term in occurrence.terms for place in term.places(translation)]
    return {word for place in places for word in words_at(spans, place)}


def _linked(of_source: Sequence[Span], occurrence: Occurrence, links: Iterable[tuple[int, int]]) -> set[int]:
    """The words of a translation that are aligned with the source words of an occurrence."""
    own = words_at(of_source, (occurrence.start, occurrence.end))
    return {target for word, target in links if word in own}


def _edits(text: TermText, drops: Sequence[list[float]], links: set[tuple[int, int]]) -> list[list[Edit]]:
    """For each occurrence, the edits to choose from, the likeliest first."""
    source, translation, occurrences, fixed = text
    spans, of_source = word_spans(translation), word_spans(source)
    is_word = [any(map(str.isalnum, translation[start:end])) for start, end in spans]
    for place in fixed:
        for word in words_at(spans, place):
            is_word[word] = False
    linked = [_linked(of_source, each, links) for each in occurrences]
    ranked = sorted(
        ((drop, number, word) for number, own in enumerate(drops) for word, drop in enumerate(own)),
        key=lambda one: -one[0],
    )
    found: dict[int, list[Edit]] = {}
    taken: set[int] = set()
    for drop, number, word in ranked:
        least = GUESSED if word in linked[number] else TRANSLATED
        if number in found or word in taken or not is_word[word] or drop < least:
            continue
        terms = occurrences[number].terms
        has = _term_words(translation, occurrences[number])
        if word in has:  # it is there already
            found[number] = [(*spans[word], Term(translation[slice(*spans[word])], True))]
            taken |= has
            continue

        least = max(SHARE * drop, TRANSLATED)
        belongs = [each not in taken and is_word[each] and value >= least for each, value in enumerate(drops[number])]
        first = last = word
        while first > 0 and belongs[first - 1]:
            first -= 1
        while last + 1 < len(belongs) and belongs[last + 1]:
            last += 1
        places = [spans[word]] + [(spans[first][0], spans[last][1])] * (first != last)
        found[number] = [(*place, term) for place in places for term in terms[:MOST_TERMS]]
        taken.add(word)
    for number, occurrence in enumerate(occurrences):
        if number not in found:
            found[number] = _insertions(translation, spans, occurrence, len(source), fixed)
    return [found[number] for number in range(len(occurrences))]


def _insertions(
    translation: str, spans: Sequence[Span], occurrence: Occurrence, length: int, fixed: Sequence[Span]
) -> list[Edit]:
    """Where a term may be added: at the end, and at the places that are in proportion nearest to its own."""
    starts = [start for start, end in spans if any(map(str.isalnum, translation[start:end]))][1:]
    starts = [start for start in starts if not any(first < start < last for first, last in fixed)]
    middle = round(occurrence.start / length * len(starts))
    end = max(len(translation.rstrip(" .!?…。")), *(last for _, last in fixed), 0)
    places = [*starts[max(middle - PLACES // 2, 0) :][: PLACES - 1], end]
    return [(place, place, term) for place in places for term in occurrence.terms[:MOST_TERMS]]


def _variants(choices: Sequence[list[Edit]]) -> Iterator[tuple[int, int, list[Edit]]]:
    """The first edit of each occurrence; then the same with another edit of one of them, with the numbers of both."""
    if not choices:
        return
    default = [own[0] for own in choices]
    yield -1, 0, default
    for number, own in enumerate(choices):
        for choice in range(1, len(own)):
            yield number, choice, [*default[:number], own[choice], *default[number + 1 :]]


def _best(number: int, choices: Sequence[Edit], found: Sequence[tuple[int, int, WordScores | None]]) -> Edit:
    """The edit of an occurrence with which the model finds the translation most probable."""
    own = [(number, choice, score) for other, choice, score in found if other in (-1, number)]
    return choices[max(own, key=lambda one: one[2].log_probability if one[2] else -math.inf)[1]]


def _repeated(
    text: str, occurrence: Occurrence, drops: Sequence[float], own: Sequence[Edit]
) -> list[tuple[str, Occurrence]]:
    """Other words like those that a term replaces, and from the same source word."""
    spans, lower = word_spans(text), _lower_words(text)
    words = {word for start, end, _ in own for word in words_at(spans, (start, end))}
    replaced = {lower[word] for word in words}
    return [
        (lower[word], occurrence)
        for word, drop in enumerate(drops)
        if word not in words and drop > GUESSED and lower[word] in replaced
    ]


def _edited(translation: str, edits: Sequence[Edit]) -> str:
    """A translation with terms in their places."""
    for start, end, term in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        before, after, new = translation[:start], translation[end:], term.text
        begins = not any(map(str.isalnum, before)) or before.rstrip()[-1:] in (".", "!", "?", "…")
        if begins and not term.is_exact and translation[start : start + 1].isupper():
            new = new[:1].upper() + new[1:]
        if start == end:  # between words, which have spaces between them in most scripts
            new = " " * _is_apart(before[-1:]) + new + " " * _is_apart(after[:1])
        translation = before + new + after
    return translation


def _is_apart(character: str) -> bool:
    """Whether a space goes between a term and what is next to it: part of a word, or a placeholder."""
    return joins_words(character) or (character != "" and character in KEEPS)


__all__ = ["are_placed", "place_terms", "term_places"]

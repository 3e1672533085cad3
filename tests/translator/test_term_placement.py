"""Where terms are put into translations, with a table in place of a model: which source words cause which words."""

import math
from types import SimpleNamespace

import pytest

from hf_vaswani.text.glossary import Glossary
from hf_vaswani.text.words import word_spans
from hf_vaswani.translator.segments import Occurrence, TermText, WordScores
from hf_vaswani.translator.term_placement import are_placed, place_terms

CAUSES = {
    "dog": "Hund", "man": "Mann", "runs": "läuft", "quickly": "schnell", "big": "großer", "mountain": "Bergrad",
    "bike": "Bergrad", "an": "Uhu", "owl": "Uhu",
}  # fmt: skip
KNOWN = {"the": -0.5, "a": -0.5, ".": -0.1}


def score(pairs):
    """A word has -1 if its cause is in the source, else -9; one that is not in the table has -15."""
    found = []
    for source, target in pairs:
        words = [target[slice(*span)].lower() for span in word_spans(target)]
        values = [
            KNOWN.get(word, (-1.0 if CAUSES[word] in source else -9.0) if word in CAUSES else -15.0) for word in words
        ]
        total = math.fsum(values)
        found.append(WordScores(total, len(values), tuple(values)))
    return found


def align(pairs):
    links = []
    for source, target in pairs:
        words = [[text[slice(*span)] for span in word_spans(text)] for text in (source, target)]
        causes = [CAUSES.get(word.lower()) for word in words[1]]
        links.append({(s, t) for t, cause in enumerate(causes) for s, own in enumerate(words[0]) if own == cause})
    return links


MODEL = SimpleNamespace(score=score, align=align)


def occurrences(source, terms):
    found = Glossary.of(terms).find(source)
    return [Occurrence(start, end, entry.source, entry.terms) for start, end, entry in found]


def placed(source, translation, terms):
    [placement] = place_terms([TermText(source, translation, occurrences(source, terms))], MODEL)
    return placement.text


@pytest.mark.parametrize(
    ("source", "translation", "terms", "expected"),
    [
        ("Der Hund läuft.", "The dog runs.", {"Hund": "hound"}, "The hound runs."),
        ("Hund läuft schnell.", "Dog runs quickly.", {"Hund": "hound"}, "Hound runs quickly."),
        ("Der Hund läuft.", "The dog runs.", {"Hund": "HOUND"}, "The HOUND runs."),
        ("Der Mann läuft schnell.", "The man runs quickly.", {"schnell": "fast", "Mann": "lad"}, "The lad runs fast."),
        ("Das Bergrad läuft.", "The mountain bike runs.", {"Bergrad": "MTB"}, "The MTB runs."),
        ("Ein großer Hund.", "A big dog.", {"großer Hund": "mastiff"}, "A mastiff."),
    ],
)
def test_a_term_takes_the_place_of_the_words_that_translate_its_source(source, translation, terms, expected):
    assert placed(source, translation, terms) == expected


def test_a_term_whose_source_is_not_translated_is_added():
    text = placed("Der Hund läuft schnell.", "The dog runs.", {"schnell": "fast"})
    assert sorted(text.lower().replace(".", "").split()) == ["dog", "fast", "runs", "the"]


def test_of_several_terms_the_most_probable_one_is_taken():
    assert "dog" in placed("Der Hund läuft.", "The man runs.", {"Hund": ["hound", "dog"]}).split()
    assert placed("Der Mann läuft.", "The man runs.", {"Mann": ["bloke", "big"]}) == "The big runs."


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("The hound runs.", False), ("The dog runs.", True), ("The hound dog runs.", True), ("The dog runs dog.", True)],
)
def test_a_term_counts_only_in_its_place_and_without_the_word_that_it_replaces(translation, expected):
    text = TermText("Der Hund läuft.", translation, occurrences("Der Hund läuft.", {"Hund": "dog"}))
    [[found]] = are_placed([text], MODEL)
    assert found == expected

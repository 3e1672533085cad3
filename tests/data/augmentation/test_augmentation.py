"""Noise, terms and placeholders in training pairs."""

import re
from collections import Counter

import numpy as np
import pytest

from hf_vaswani.data.augmentation.arguments import AugmentationArguments
from hf_vaswani.data.augmentation.augmenter import Augmenter, uppercase, with_typos, without_punctuation
from hf_vaswani.data.augmentation.word_alignment import WordAligner
from hf_vaswani.text.glossary import Entry, Glossary
from hf_vaswani.text.markers import END, KEEPS, RESERVED, TERM

GERMAN = {"dog": "Hund", "cat": "Katze", "house": "Haus", "tree": "Baum", "garden": "Garten", "river": "Fluss"}
VERBS = {"sees": "sieht", "likes": "mag", "leaves": "verlässt"}
PAIRS = [
    (f"The {one} {verb} a {other}.", f"{GERMAN[one]} {VERBS[verb]} {GERMAN[other]}.")
    for one in GERMAN
    for other in GERMAN
    for verb in VERBS
    if one != other
]
PLACED = re.compile(f" ?{TERM} (.*?){END}")


@pytest.fixture(scope="module")
def aligner() -> WordAligner:
    return WordAligner.learn(PAIRS)


def augmented(pairs, aligner=None, glossary=None, **shares):
    augment, generator = Augmenter(AugmentationArguments(**shares), aligner, glossary), np.random.default_rng(0)
    return [augment(*pair, generator) for pair in pairs]


def test_words_are_linked_with_their_translations(aligner):
    source, target = "A house likes the dog 4711.", "Haus mag Hund 4711."
    links = [(source[slice(*link.spans[0])], target[slice(*link.spans[1])]) for link in aligner(source, target)]
    # The last was never seen, but is the same on both sides.
    assert links == [("house", "Haus"), ("likes", "mag"), ("dog", "Hund"), ("4711", "4711")]


def test_word_that_becomes_two_words_has_no_link():
    pairs = [(f"firefighter {word}", f"brave hero {word}") for word in "abcdefgh"]
    assert [link.numbers for link in WordAligner.learn(pairs)(*pairs[0])] == [(1, 2)]


def test_placeholders_are_the_same_on_both_sides_and_in_the_order_of_the_source(aligner):
    pairs = augmented(PAIRS * 3, aligner, placeholders=1.0)
    for source, target in pairs:
        numbers = [KEEPS.index(mark) for mark in RESERVED.findall(source)]
        assert numbers and numbers == sorted(set(numbers))
        assert Counter(RESERVED.findall(target)) == Counter(RESERVED.findall(source))
    drawn = Counter(mark for source, _ in pairs for mark in RESERVED.findall(source))
    assert drawn.keys() == set(KEEPS) and max(drawn.values()) < 2 * min(drawn.values())


def test_placeholders_replace_words_that_belong_together(aligner):
    for (_, target), (source, masked) in zip(PAIRS, augmented(PAIRS, aligner, placeholders=1.0)):
        left = [english for english, german in GERMAN.items() if german in re.findall(r"\w+", masked)]
        assert all(english in source for english in left)
        assert len(re.findall(r"\w+|[^\w\s.]", masked)) >= len(re.findall(r"\w+", target))


def test_addresses_and_numbers_of_both_sides_become_placeholders():
    pair = "See https://a.de/x, 5 km away.", "Siehe https://a.de/x, 5 km entfernt."
    masked = [augmented([pair], WordAligner.learn([pair]), placeholders=1.0)[0] for _ in range(5)]
    assert all("a.de" not in side and "5 km" not in side for result in masked for side in result)


def test_terms_are_words_of_the_target_in_the_place_of_their_sources(aligner):
    for (source, target), (marked, same) in zip(PAIRS, augmented(PAIRS, aligner, terms=1.0)):
        terms = PLACED.findall(marked)
        assert terms and same == target and all(term in target for term in terms)
        kept = PLACED.sub("", marked).split()
        gone = [word for word in source.replace(".", " .").split() if word.strip(".") not in " ".join(kept)]
        known = GERMAN | VERBS
        assert " ".join(known[word] for word in gone if word in known) == " ".join(terms)


def test_term_at_the_start_of_a_sentence_often_has_no_capital_unless_it_always_has_one():
    pairs = [(f"{one} {other}", f"{one.capitalize()}x {other}x") for one in GERMAN for other in GERMAN]
    marked = augmented(pairs * 10, WordAligner.learn(pairs), terms=1.0)
    firsts = [source for source, _ in marked if source.startswith(TERM)]
    assert 0.3 < sum(term[2:3].islower() for term in firsts) / len(firsts) < 0.7
    always = [(f"{one} {other}", f"{one.capitalize()}x {other.capitalize()}x") for one in GERMAN for other in GERMAN]
    marked = augmented(always, WordAligner.learn(always), terms=1.0)
    assert all(term[0].isupper() for source, _ in marked for term in PLACED.findall(source))


def test_less_usual_translations_are_terms_more_often():
    usual, rare = ("the dog ran", "Hund rannte"), ("the dog ran", "Tier rannte")
    pairs = [*[usual] * 8, rare, rare, ("the cat sat", "Katze saß"), ("the cat ran", "Katze rannte")]
    aligner = WordAligner.learn(pairs)
    terms = [PLACED.findall(marked)[0] for marked, _ in augmented([rare] * 300, aligner, terms=1.0)]
    others = [PLACED.findall(marked)[0] for marked, _ in augmented([usual] * 300, aligner, terms=1.0)]
    assert terms.count("Tier") > others.count("Hund") > 50


def test_word_that_becomes_several_words_is_no_term():
    pairs = [(f"firefighters {word}", f"brave heroes {word}x") for word in GERMAN]
    marked = augmented(pairs * 5, WordAligner.learn(pairs), terms=1.0)
    assert not {"brave", "heroes"} & {term for source, _ in marked for term in PLACED.findall(source)}


def test_terms_of_a_glossary_come_first(aligner):
    glossary = Glossary([Entry("dog", ("Hund",)), Entry("cat", ("Kater",))])
    marked = augmented([PAIRS[0], ("The river sees the tree.", "Fluss sieht Baum.")], aligner, glossary, terms=1.0)
    # The pair has no "Kater"; the second pair has neither term.
    assert marked[0][0] == PAIRS[0][0].replace(" dog", f"{TERM} Hund{END}")
    assert PLACED.findall(marked[1][0])


def test_noise_changes_only_the_source_and_none_of_its_terms(aligner):
    for (_, target), (source, same) in zip(
        PAIRS, augmented(PAIRS, aligner, terms=1.0, uppercase=1.0, no_punctuation=1.0)
    ):
        assert same == target and "." not in source
        rest = PLACED.sub("", source)
        assert rest == rest.upper()
        assert all(term in target for term in PLACED.findall(source))


def test_share_is_that_of_the_pairs():
    changed = sum(source.isupper() for source, _ in augmented(PAIRS * 10, uppercase=0.2))
    assert 0.15 < changed / len(PAIRS * 10) < 0.25


def test_punctuation_within_words_and_numbers_stays():
    assert without_punctuation("“Don't,” he said – for 3.5 km (well-known)!") == "Don't he said for 3.5 km well-known"


def test_source_of_punctuation_alone_is_left():
    assert augmented([("?!", "?!")], no_punctuation=1.0) == [("?!", "?!")]


def test_capitals_are_those_of_unicode():
    assert uppercase("straße") == "STRASSE"


def test_typing_errors_are_one_a_word_in_some_words():
    text = " ".join(["garden"] * 1000)
    words = with_typos(text, np.random.default_rng(0)).split(" ")
    wrong = [word for word in words if word != "garden"]
    assert 100 < len(wrong) < 200
    assert {len(word) for word in wrong} == {5, 6, 7}


def test_reserved_code_points_of_a_text_are_not_markers(aligner):
    [(source, target)] = augmented([(f"a {KEEPS[3]}", f"b {TERM}")])
    assert (source, target) == ("a \ufffd", "b \ufffd")

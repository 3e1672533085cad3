"""Passages in the other side's language are found within sentences."""

import pytest

from hf_vaswani.cleaning.mixture import passage_finder
from hf_vaswani.cleaning.side_languages import SideLanguages
from hf_vaswani.data.sources.text_source import TextSource, iterate_pairs


@pytest.fixture(scope="module")
def pairs():
    return list(iterate_pairs(TextSource(dataset="built-in", split="train"), ("de", "en")))[:2000]


@pytest.fixture(scope="module")
def find(pairs):
    return passage_finder(SideLanguages.learn(pairs))


def test_sentences_in_their_own_language_have_none(pairs, find):
    assert sum(bool(find(pair)[0]) for pair in pairs) <= 0.005 * len(pairs)


def test_the_passage_and_the_share_of_words_are_found_on_each_side(find):
    german, english = (
        "Das Mädchen hat gestern 25 schöne Äpfel gekauft.",
        "The girl bought 25 beautiful apples yesterday.",
    )
    mixed = "The girl hat gestern 25 schöne Äpfel gekauft, yesterday."
    assert find((german, english)) == ("", 0.0)
    assert find((german, mixed)) == ("target: hat gestern schöne Äpfel gekauft,", 5 / 9)
    assert find((german[:12] + english, english))[0].startswith("source: ")


def test_two_words_may_be_a_name(find):
    assert find(("Das ist sie.", "I met Bürgermeisterin Schröder yesterday."))[0] == ""
    assert find(("Das ist sie.", "I met die Bürgermeisterin Schröder yesterday."))[0] != ""

"""Which terms stand in a text, and how often: by whole words, the longest first, with their case rules."""

import pytest

from hf_vaswani.text.glossary import Entry, Glossary


def found(terms, source):
    glossary = terms if isinstance(terms, Glossary) else Glossary.of(terms)
    return {demand.source: demand.count for demand in glossary.demands(source)}


@pytest.mark.parametrize(
    "text, terms",
    [
        ("Der Hund, ein Hund.", {"Hund": 2}),
        ("Hunde und Schäferhund", {}),
        ("Ein großer Hund", {"großer Hund": 1}),
        ("Der hund", {}),  # with a capital, the case matters
        ("AUTO, Auto, auto", {"auto": 3}),
        ("(Hund)", {"Hund": 1}),
    ],
)
def test_terms_of_a_source(text, terms):
    assert found({"Hund": "hound", "großer Hund": "big hound", "auto": "car"}, text) == terms


def test_characters_are_words_in_scripts_without_spaces():
    assert found({"小狗": "puppy", "狗": "dog"}, "小狗和狗在跑") == {"小狗": 1, "狗": 1}


def test_marks_belong_to_the_letters_before_them():
    assert found({"किताब": "book"}, "किताबें") == {}


@pytest.mark.parametrize(
    "case, text, count", [("exact", "auto AUTO", 1), ("ignore", "auto AUTO", 2), (None, "auto Auto", 2)]
)
def test_case_rules(case, text, count):
    assert found(Glossary([Entry("auto", ("car",), case)]), text) == {"auto": count}


@pytest.mark.parametrize(
    "translation, count",
    [
        ("A hound.", 1),
        ("Hounds", 0),
        ("A bloodhound", 0),
        ("Hound and hound and hound", 2),
        ("A hound and a big dog", 2),
        ("a big Dog", 1),
    ],
)
def test_terms_of_a_translation(translation, count):
    [demand] = Glossary.of({"Hund": ["hound", "big dog"]}).demands("Hund und Hund")
    assert demand.count_in(translation) == count


def test_sources_with_the_same_terms_need_one_each():
    [demand] = Glossary.of({"Hund": "dog", "Köter": "dog"}).demands("Hund und Köter")
    assert demand.count == 2


@pytest.mark.parametrize(
    "terms, error",
    [
        ({"Hund": ""}, "a target term of 'Hund' is empty"),
        ({"Hund": []}, "a target term of 'Hund' is empty"),
        ({" ": "dog"}, "the source term is empty"),
        ({"Hund": 3}, "terms must be a dict of texts"),
        ([("Hund", "dog")], "terms must be a dict"),
        ({"hund": "dog", "HUND ": "hound", "hund ": "hound"}, "other target terms"),
    ],
)
def test_invalid_terms(terms, error):
    with pytest.raises(ValueError, match=error):
        Glossary.of(terms)

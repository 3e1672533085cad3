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
        ({"Hund": "dog " * 300}, r"^terms: the term '(dog ){15}'… has 1,200 characters, more than 1,024\.$"),
        ({"Hund": ["dog", "犬" * 1025]}, "the term '犬+'… has 1,025 characters, more than 1,024"),
        ({"a" * 2000: "dog"}, "the term 'a{60}'… has 2,000 characters, more than 1,024"),
        ({"Hund": [f"dog{number}" for number in range(101)]}, "'Hund' has 101 target terms, more than 100"),
    ],
)
def test_invalid_terms(terms, error):
    with pytest.raises(ValueError, match=error):
        Glossary.of(terms)


def test_terms_of_the_longest_length_can_be_used():
    glossary = Glossary.of({"h" * 1024: "犬" * 1024, "Hund": [f"dog{number}" for number in range(100)]})
    assert [demand.count for demand in glossary.demands(f"Hund {'h' * 1024}")] == [1, 1]


def test_of_many_errors_the_first_are_shown():
    with pytest.raises(ValueError, match="'4' is empty. 95 more terms have errors.$"):
        Glossary.of({str(number): "" for number in range(100)})


def test_longest_of_overlapping_terms_counts_at_each_place():
    glossary = Glossary.of({"a": "1", "a a a": "3", "a a a a b": "5", "A a": "2"})
    found = lambda text: [entry.targets[0] for _, _, entry in glossary.find(text)]  # noqa: E731
    assert found("a a a a a") == ["3", "1", "1"]
    assert found("a a a a b a") == ["5", "1"]
    assert found("A a b A a A a b") == ["2", "5"]


def test_many_terms_are_found_in_one_pass(monkeypatch):
    """Each place is looked at once for each word of a term there, whatever the number of terms."""
    glossary = Glossary.of({f"a b{number}": str(number) for number in range(3000)} | {"a " * 500 + "c": "x"})
    looked_up = []

    class Counting(dict):
        def get(self, *key):
            looked_up.append(key)
            return super().get(*key)

    monkeypatch.setattr(glossary._lowered, "_next", Counting(glossary._lowered._next))
    assert len(glossary.demands(" ".join(f"a b{number}" for number in range(3000)))) == 3000
    assert len(looked_up) <= 4 * 3000


@pytest.mark.parametrize(
    ("terms", "hint"),
    [
        ({"Katze": "cat"}, ""),
        ({"dog": "Hund"}, " The target terms do: are the columns swapped?"),
        ({"Hnud": "dog"}, " Did you mean 'Hund' by 'Hnud'?"),
    ],
)
def test_a_glossary_of_which_nothing_occurs_is_reported(terms, hint):
    texts = ["Der Hund", "läuft."]
    expected = f"no source term of the glossary occurs in a.de.{hint}"
    assert Glossary.of(terms).unused_warning(texts, "a.de") == expected
    assert Glossary.of({**terms, "Hund": "dog"}).unused_warning(texts, "a.de") is None


def test_all_words_of_a_term_are_linked_with_its_source():
    glossary = Glossary.of({"Lehrer": "head of the class"})
    source, translation = "Mein Lehrer wohnt hier.", "My head of the class lives here."
    links = {(0, 0), (1, 1), (2, 2), (1, 3), (0, 4), (2, 5), (3, 6)}
    [found] = glossary.link_terms([source], [translation], [links])
    assert found == {(0, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (3, 6)}
    assert glossary.link_terms(["x"], ["y"], [None]) == [None]

"""Terms by their words in a third language, and links of words over it."""

from hf_vaswani.text.glossary import Entry
from hf_vaswani.text.pivots import PivotSentence, PivotTerms, compose_links, joined_pivot, joined_warnings

TEXT = "The dog sees the dog and a Dog."


def found(terms, text=TEXT):
    return [(start, end, entry.targets) for start, end, entry in terms.find(text)]


def test_of_equal_words_only_those_that_stand_for_a_term_count():
    terms = PivotTerms.of_places(TEXT, [((17, 20), Entry("Hund", ("perro",)))])
    assert found(terms) == [(17, 20, ("perro",))]
    assert [demand.count for demand in terms.demands(TEXT)] == [1]
    assert found(terms, "The cat.") == []


def test_equal_words_that_stand_for_several_terms_have_the_targets_of_all():
    terms = PivotTerms.of_places(TEXT, [((4, 7), Entry("Rüde", ("macho",))), ((17, 20), Entry("Hund", ("perro",)))])
    assert found(terms) == [(4, 7, ("macho", "perro")), (17, 20, ("macho", "perro"))]


def test_words_with_capitals_are_terms_of_their_own_unless_their_case_is_ignored():
    terms = PivotTerms.of_places(TEXT, [((27, 30), Entry("Hund", ("perro",)))])
    assert found(terms) == [(27, 30, ("perro",))]
    ignoring = PivotTerms.of_places(TEXT, [((27, 30), Entry("Hund", ("perro",), "ignore"))])
    assert found(ignoring) == [(27, 30, ("perro",))]


def test_links_are_composed_by_the_words_between():
    links = {(0, 0), (1, 2)}, {(0, 1), (2, 0), (2, 2), (1, 3)}
    assert compose_links("a b", "x y z", "p q r s", *links) == {(0, 1), (1, 0), (1, 2)}
    assert compose_links("a b", "x y", "x y", {(0, 1)}, None) == {(0, 1)}
    assert compose_links("x y", "x y", "p q", None, {(0, 1)}) == {(0, 1)}
    assert compose_links("a b", "x y", "p q", {(0, 1)}, None) is None


def test_text_in_the_third_language_has_the_line_breaks_of_the_source():
    assert joined_pivot([PivotSentence("One.", "  "), PivotSentence("Two.", "\n\n"), PivotSentence("Three.")]) == (
        "One.  Two.\n\nThree."
    )


def test_warnings_of_both_steps_say_what_they_are_about():
    assert joined_warnings(None, None) is None
    assert joined_warnings("repeats itself", None) == "pivot text: repeats itself"
    assert joined_warnings("the source is long", "the source looks odd; is empty") == (
        "the source is long; the pivot text looks odd; is empty"
    )

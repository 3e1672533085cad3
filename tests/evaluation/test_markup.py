"""Markup of translations against that of the references."""

import pytest
from sacrebleu.metrics import BLEU

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.markup import check_structures, read_structure, score_markup, without_markup

REFERENCES = [
    "Wähle <b>Neu</b> aus, dann geht es weiter.",
    "Ohne Tags steht hier ein Satz.",
    "<a>x <i>y</i></a> und z",
]


@pytest.mark.parametrize("line, tags, texts", [
    ("a &amp; b", (), ("a & b",)),
    ("a <b x='1'>c<i/></b>", ("b", "i", "i/", "b/"), ("a ", "c", "", "", "")),
    ("a&nbsp;b<!-- <c> -->", (), ("a\xa0b",)),
])  # fmt: skip
def test_structure_has_the_tags_and_the_texts_between_them(line, tags, texts):
    structure = read_structure(line)
    assert (structure.tags, structure.texts) == (tags, texts)


@pytest.mark.parametrize("line", ["a <b>c", "a & b", "a</b>", "<b><i></b></i>", "</line><line>"])
def test_line_that_is_not_well_formed_has_no_structure(line):
    assert read_structure(line) is None
    with pytest.raises(InputError, match="in line 2. Correct"):
        check_structures("file", ["a", line])


def test_lines_that_are_valid_and_have_the_tree_of_the_reference_are_counted():
    translations = ["Wähle <b>alles</b> aus, dann geht es weiter.", "Ohne <b>Tags</b>.", "<a>x <i>y</a></i> und z"]
    score = score_markup(translations, [REFERENCES], None)
    assert (score.lines, score.valid, score.same_tree) == (3, 2, 1)
    assert (score.tagged, score.tagged_valid, score.tagged_same_tree) == (2, 1, 1)
    texts = ["Wähle ", "alles", " aus, dann geht es weiter.", "", "", "", ""]
    wanted = ["Wähle ", "Neu", " aus, dann geht es weiter.", REFERENCES[1], "x ", "y", " und z"]
    assert score.xml_bleu == BLEU().corpus_score(texts, [wanted]).score > 0


def test_any_of_several_references_may_have_the_tree():
    score = score_markup(["<b>a</b>"], [["a"], ["<b>a</b>"]], None)
    assert score.same_tree == 1


def test_text_has_no_tags_or_entities_even_where_it_is_broken():
    assert list(map(without_markup, ["a <b>c</b>&lt;", "a <b> c &amp; d"])) == ["a c<", "a c & d"]

"""Tokenized text is found and put back; text that was not tokenized stays."""

import pytest

from hf_vaswani.cleaning.tokenized import Spacing, detokenized

pytest.importorskip("sacremoses")


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("¿ Acaso eres tú , Jacob , mayor ?", "es", "¿Acaso eres tú, Jacob, mayor?"),
        ("L' homme « est » là , non ?", "fr-FR", "L'homme « est » là, non ?"),
        ('I don \'t know , " he said " .', "en", 'I don\'t know, "he said".'),
        ("'Lige anele , 'emi .", "tar", "'Lige anele, 'emi."),
        ("It is 3.5 m , no more .", "en", "It is 3.5 m, no more."),
        ("Un “ gato ” , dijo “ Ana . ” No quiero ” .", "es", "Un “gato”, dijo “Ana.” No quiero”."),
        ("كيف حالك ؟ نعم ، شكرا .", "ar", "كيف حالك؟ نعم، شكرا."),
    ],
)
def test_marks_join_the_words_before_them(text, language, expected):
    assert detokenized(text, language, Spacing()) == expected


def test_a_line_without_commas_and_periods_is_like_the_others():
    assert Spacing.of(["un gato , un perro .", "sí ."]) == Spacing(is_tokenized=True)
    assert detokenized("¡ ya ardió !", "es", Spacing(is_tokenized=True)) == "¡ya ardió!"
    assert detokenized("¡ ya ardió !", "es", Spacing()) == "¡ ya ardió !"


@pytest.mark.parametrize(
    "text",
    ["Das ist, was er sagte: ja!", "Oui ? Non !", "Und dann ...", "Ein Satz, noch einer .", "  zwei  Leerzeichen"],
)
def test_text_that_was_not_tokenized_stays(text):
    assert detokenized(text, "fr", Spacing()) == text


def test_words_that_are_cut_at_their_apostrophes_are_joined():
    texts = [f"Jach 'a pankan {number} qilqt ' am, sasa." for number in range(20)]
    spacing = Spacing.of(texts)
    assert spacing == Spacing(splits_apostrophes=True)
    assert detokenized(texts[3], "ay", spacing) == "Jach'a pankan 3 qilqt'am, sasa."


def test_words_after_an_apostrophe_with_spaces_around_it_are_not_joined_where_others_have_one_before():
    spacing = Spacing.of([*["the dog 's bowl ."] * 90, *["the dogs ' bowls ."] * 10])
    assert detokenized("the dogs ' bowls and the dog 's .", "en", spacing) == "the dogs' bowls and the dog's."


@pytest.mark.parametrize(
    "text",
    [
        "He said 'yes' and 'no'.",
        "mi mɛ'tsa 'nará t'ʉ rá thuhu",
        "dijo: 'hola amigo'. y 'no'",
        "the dogs' bowls",
    ],
)
def test_quotation_marks_and_letters_at_the_beginning_of_words_are_not_joined(text):
    spacing = Spacing.of([text] * 50)
    assert detokenized(text, "xx", spacing) == text

"""Words of scripts that are written without spaces: one table for glossaries, tags, and utilities."""

import pytest

from hf_vaswani.text.glossary import words
from hf_vaswani.text.words import word_spans
from hf_vaswani.translator.mbr import sentence_bleu


@pytest.mark.parametrize("text", ["สวน", "ສວນ", "བོད", "ပန်", "សួន", "花园", "ニワ", "ﾆﾜ", "𠀋𠀌"])
def test_each_character_is_a_word_wherever_words_are_counted(text):
    assert words(text) == list(text)
    assert [text[start:end] for start, end in word_spans(text)] == list(text)
    assert sentence_bleu([text], [text + text[-1]])[0, 0] > 0  # as single words, they have nothing in common


@pytest.mark.parametrize("text", ["garden", "сад", "한국어", "γάτα"])
def test_letters_of_other_scripts_form_one_word(text):
    assert words(text) == [text] and word_spans(text) == [(0, len(text))]

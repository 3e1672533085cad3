"""Links between words: tokens are found in the text, whatever markers the tokenizer adds."""

import pytest

from hf_vaswani.app.views import link_words
from hf_vaswani.text.token_spans import token_spans
from hf_vaswani.text.words import word_spans

TEXT = "Die Haustür ist offen."
WORDS = ["Die", "Haustür", "ist", "offen", "."]


@pytest.mark.parametrize(
    "tokens",
    [
        ["▁Die", "▁Haus", "tür", "▁ist", "▁offen", "."],
        ["die", "haus", "##tür", "ist", "offen", "."],
        ["Die", "Haus@@", "tür", "ist", "offen", "."],
        ["Die</w>", "Haus", "tür</w>", "ist</w>", "offen", ".</w>"],
        ["Die▁", "Haus", "tür▁", "ist▁", "offen", "."],
    ],
)
def test_tokens_of_all_kinds_are_found_in_their_text(tokens):
    assert [TEXT[slice(*span)] for span in token_spans(tokens, TEXT)] == ["Die", "Haus", "tür", "ist", "offen", "."]


def test_token_missing_from_the_text_is_skipped_without_affecting_others():
    assert token_spans(["▁a", "<unk>", "▁b", "x", "▁a"], "a ? b a") == [(0, 1), None, (4, 5), None, (6, 7)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT, WORDS),
        ("it's 12.5 %", ["it's", "12", ".", "5", "%"]),
        ("أنا هنا.", ["أنا", "هنا", "."]),
        ("你好 hier。", ["你", "好", "hier", "。"]),
        ("", []),
    ],
)
def test_words_of_all_scripts_are_separated(text, words):
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_token_links_become_word_links(tokenizer):
    hypothesis = {
        "translation_text": "The front door is open.",
        "source_tokens": ["▁Die", "▁Haus", "tür", "▁ist", "▁offen", "."],
        "target_tokens": ["▁The", "▁front", "▁door", "▁is", "▁op", "en", "."],
        "alignment": [(0, 0), (1, 1), (1, 2), (2, 2), (3, 3), (4, 4), (4, 5), (5, 6)],
    }
    linked = link_words(tokenizer, TEXT, hypothesis)
    of = [linked.source[slice(*span)] for span in linked.source_words]
    to = [linked.target[slice(*span)] for span in linked.target_words]
    assert [(of[s], to[t]) for s, t in linked.links] == [
        ("Die", "The"), ("Haustür", "front"), ("Haustür", "door"), ("ist", "is"), ("offen", "open"), (".", "."),
    ]  # fmt: skip


def test_without_an_alignment_nothing_is_linked(tokenizer):
    assert link_words(tokenizer, "w1", {"translation_text": "w2"}).links == []

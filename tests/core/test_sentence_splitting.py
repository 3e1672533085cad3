"""Splitting of long texts; here each character is a token, so that lengths can be counted by eye."""

import time

import pytest

from hf_vaswani.core.sentence_splitting import (
    SENTENCES,
    Piece,
    join_texts,
    split_like_training_text,
    split_sentences,
    split_text,
)


def texts(text, limit, **options):
    return [piece.text for piece in split_text(text, lambda part: len(part) <= limit, **options)]


def test_text_that_fits_stays_whole():
    assert texts("One. Two! Three?", 16) == ["One. Two! Three?"]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One. Two! Three?", 10, ["One. Two!", "Three?"]),
        (
            'He said "No." Then he left… "Why?" Nobody knows.',
            20,
            ['He said "No."', 'Then he left… "Why?"', "Nobody knows."],
        ),
        ("3.5 and 4.5 are numbers. Yes.", 25, ["3.5 and 4.5 are numbers.", "Yes."]),
        ("一二三。四五六！七八九？", 8, ["一二三。四五六！", "七八九？"]),
        ("ما اسمك؟ اسمي سمير۔ نعم.", 11, ["ما اسمك؟", "اسمي سمير۔", "نعم."]),
        ("यह एक है। यह दो है॥ हाँ।", 10, ["यह एक है।", "यह दो है॥", "हाँ।"]),
        ("one two, three four; five", 12, ["one two,", "three four;", "five"]),
        ("one two three", 8, ["one two", "three"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_text_is_split_at_sentences_then_clauses_then_spaces_then_characters(text, limit, expected):
    assert texts(text, limit) == expected


@pytest.mark.parametrize(
    "sentences",
    [
        ["Das ist z. B. Peter. ", "Dr. Müller kommt am 3. Oktober um 3.5 Uhr. ", "Er kommt."],
        [
            "E.g. this. ",
            "Mr. Smith et al. said so. ",
            "J. R. R. Tolkien wrote it. ",
            "The U.S. Army came at 5 p.m. ",
            "Oh.",
        ],
        ["No. ", "I mean No. 5 there. ", "It is 2:30. ", "In 1990. ", "Louis XIV. Dann."],
        ["Ich kam... und ging. ", "Dann… ", "Nichts."],
        ["Er sagte: „Komm!“ ", "Dann ging er. ", "„Ja!“, rief sie. ", "(Das ist so.) ", "Nein."],
        ["« Viens ! » dit-il. ", "« Non. » ", "Il part."],
        ["¿Qué? ", "¡No! ", "Sí."],
        ["Was?! ... ", "Nein."],
        ["Das ist mein Arzt.", "Kommst du?", "Ja!", "Gut."],
        ["See www.Example.com and node.js. ", "Go to a/b.Html now."],
        ["「行く。」と彼は言った。", "「はい。」", "今日は３．５です。"],
        ["यह एक है।", "यह दो है॥ ", "हाँ।"],
        ["ما اسمك؟ ", "اسمي سمير۔ ", "نعم."],
        ["Привет. ", "А. С. Пушкин."],
        ["i call peter. ", "that is my doctor."],
        ["Ja.\u200f ", "Nein.\u200b\u00a0", "Dr.\u00ad Müller kam.\u2800", "Gut."],
        ["他来了。", "“你好。”", "她问：“好吗？”，然后走了。"],
        ["*Er wurde geb. 1950.* ", "Dann ging er."],
        ["Er kam.[1] ", "Dann ging er.[2][13] ", "Gut.¹ ", "Toll! 😀 ", "Ja.❤️👨‍👩‍👧 ", "Nein 😀. ", "Gut."],
        [
            "1. He lives in Washington, D.C. ",
            "He likes it. ",
            "Er wurde 18. ",
            "Sie nicht. ",
            "Am 18. Mai. ",
            "2. Sie",
        ],
        ["no marks at all"],
        ["3. Mai"],
    ],
)
def test_sentences_end_at_marks_but_not_at_abbreviations_initials_and_numbers(sentences):
    assert split_sentences("".join(sentences)) == sentences


def test_time_grows_with_the_length_of_a_line():
    def seconds(text: str) -> float:
        started = time.perf_counter()
        split_sentences(text)
        return time.perf_counter() - started

    for unit in ("Das ist mein Arzt. ", "a.b.", '! "', "www.", " »", "x"):
        assert seconds(unit * 40_000) < 20 * seconds(unit * 4_000) + 0.5, unit


def test_only_a_sentence_that_is_too_long_is_split_further():
    assert texts("A bc. One two three, four five six seven. C de.", 20) == [
        "A bc.",
        "One two three,",
        "four five six seven.",
        "C de.",
    ]


def test_without_packing_each_sentence_is_a_piece():
    assert texts("One. Two! Three four?", 6, packs=False) == ["One.", "Two!", "Three", "four?"]


@pytest.mark.parametrize("text", ["a b. " * 500, "x" * 3000, "一二。" * 700, "a, b; " * 300 + "\n" + "y" * 50])
def test_nothing_is_lost_and_everything_fits(text):
    pieces = texts(text, 37)
    assert max(map(len, pieces)) <= 37
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_number_of_calls_to_the_tokenizer_is_bounded():
    asked = []
    split_text("x" * 100_000, lambda part: asked.append(part) or len(part) <= 500)
    assert len(asked) < 200 * 25


def test_line_breaks_stay_where_they_are():
    text = "one\n\n two \r\nthree\u2028four\n"
    pieces = split_text(text, lambda part: True)
    assert pieces == [
        Piece("one", "\n\n "),
        Piece("two", " \r\n"),
        Piece("three", "\u2028"),
        Piece("four", "\n"),
    ]
    assert join_texts([piece.text.upper() for piece in pieces], pieces) == text.upper()


def test_spaces_between_pieces_are_those_of_the_text():
    text = "  One.  Two.Three.\t\n\tFour.　Five. "
    pieces = split_text(text, lambda part: True, packs=False)
    assert [piece.text for piece in pieces if piece.text] == ["One.", "Two.", "Three.", "Four.", "Five."]
    assert "".join(text + space for text, space in pieces) == text
    joined = join_texts([piece.text.upper() for piece in pieces], pieces)
    assert joined == "  ONE.  TWO. THREE.\t\n\tFOUR. FIVE."


def test_sentences_stay_whole_if_they_must():
    text = "A long one. Two three. Four."
    assert texts(text, 8, packs=False, last_level=SENTENCES) == ["A long one.", "Two three.", "Four."]
    assert texts(text, 22, last_level=SENTENCES) == ["A long one. Two three.", "Four."]
    assert texts(text, 3, last_level=SENTENCES) == ["A long one.", "Two three.", "Four."]


def test_pieces_of_a_line_are_joined_by_spaces_except_in_chinese_and_japanese():
    pieces = [Piece("a"), Piece("b"), Piece("c")]
    assert join_texts(["One.", "", "Two."], pieces) == "One. Two."
    assert join_texts(["一二。", "三四。", "おわり"], pieces) == "一二。三四。おわり"


@pytest.mark.parametrize(
    ("longest", "share", "expected"),
    [
        (None, None, ["One two.", "Three.", "Four."]),
        (9, 0.05, ["One two.", "Three.", "Four."]),
        (9, 0.5, ["One two. Three.\nFour."]),  # short enough to be left whole, with its line break
        (3, 0.5, ["One two. Three.", "Four."]),
    ],
)
def test_text_is_split_like_the_training_text(longest, share, expected):
    pieces = split_like_training_text(" One two. Three.\nFour. ", longest, share, lambda part: len(part.split()))
    assert [piece.text for piece in pieces] == expected

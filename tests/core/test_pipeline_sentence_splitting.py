"""Splitting of long texts; here each character is a token, so that lengths can be counted by eye."""

import pytest

from hf_vaswani.core.pipeline_sentence_splitting import Piece, join_texts, split_text


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


def test_pieces_of_a_line_are_joined_by_spaces_except_in_chinese_and_japanese():
    pieces = [Piece("a"), Piece("b"), Piece("c")]
    assert join_texts(["One.", "", "Two."], pieces) == "One. Two."
    assert join_texts(["一二。", "三四。", "おわり"], pieces) == "一二。三四。おわり"

"""Translations that may be wrong: far shorter or longer than usual, or repeating themselves."""

import pytest
from transformers import pipeline

from hf_vaswani.text.source_warnings import translation_warning

from ..conftest import tiny_model


@pytest.mark.parametrize(
    ("source", "translation", "ratio", "expected"),
    [
        ("Das ist mein Arzt.", "That is my doctor.", 0.9, None),
        ("Das ist mein Arzt. " * 8, "That is my doctor.", 0.9, "far shorter than usual"),
        ("x" * 100, "y" * 36, 1.0, None),  # 36 * 2.5 + 10 = 100
        ("x" * 100, "y" * 35, 1.0, "far shorter than usual"),
        ("x" * 100, "abcdefghijklm" * 20, 1.0, "far longer than usual"),  # 260 characters = 100 * 2.5 + 10
        ("Ja.", "Yes, of course", 0.9, None),
        ("x" * 100, "y" * 15, None, None),  # 15 * 6 + 10 = 100
        ("x" * 100, "y" * 14, None, "far shorter than usual"),
        ("语" * 30, "".join(map(str, range(50))), None, None),  # three bytes each
        ("Ein Mann in einem blauen Hemd.", "A man in a man in a man in a man in a man in.", 0.9, "repeats itself"),
        ("ha ha ha ha ha ha ha ha ha", "ha ha ha ha ha ha ha ha ha", 1.0, None),
        ("nein, nein, nein, nein, nein", "no, no, no, no, no, no, no", 1.0, None),
        ("", "", 0.9, None),
    ],
)
def test_sizes_and_repetitions_are_compared_with_the_source(source, translation, ratio, expected):
    if expected == "far longer than usual":
        assert translation_warning(source, translation[:260], ratio) in (None, "repeats itself")
        translation += "n"
    assert translation_warning(source, translation, ratio) == expected


@pytest.fixture
def translator(tokenizer):
    # A random model writes the same words again and again, up to the length limit.
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer, suppress_tokens=[0, 1, 2, 3])


def test_one_line_counts_the_translations_and_names_the_first(translator, caplog):
    texts = ["", "w1 w2", "w3 w4. w5"]
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        results = translator(texts, max_new_tokens=60)
    [record] = [record for record in caplog.records if "may be wrong" in record.message]
    assert record.message == (
        "2 of 3 translations may be wrong; the first, of inputs[1], 'w1 w2': far longer than usual."
    )
    assert all(result.keys() == {"translation_text"} for result in results)


def test_warnings_are_returned_or_silenced_on_request(translator, caplog):
    options = {"max_new_tokens": 60, "num_beams": 2, "n_best": 2}
    results = translator(["w1 w2", ""], return_warnings=True, **options)
    assert [[hypothesis.get("warning") for hypothesis in result] for result in results] == [
        ["far longer than usual"] * 2,
        [None] * 2,
    ]
    # A sentence with a warning makes it that of its text.
    [joined] = translator("w1 w2\nw3", return_warnings=True, max_new_tokens=60)
    assert joined["warning"] == "far longer than usual"
    caplog.clear()
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        quiet = translator(["w1 w2"], return_warnings=False, **options)
    assert "may be wrong" not in caplog.text and "warning" not in quiet[0][0]


def test_usual_length_is_that_of_the_training_text(translator):
    translator.model.config.length_ratio = 30.0
    assert "warning" not in translator("w1", return_warnings=True, max_new_tokens=20, no_repeat_ngram_size=1)[0]
    translator.model.config.length_ratio = 1.0
    assert "warning" in translator("w1", return_warnings=True, max_new_tokens=20, no_repeat_ngram_size=1)[0]

"""How errors are reported."""

import pytest

from hf_vaswani.errors import InputError, counted, nearest, reason
from hf_vaswani.hub.card_wording import duration


@pytest.mark.parametrize(
    "error, expected",
    [
        (ValueError("no\nsuch   size"), "no such size"),
        (KeyError("model"), "KeyError 'model'"),
        (MemoryError(), "there is not enough memory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "a/folder/config.json"), "Permission denied (config.json)"),
        (OSError("no config.json in there"), "no config.json in there"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reason_of_an_error_is_one_informative_line(error, expected):
    assert reason(error) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [("quikstart", "quickstart"), ("pap", "paper_base"), ("pa", None), ("marian", None)],
)
def test_nearest_name_is_similar_or_starts_alike(name, found):
    assert nearest(name, ["quickstart", "paper_base", "multi30k_de_en"]) == found


def test_numbers_agree_with_what_they_count():
    assert [counted(number, "batch") for number in (0, 1, 2000)] == ["0 batches", "1 batch", "2,000 batches"]
    assert [duration(seconds) for seconds in (0.4, 0.6, 1.4, 59, 90, 9000)] == [
        "less than a second", "1 second", "1 second", "59 seconds", "1.5 minutes", "2.5 hours",
    ]  # fmt: skip


def test_error_found_twice_is_reported_once():
    assert str(InputError.of(["a is empty", "b is empty", "a is empty"])) == "a is empty\nb is empty"

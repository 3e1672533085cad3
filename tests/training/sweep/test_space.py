"""The space of a search: ranges, lists, and what is neither."""

import pytest

from hf_vaswani.training.sweep.space import Choice, Range, corners, holds, parse_space


def parsed(**texts):
    errors: list[str] = []
    return parse_space(texts, "--search", errors), errors


@pytest.mark.parametrize(
    "text, low, high, is_whole, is_log",
    [
        ("0.0005..0.01", 0.0005, 0.01, False, True),
        ("0.1..0.3", 0.1, 0.3, False, False),
        ("1..6", 1, 6, True, False),
        ("100..1000", 100, 1000, True, True),
        ("-1..1.5", -1.0, 1.5, False, False),
        ("0..1e3", 0.0, 1000.0, False, False),
    ],
)
def test_range_has_the_type_and_the_scale_of_its_ends(text, low, high, is_whole, is_log):
    space, errors = parsed(key=text)
    assert not errors and space == {"key": Range(low, high, is_whole)} and space["key"].is_log == is_log


def test_listed_values_are_written_as_in_a_grid():
    assert parsed(freeze="[],[a, b]", name=["x,y", "z"]) == (
        {"freeze": Choice(["[]", "[a, b]"]), "name": Choice(["x,y", "z"])},
        [],
    )


@pytest.mark.parametrize(
    "text, why",
    [
        ("0.3..0.1", "a range must begin with its lower end"),
        ("1..1", "a range must begin with its lower end"),
        ("0..inf", "a range must begin with its lower end"),
        ("nan..1", "a range must begin with its lower end"),
        ("a..b", "the ends of a range must be numbers"),
        ("5", "write a range"),
        ("", "write a range"),
        ("1,1", "write a range"),
        ("1,", "write a range"),
    ],
)
def test_text_that_leaves_no_choice_is_rejected(text, why):
    space, [error] = parsed(key=text)
    assert space == {} and error.startswith(f"--search key={text}: {why}")


def test_numbers_have_three_digits_and_stay_within_the_range():
    part = Range(0.0012345, 0.01, is_whole=False)
    assert [part.text(number) for number in (0.0012345, 0.0043219, 0.01)] == ["0.0012345", "0.00432", "0.01"]
    assert Range(1, 6, is_whole=True).text(3.0) == "3"


def test_corners_include_every_end_and_every_value():
    space, _ = parsed(rate="0.1..0.3", layers="1..6", norm="post,pre,none")
    assert corners(space) == [
        {"rate": "0.1", "layers": "1", "norm": "post"},
        {"rate": "0.3", "layers": "6", "norm": "pre"},
        {"rate": "0.3", "layers": "6", "norm": "none"},
    ]


@pytest.mark.parametrize(
    "values, is_in",
    [
        ({"rate": "0.2", "norm": "pre"}, True),
        ({"rate": "0.4", "norm": "pre"}, False),
        ({"rate": "x", "norm": "pre"}, False),
        ({"rate": "0.2", "norm": "none"}, False),
        ({"rate": "0.2"}, False),
    ],
)
def test_space_contains_only_values_within_it(values, is_in):
    space, _ = parsed(rate="0.1..0.3", norm="post,pre")
    assert holds(space, values) is is_in

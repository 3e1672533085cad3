"""What a pair looks like, and the limits that are drawn from good pairs."""

import math

import pytest

from hf_vaswani.cleaning.rules import MEASURED, Limits, look_at

LATIN = (frozenset({"LATIN"}), frozenset({"LATIN"}))


def looks(source, target):
    return dict(zip(MEASURED, look_at((source, target), LATIN).values))


@pytest.mark.parametrize(
    ("source", "target", "others"),
    [
        ("Er hat 1.000 Euro und 25 kg", "He has 1,000 euros and 25 kg", 0),
        ("1 000 000 Menschen", "1,000,000 people", 0),
        ("am 3.5.2011", "on May 3, 2011", 1),
        ("007 und 12", "7 and 13", 2),
        ("Zimmer ١٢", "Room 12", 0),
    ],
)
def test_numbers_that_only_one_side_has(source, target, others):
    assert looks(source, target)["numbers"] == others


def test_addresses_that_only_one_side_has():
    assert looks("Siehe https://a.de/x", "See https://a.de/x now")["addresses"] == 0
    assert looks("Siehe https://a.de/x", "See b@c.org")["addresses"] == 2
    assert math.isnan(looks("Siehe dort", "See there")["addresses"])


def limits(pairs):
    return Limits.of([look_at(pair, LATIN) for pair in pairs], 1.0)


def test_limits_are_those_of_the_good_pairs():
    usual = [(f"Zimmer {number} ist frei", f"Room {number} is free") for number in range(100)]
    assert limits(usual).numbers == 1 and limits(usual).addresses == math.inf
    written_out = [("Drei Zimmer, 12, 13 und 14", "Three rooms, twelve to fourteen")] * 50
    assert limits(usual + written_out).numbers == 3
    own = [(f"Siehe http://de.org/{number}", f"See http://en.org/{number}") for number in range(30)]
    assert limits(usual + own).addresses == 2
    assert limits(usual + [(one, one) for one, _ in own]).addresses == 0

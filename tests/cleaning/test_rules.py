"""What a pair looks like, and the limits that are drawn from good pairs."""

import math
import random

import pytest

from hf_vaswani.cleaning.rules import MEASURED, Limits, is_long, look_at

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
        ("١٬٢٥٠ كم", "1,250 km", 0),
    ],
)
def test_numbers_that_only_one_side_has(source, target, others):
    assert looks(source, target)["numbers"] == others


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, of course.", False),
        ("Yes, of course not.", True),
        ("谢谢你！", False),
        ("他昨天坐火车去了北京看朋友。", True),
    ],
)
def test_long_texts_have_several_words_with_or_without_spaces(text, expected):
    assert is_long(text) == expected


def test_addresses_that_only_one_side_has():
    assert looks("Siehe https://a.de/x", "See https://a.de/x now")["addresses"] == 0
    assert looks("Siehe https://a.de/x", "See b@c.org")["addresses"] == 2
    assert math.isnan(looks("Siehe dort", "See there")["addresses"])


def test_repeats_are_words_that_come_again_in_the_same_order():
    verse = "der hund bellt laut"
    assert looks(" ".join([verse] * 4), "x")["repeated"] == pytest.approx(1 - 4 / 15)
    # 400 words, of which each is there ten times, as articles and prepositions are in a long text.
    words = [f"wort{number}" for number in range(40)]
    generator = random.Random(0)
    assert looks(" ".join(word for _ in range(10) for word in generator.sample(words, 40)), "x")["repeated"] < 0.2


HINDI = (
    "भारत एक विशाल देश है और यहाँ अनेक भाषाएँ बोली जाती हैं, जिनमें हिन्दी सबसे अधिक लोगों द्वारा बोली और समझी जाती है, और इसके "
    "साथ ही बंगाली, मराठी, तेलुगु और तमिल भी बहुत लोगों की मातृभाषा हैं"
)


def test_marks_are_parts_of_words():
    assert looks(HINDI, "India")["repeated"] < 0.1  # their pieces, between vowels, repeat far more often
    # But for its vowels, each word is another one.
    assert looks("वह घर जाती थी", "वे घरों जाते थे")["copied"] == 0
    hashes = [look_at((text, "goes"), LATIN).hashes for text in ("वह जाता", "वह जाती", "वह, जाती 2!")]
    assert hashes[0][1] != hashes[1][1] == hashes[2][1]
    assert not look_at(("g\u0303ua", "❤\ufe0f a"), LATIN).is_empty and look_at(("g", "❤\ufe0f"), LATIN).is_empty


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

"""Pairs that are nearly the same share a hash, and others do not."""

import random

import numpy as np

from hf_vaswani.cleaning.near_duplicates import BANDS, FEWEST_WORDS, band_hashes

WORDS = [f"word{number}" for number in range(5000)]


def share_found(changed: int, length: int = 60, tries: int = 200) -> float:
    """How many pairs of `length` words on each side are found when some words of one side are changed."""
    generator, found = random.Random(changed), 0
    for _ in range(tries):
        one, other = (generator.choices(WORDS, k=length) for _ in range(2))
        copy = list(one)
        for place in generator.sample(range(length), changed):
            copy[place] = generator.choice(WORDS)
        found += bool((band_hashes((one, other)) == band_hashes((copy, other))).any())
    return found / tries


def test_the_more_two_pairs_have_in_common_the_more_often_they_are_found():
    assert share_found(0) == 1
    assert share_found(1) > 0.9  # 116 of 120 sequences in common
    assert share_found(30) < 0.1


def test_a_changed_side_or_swapped_sides_are_another_pair():
    one, other = [WORDS[:40], WORDS[40:80]], [WORDS[:40], WORDS[80:120]]
    assert not (band_hashes(one) == band_hashes(other)).any()
    assert not (band_hashes(one) == band_hashes(one[::-1])).any()


def test_short_pairs_have_no_hashes():
    assert not band_hashes((["a"], ["b"])).any()
    assert np.count_nonzero(band_hashes((WORDS[:FEWEST_WORDS], ["b"]))) == BANDS

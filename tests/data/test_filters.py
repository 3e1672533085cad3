import random
import sys

import numpy as np
import pytest

from hf_vaswani.data.filters import FilterSettings, HashSet, PairFilter, filter_lengths, filter_report, hash_of_pair

PAIRS = [
    ("Hund", "dog"),
    ("", "dog"),
    ("Katze", "\t \n"),
    ("Hund", "dog"),
    ("Hund\x07", "dog"),
    ("Hund\x07", "dog"),
    ("OK ", "OK"),
    ("a\tb", "ä\u2028\u200d"),
    ("x\x92", "x\x92"),
]


def run(**settings) -> tuple[list, dict]:
    pair_filter = PairFilter(FilterSettings(**settings))
    return list(pair_filter(PAIRS)), pair_filter.counts


def test_only_empty_pairs_are_dropped_by_default_but_all_problems_are_counted():
    kept, counts = run()
    assert kept == [PAIRS[0], *PAIRS[3:]]
    assert counts == {"pairs": 9, "empty": 2, "control_characters": 3, "copies": 2, "duplicates": 2}


@pytest.mark.parametrize(
    ("setting", "kept", "count"),
    [
        ("drop_control_characters", [0, 3, 6, 7], ("control_characters", 3)),
        ("drop_copies", [0, 3, 4, 5, 7], ("copies", 2)),
        ("drop_duplicates", [0, 4, 6, 7, 8], ("duplicates", 2)),
    ],
)
def test_each_setting_drops_its_pairs(setting, kept, count):
    pairs, counts = run(**{setting: True})
    assert pairs == [PAIRS[i] for i in kept]
    assert counts[count[0]] == count[1]


def test_side_in_which_nothing_is_seen_is_empty():
    pair_filter = PairFilter()
    assert list(pair_filter([("a", "\u200b"), ("\ufeff\u3000", "b"), ("a\u200b", "b")])) == [("a\u200b", "b")]
    assert pair_filter.counts["empty"] == 2


def test_dropped_pair_is_counted_under_its_first_problem():
    kept, counts = run(drop_control_characters=True, drop_copies=True, drop_duplicates=True)
    assert kept == [PAIRS[0], PAIRS[7]]
    assert counts == {"pairs": 9, "empty": 2, "control_characters": 3, "copies": 1, "duplicates": 1}
    assert counts["pairs"] == len(kept) + sum(counts.values()) - counts["pairs"]


def test_duplicates_are_found_across_all_texts_of_a_filter():
    pair_filter = PairFilter(FilterSettings(drop_duplicates=True))
    assert list(pair_filter([("a", "b"), ("ab", "")])) == [("a", "b")]
    assert list(pair_filter([("a", "b"), ("a", "c"), ("a ", "b")])) == [("a", "c"), ("a ", "b")]


def test_stream_is_not_searched_for_duplicates():
    kept, counts = run(count_duplicates=False)
    assert len(kept) == 7 and "duplicates" not in counts
    assert "not searched for repeated pairs" in filter_report(counts, FilterSettings(count_duplicates=False))[-1]


def test_pairs_are_filtered_lazily():
    def endless():
        while True:
            yield ("Hund", "dog")

    pair_filter = PairFilter()
    pairs = pair_filter(endless())
    assert [next(pairs) for _ in range(3)] == [("Hund", "dog")] * 3
    assert pair_filter.counts["pairs"] == 3


def test_length_filter_drops_long_pairs_and_optionally_uneven_ones():
    source, target = np.array([5, 11, 3, 10, 1, 1]), np.array([5, 2, 12, 1, 10, 9])
    kept, counts = filter_lengths(source, target, FilterSettings(max_length=10))
    assert kept.tolist() == [True, False, False, True, True, True]
    assert counts == {"too_long": 2, "length_ratio": 2}
    kept, counts = filter_lengths(source, target, FilterSettings(max_length=10, max_length_ratio=8.5))
    assert kept.tolist() == [True, False, False, False, False, False]
    assert counts == {"too_long": 2, "length_ratio": 3}
    kept, counts = filter_lengths(source, target, FilterSettings(max_length_ratio=4))
    assert kept.tolist() == [True, False, True, False, False, False]
    assert counts == {"too_long": 0, "length_ratio": 4}


def test_report_gives_count_and_treatment_of_each_problem():
    settings = FilterSettings(drop_copies=True, max_length=10)
    _, counts = run(drop_copies=True)
    assert filter_report({**counts, "too_long": 1, "length_ratio": 0}, settings) == [
        "9 pairs read, 5 left out, 4 kept",
        "  2 with an empty side: left out",
        "  2 with control characters: kept; --drop_control_characters true leaves them out",
        "  2 whose target is the source: left out",
        "  2 that repeat an earlier pair: kept; --drop_duplicates true leaves them out",
        "  1 with more than 10 tokens on a side: left out",
    ]


def test_hash_depends_on_where_the_source_ends_and_has_a_fixed_value():
    assert hash_of_pair("ab", "c") != hash_of_pair("a", "bc")
    # printf '4 Hunddog' | b2sum -l 64, least significant byte first
    assert hash_of_pair("Hund", "dog").to_bytes(8, "little").hex() == "19162d8fc8581e55"
    assert 0 <= hash_of_pair("\ud800", "") < 2**64


def test_hash_set_matches_pythons_set():
    numbers = random.Random(1).choices(
        [0, 1, *range(2, 40_000, 7), 2**64 - 1, *(i << 54 for i in range(200))], k=40_000
    )
    ours, reference = HashSet(), set()
    for number in numbers:
        number = number or 1
        assert ours.add(number) == (number not in reference)
        reference.add(number)
    assert len(ours) == len(reference)


def test_hash_set_needs_at_most_24_bytes_per_number():
    ours = HashSet()
    for size in range(1, 50_001):
        ours.add(hash_of_pair(str(size), ""))
        if size > 1_000 and size % 1_000 == 0:
            assert sys.getsizeof(ours._table) <= 24.1 * size

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from hf_vaswani.data.batches import mixed_rows, mixed_stream

ORIGINS = np.array([0] * 30 + [1] * 10 + [2] * 7)


def shares(rows) -> dict[int, int]:
    return dict(Counter(ORIGINS[rows].tolist()))


@pytest.mark.parametrize(("weights", "expected"), [
    # The source that lasts longest is read once; the others are repeated up to their share.
    ([3.0, 1.0, 0.7], {0: 30, 1: 10, 2: 7}),
    ([1.0, 1.0, 1.0], {0: 30, 1: 30, 2: 30}),
    ([1.0, 3.0, 1.0], {0: 30, 1: 90, 2: 30}),
    ([9.0, 1.0, 1.0], {0: 90, 1: 10, 2: 10}),
])  # fmt: skip
def test_sources_have_their_share_and_each_row_appears_at_least_once(weights, expected):
    rows = mixed_rows(ORIGINS, weights, np.random.default_rng(0))
    assert shares(rows) == expected
    counts = np.bincount(rows, minlength=len(ORIGINS))
    for number, total in expected.items():
        of_source = counts[number == ORIGINS]
        assert of_source.min() == total // len(of_source) and of_source.max() == -(-total // len(of_source))


def test_extra_repetitions_differ_between_epochs():
    epochs = [np.sort(mixed_rows(ORIGINS, [1.0, 0.5, 0.3], np.random.default_rng([1, epoch]))) for epoch in (0, 1)]
    assert not np.array_equal(*epochs)


SOURCES = [lambda: (("a", str(i)) for i in range(60)), lambda: (("b", str(i)) for i in range(10))]


def test_stream_reads_each_source_completely_in_proportion_to_its_weight():
    pairs = list(mixed_stream(SOURCES, [3.0, 1.0], np.random.default_rng(0)))
    counts = Counter(pairs)
    assert {pair for source in SOURCES for pair in source()} == counts.keys()
    names = Counter(name for name, _ in pairs)
    assert names["a"] / names["b"] == pytest.approx(3, rel=0.35)


def test_stream_is_reproducible_and_keeps_the_order_within_a_source():
    streams = [list(mixed_stream(SOURCES, [1.0, 1.0], np.random.default_rng(5))) for _ in range(2)]
    assert streams[0] == streams[1]
    numbers = [int(number) for name, number in streams[0] if name == "a"]
    assert numbers[:60] == sorted(numbers[:60])


def test_stream_is_read_lazily():
    def endless():
        number = 0
        while True:
            yield ("a", str(number))
            number += 1

    assert len(list(islice(mixed_stream([endless], [1.0], np.random.default_rng(0)), 5000))) == 5000


def test_empty_source_does_not_end_the_stream():
    pairs = list(mixed_stream([SOURCES[1], lambda: iter(())], [1.0, 1.0], np.random.default_rng(0)))
    assert {pair for pair in pairs} == set(SOURCES[1]())

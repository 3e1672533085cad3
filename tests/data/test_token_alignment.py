"""Links between the tokens of a pair, from lexical tables of both directions."""

import numpy as np
import pytest

from hf_vaswani.data.alignment import TokenAligner
from hf_vaswani.data.encoding import Collator

EOS = 2
# Token t is translated as t + 10, in reverse order in the first pair; 9 has no translation.
PAIRS = [
    ([5, 6, 7, EOS], [17, 16, 15, EOS]),
    ([5, EOS], [15, EOS]),
    ([6, 9, EOS], [16, EOS]),
    ([7, EOS], [17, EOS]),
]


@pytest.fixture(scope="module")
def aligner() -> TokenAligner:
    sources, targets = ([np.array(row) for row in side] for side in zip(*PAIRS))
    return TokenAligner.learn(sources, targets, ([EOS], [EOS]))


def test_tokens_are_linked_to_those_that_they_translate(aligner):
    assert aligner([5, 6, 7, EOS], [17, 16, 15, EOS]) == [2, 1, 0, -100]


def test_a_repeated_token_is_linked_to_the_nearest(aligner):
    assert aligner([5, 6, 5, EOS], [15, 16, 15, EOS]) == [0, 1, 2, -100]


def test_what_only_one_direction_links_and_what_is_unknown_has_no_link(aligner):
    # Both 15s come from the only 5, which in turn is translated by one of them.
    links = aligner([5, EOS], [15, 15, 99, EOS])
    assert sorted(links) == [-100, -100, -100, 0]
    assert links[2] == -100
    assert aligner([99, EOS], [15, EOS]) == [-100, -100]
    assert aligner([EOS], [EOS]) == [-100]


def test_collator_pads_the_positions(aligner):
    rows = [{"input_ids": source, "labels": target} for source, target in PAIRS[:2]]
    assert Collator(0, aligner)(rows)["aligned_positions"].tolist() == [[2, 1, 0, -100], [0, -100, -100, -100]]
    assert "aligned_positions" not in Collator(0)(rows)

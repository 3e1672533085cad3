"""Alignment error rate, and the files of gold alignments."""

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.alignment_error import (
    AlignmentScore,
    GoldAlignment,
    read_gold_alignments,
    score_alignments,
)

SOURCES, TARGETS = ["a b c", "d e"], ["A B C", "D"]


def test_rates_follow_their_definitions():
    gold = [GoldAlignment({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)}), GoldAlignment({(0, 0)}, {(0, 0)})]
    score = score_alignments([{(0, 0), (1, 2), (2, 2)}, {(1, 0)}], gold)
    # |A| = 4, |S| = 3, |A and S| = 1, |A and P| = 2
    assert score == AlignmentScore(pytest.approx(400 / 7), 100 * 2 / 4, 100 * 1 / 3, 4, 3, 1)
    assert str(score) == "AER 57.1 (precision 50.0, recall 33.3)"


def test_pairs_without_any_links_have_no_errors():
    assert score_alignments([set()], [GoldAlignment()]).aer == 0


@pytest.mark.parametrize(
    "lines", [["0-0 1p2 2?1", "1-0"], ["1-1 2p3 3?2", "2-1"]], ids=["counted from 0", "counted from 1"]
)
def test_sure_and_possible_links_are_read(write_lines, lines):
    assert read_gold_alignments(write_lines("gold", lines), SOURCES, TARGETS) == [
        GoldAlignment({(0, 0)}, {(0, 0), (1, 2), (2, 1)}),
        GoldAlignment({(1, 0)}, {(1, 0)}),
    ]


def test_lines_that_cannot_be_used_are_named(write_lines):
    path = write_lines("gold", ["0-0 1:2", "2-0"])
    with pytest.raises(InputError) as error:
        read_gold_alignments(path, SOURCES, TARGETS)
    assert str(error.value).splitlines() == [
        f"{path}, line 1: '1:2' is not a link. Write 0-1, or 0p1 if only possible.",
        f"{path}, line 2: there are 2 source words and 1 reference word, counted from 0, so that 2-0 is not a link.",
    ]
    short = write_lines("short", ["0-0"])
    with pytest.raises(InputError, match="1 line for 2 pairs"):
        read_gold_alignments(short, SOURCES, TARGETS)

"""How much to keep: shares by score, the pairs that they are compared on, and the choice."""

import pytest

from hf_vaswani.cleaning import shares
from hf_vaswani.cleaning.clean import Judged
from hf_vaswani.cleaning.share_choice import Share, ShareChoice, best_limit
from hf_vaswani.cleaning.shares import ScoredText


def judged(count: int, score=lambda number: number / 100, **changes) -> list[Judged]:
    """Distinct pairs of five words."""
    pairs = [(f"ein Satz mit Nummer {n}", f"a sentence with number {n}") for n in range(count)]
    values = {"repairs": (), "reason": "", "detail": "", **changes}
    return [Judged("raw", n, pair, pair, score=score(n), **values) for n, pair in enumerate(pairs)]


TRUSTED = [("etwas ganz anderes als das", "something else altogether than this")]


def test_shares_are_nested_by_score_and_have_their_part_of_the_pairs():
    text = ScoredText.of(judged(100), 0.5, TRUSTED)
    assert text.limits == [0.0, 0.1, 0.25, 0.4, 0.5, 0.55]
    assert [text.count(limit) for limit in text.limits] == [100, 90, 75, 60, 50, 45]
    assert text.scores == sorted(text.scores, reverse=True)
    assert text.pairs[0] == ("ein Satz mit Nummer 99", "a sentence with number 99")


def test_share_near_the_default_is_not_measured_next_to_it():
    text = ScoredText.of(judged(100), 0.26, TRUSTED)
    assert text.limits == [0.0, 0.1, 0.26, 0.4, 0.55]


def test_pairs_that_are_left_out_for_another_reason_are_in_no_share():
    found = [*judged(100), *judged(120, reason="length")[100:]]
    assert len(ScoredText.of(found, 0.5, TRUSTED).pairs) == 100


def test_pairs_of_the_trusted_text_are_in_no_share_and_are_counted():
    trusted = [
        *TRUSTED,
        ("Ein Satz mit Nummer 7!", "a sentence with number 7"),
        ("anders", "a sentence with number 9"),
    ]
    text = ScoredText.of(judged(100), 0.5, trusted)
    assert text.overlap == 2 and len(text.pairs) == 98 and sorted(text.held_out) == sorted(trusted)
    assert not {"a sentence with number 7", "a sentence with number 9"} & {target for _, target in text.pairs}


def test_short_sides_that_are_also_in_the_trusted_text_do_not_count():
    found = [Judged("raw", n, (f"Satz {n}", "Yes."), (f"Satz {n}", "Yes."), (), "", "", 0.9) for n in range(9)]
    text = ScoredText.of(found, 0.5, [("Ja.", "Yes."), ("Satz 3", "yes")])
    assert text.overlap == 1 and len(text.pairs) == 8


def test_without_trusted_text_pairs_that_all_signals_agree_on_are_held_out():
    doubtful = [*judged(100, repairs=["tags"])[:70], *judged(100, passage="target: la casa")[70:]]
    text = ScoredText.of([*doubtful, *judged(1000, lambda _: 0.9)[100:]], 0.5)
    assert len(text.held_out) == 180 and len(text.pairs) == 820
    assert not set(text.held_out) & {*text.pairs, *(one.pair for one in doubtful)}
    low = ScoredText.of(judged(1000, lambda number: number / 1000), 0.5)
    assert len(low.held_out) == 75  # a fifth of the upper three quarters
    assert all(int(target.split()[-1]) >= 625 for _, target in low.held_out)


def test_sample_keeps_the_order_and_differs_between_seeds(monkeypatch):
    text = ScoredText.of(judged(100), 0.5, TRUSTED)
    one, other = text.sample(40, 1), text.sample(40, 2)
    assert len(one.pairs) == len(other.pairs) == 40 and one.pairs != other.pairs
    assert one.scores == sorted(one.scores, reverse=True) and one == text.sample(40, 1)
    assert text.sample(100, 1) == text


def test_large_text_is_sampled_whatever_its_order(monkeypatch):
    monkeypatch.setattr(shares, "MOST_PAIRS", 60)
    found = judged(100)
    text = ScoredText.of(found, 0.5, TRUSTED)
    assert len(text.pairs) == 60 and text == ScoredText.of(reversed(found), 0.5, TRUSTED)


def choices(*losses: tuple[float, float]) -> list[Share]:
    """Shares with least scores 0, 0.5, and 0.9."""
    return [Share(limit, pairs, own) for limit, pairs, own in zip((0.0, 0.5, 0.9), (100, 60, 40), losses)]


# With three shares of two seeds each, the margin is 3.18 times the standard deviation.
@pytest.mark.parametrize(
    "losses, limit",
    [
        ([(2.0, 2.01), (1.5, 1.51), (1.4, 1.41)], 0.9),
        ([(1.3, 1.31), (1.5, 1.51), (1.4, 1.41)], 0.0),
        ([(2.0, 2.01), (1.4, 1.5), (1.38, 1.46)], 0.5),
        ([(1.40, 1.41), (1.8, 1.81), (1.39, 1.40)], 0.0),
        ([(1.4, 1.4), (1.4, 1.4), (1.4, 1.4)], 0.5),
    ],
    ids=["small", "large", "default within noise", "larger within noise", "no difference"],
)
def test_share_with_the_lowest_loss_is_kept_unless_that_may_be_chance(losses, limit):
    assert best_limit(choices(*losses), 0.5) == limit


def test_choice_is_told_in_few_lines_and_a_table():
    shares = choices((2.0, 2.02), (1.5, 1.52), (1.4, 1.42))
    choice = ShareChoice(0.9, 0.5, shares, 100, 700, 80, is_trusted=True, overlap=3)
    assert choice.lines() == [
        "  least score 0.9, by 6 small models of 700 steps: 1.4100 ± 0.0141 nats per character of 80 trusted pairs; "
        "1.5100 ± 0.0141 with 0.5",
        "  3 pairs that the trusted text has, too: no small model was trained on them",
    ]
    assert "| 0.9 | 40 | 1.4000 | 1.4200 | 1.4100 | 0.0141 | kept |" in choice.as_markdown()
    assert "<td class=n>1.5100</td><td class=n>0.0141</td><td class=n>default</td>" in choice.as_html()


def test_choice_within_noise_says_so():
    shares = choices((2.0, 2.1), (1.4, 1.5), (1.38, 1.46))
    [kept, chance] = ShareChoice(0.5, 0.5, shares, 100, 700, 80).lines()
    assert kept.startswith("  least score 0.5, by 6 small models") and " with 0.5" not in kept
    assert chance == "  the lowest loss, 1.4200 ± 0.0566 with 0.9, differs no more than by chance"


def test_shares_of_scores_near_one_differ():
    text = ScoredText.of(judged(100, lambda number: 1 - (number + 1) / 1e6), 0.5, TRUSTED)
    assert text.limits == [0.5, 0.99991, 0.999925, 0.99994, 0.999955]
    assert [text.count(limit) for limit in text.limits] == [100, 90, 75, 60, 45]

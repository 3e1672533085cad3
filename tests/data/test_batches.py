import numpy as np
import pytest

from hf_vaswani.data.batches import TokenBudgetBatches
from hf_vaswani.errors import InputError


def corpus(pairs=2000, seed=3):
    """Lengths like those of real text: similar on both sides, and a few long ones."""
    generator = np.random.default_rng(seed)
    source = 1 + generator.poisson(12, pairs) + generator.integers(0, 4, pairs) ** 2
    target = np.maximum(1, source + generator.integers(-3, 4, pairs))
    return source, target


def test_every_pair_appears_exactly_once_per_epoch():
    batches = TokenBudgetBatches(*corpus(), max_tokens=256).epoch(5)
    assert sorted(np.concatenate(batches)) == list(range(2000))


def test_padded_source_and_target_stay_within_the_token_budget():
    source, target = corpus()
    for batch in TokenBudgetBatches(source, target, max_tokens=256).epoch(0):
        assert len(batch) * max(source[batch].max(), target[batch].max()) <= 256


def test_max_sentences_caps_the_batch_size():
    batches = TokenBudgetBatches(*corpus(), max_tokens=256, max_sentences=5).epoch(0)
    assert max(map(len, batches)) == 5


def test_order_depends_only_on_seed_and_epoch():
    def epoch(seed, number):
        return [batch.tolist() for batch in TokenBudgetBatches(*corpus(), 256, seed=seed).epoch(number)]

    assert epoch(1, 4) == epoch(1, 4)
    assert epoch(1, 4) != epoch(1, 5)
    assert epoch(1, 4) != epoch(2, 4)


def test_batch_composition_changes_between_epochs():
    batches = TokenBudgetBatches(*corpus(), max_tokens=256)
    assert {frozenset(b.tolist()) for b in batches.epoch(0)} != {frozenset(b.tolist()) for b in batches.epoch(1)}


def test_batching_by_length_needs_little_padding():
    batches = TokenBudgetBatches(*corpus(), max_tokens=512)
    by_length = batches.padding_ratio(batches.epoch(0))
    at_random = batches.padding_ratio(np.array_split(np.random.default_rng(0).permutation(2000), 60))
    assert by_length < 0.1
    assert at_random > 0.3


def test_padding_ratio_counts_both_sides():
    batches = TokenBudgetBatches(np.array([1, 3]), np.array([2, 2]), max_tokens=10)
    assert batches.padding_ratio([np.array([0, 1])]) == pytest.approx(1 - 8 / 10)


def test_pair_over_the_budget_is_a_clear_error():
    with pytest.raises(InputError, match="max_tokens=20 is too small for 1 pair with up to 30 tokens"):
        TokenBudgetBatches(np.array([5, 30]), np.array([5, 5]), max_tokens=20)

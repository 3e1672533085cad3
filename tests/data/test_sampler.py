import numpy as np
import pytest
import torch
from accelerate import skip_first_batches
from datasets import Dataset
from torch.utils.data import DataLoader

from hf_vaswani.data.batches import TokenBudgetBatches
from hf_vaswani.data.encoding import Collator
from hf_vaswani.data.sampler import EmptyBatchCollator, TokenBudgetSampler

from ..conftest import tiny_model


def token_budget_batches(pairs=50):
    lengths = np.random.default_rng(0).integers(2, 9, (2, pairs))
    return TokenBudgetBatches(*lengths, max_tokens=24, seed=3)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_processes_together_give_each_batch_once_in_order_and_take_as_many_passes(processes):
    batches = token_budget_batches()
    shares = []
    for rank in range(processes):
        sampler = TokenBudgetSampler(batches, processes, rank)
        sampler.set_epoch(5)
        shares.append(list(sampler))
        assert len(shares[-1]) == len(sampler)
    assert len({len(share) for share in shares}) == 1
    together = [batch for turn in zip(*shares) for batch in turn if batch]
    assert together == [batch.tolist() for batch in batches.epoch(5)]


def test_order_is_that_of_the_epoch_that_was_set():
    sampler = TokenBudgetSampler(token_budget_batches())
    first = list(sampler)
    sampler.set_epoch(1)
    second = list(sampler)
    sampler.set_epoch(0)
    assert first != second
    assert list(sampler) == first


def test_epoch_of_another_length_is_an_error():
    class Shrinking:
        def epoch(self, number):
            return [np.array([row]) for row in range(5 - number)]

    sampler = TokenBudgetSampler(Shrinking())
    sampler.set_epoch(1)
    with pytest.raises(RuntimeError, match="Epoch 1 has 4 batches, epoch 0 has 5"):
        list(sampler)


def test_batch_of_no_rows_has_a_loss_of_zero_and_gradients_of_zero():
    rows = Dataset.from_dict({"input_ids": [[5, 6, 2]], "labels": [[7, 2]]})
    loader = DataLoader(rows, batch_sampler=[[], [0]], collate_fn=EmptyBatchCollator(Collator(0), token_id=2))
    empty, full = loader
    model = tiny_model().train()
    loss = model(**empty, num_items_in_batch=2).loss
    loss.backward()
    assert loss == 0
    assert all(torch.count_nonzero(parameter.grad) == 0 for parameter in model.parameters())
    assert full["labels"].tolist() == [[7, 2]]


def test_skipping_the_first_batches_gives_the_others():
    batches = token_budget_batches()
    rows = Dataset.from_dict({"row": list(range(50))})
    loader = DataLoader(
        rows, batch_sampler=TokenBudgetSampler(batches), collate_fn=lambda rows: [r["row"] for r in rows]
    )
    assert list(skip_first_batches(loader, 3)) == [batch.tolist() for batch in batches.epoch(0)[3:]]

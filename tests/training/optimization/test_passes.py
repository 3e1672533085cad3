import pytest
import torch
from accelerate import Accelerator

from hf_vaswani.training.optimization.step_batches import pass_tokens, split_batch


def batch_of(pairs, source, target):
    ids = torch.arange(pairs * source).view(pairs, source)
    labels = torch.arange(pairs * target).view(pairs, target)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


@pytest.mark.parametrize(
    "source, target, tokens, sizes",
    [
        (6, 4, 60, [10]),  # all 60 source tokens
        (6, 4, 59, [5, 5]),
        (4, 6, 20, [3, 3, 2, 2]),  # tokens of the longer side
        (6, 4, 1, [1] * 10),  # at least one pair
        (6, 4, None, [10]),
    ],
)
def test_batch_is_split_evenly_and_in_order(source, target, tokens, sizes):
    batch = batch_of(10, source, target)
    batch["soft_label_ids"] = torch.arange(10 * target * 2).view(10, target, 2)
    parts = split_batch(batch, tokens)
    assert [len(part["labels"]) for part in parts] == sizes
    for name, tensor in batch.items():
        assert torch.equal(torch.cat([part[name] for part in parts]), tensor)


def test_r_drop_halves_the_tokens_of_a_pass():
    assert pass_tokens(Accelerator(cpu=True), r_drop=1.0) == pass_tokens(Accelerator(cpu=True)) // 2

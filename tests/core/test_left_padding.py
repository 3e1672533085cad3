"""Sources with padding on the left, which transformers' tokenizers and collators can be set to."""

import pytest
import torch

from ..conftest import tiny_model

SOURCES = [[5, 6, 7, 8, 2], [9, 2], [10, 11, 2]]


@pytest.mark.parametrize(
    "changes", [{}, {"position_type": "learned"}, {"positions_skip_padding": True, "decoder_start_token_id": 2}]
)
def test_padding_on_the_left_changes_nothing(changes):
    model = tiny_model(**changes).eval()
    labels = torch.tensor([[4, 5, 2], [6, 7, 2], [8, 9, 2]])
    logits = {}
    for side in ("left", "right"):
        pads = [[model.config.pad_token_id] * (5 - len(row)) for row in SOURCES]
        rows = [pad + row if side == "left" else row + pad for pad, row in zip(pads, SOURCES)]
        mask = [[0] * len(pad) + [1] * len(row) for pad, row in zip(pads, SOURCES)]
        mask = mask if side == "left" else [row[::-1] for row in mask]
        ids, mask = torch.tensor(rows), torch.tensor(mask)
        logits[side] = model(ids, mask, labels=labels).logits
    torch.testing.assert_close(logits["left"], logits["right"])

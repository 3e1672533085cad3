"""The loss of the head that aligns."""

import pytest
import torch

from hf_vaswani.training.optimization.guided_alignment import choose_head
from hf_vaswani.training.optimization.step_loss import training_loss

from ...conftest import tiny_model

BATCH = {
    "input_ids": torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]),
    "labels": torch.tensor([[14, 15, 2], [16, 2, -100]]),
}
ALIGNED = {**BATCH, "aligned_positions": torch.tensor([[2, 0, -100], [1, -100, 1]])}


def guided_model(**changes):
    model = tiny_model(decoder_layers=3, alignment_heads=[[1, 2]], **changes)
    return model.train()


@pytest.mark.parametrize("settings", [{}, {"r_drop": 1.0}])
def test_it_is_the_cross_entropy_of_the_heads_attention_per_target_token(settings):
    model = guided_model(dropout=0.0)
    plain = training_loss(model, BATCH, 5, **settings)
    guided = training_loss(model, ALIGNED, 5, **settings, guided_alignment=0.3)
    inputs = {name: BATCH[name] for name in ("input_ids", "attention_mask", "labels")}
    eager = tiny_model("eager", decoder_layers=3).eval()
    weights = eager(**inputs, output_attentions=True).cross_attentions[1][:, 2].double()
    # The last position has an ignored label, and does not count.
    expected = -(weights[0, 0, 2].log() + weights[0, 1, 0].log() + weights[1, 0, 1].log()) / 5
    assert (guided - plain).item() == pytest.approx(0.3 * expected.item(), rel=1e-4)


def test_only_what_the_head_reads_gets_a_gradient_of_it():
    model = guided_model(dropout=0.0)
    both = []
    for weight in (0.0, 0.3):
        model.zero_grad()
        training_loss(model, ALIGNED if weight else BATCH, 5, guided_alignment=weight).backward()
        both.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    changed = {name for name in both[0] if not torch.allclose(both[0][name], both[1][name], atol=1e-7)}
    layers = "model.decoder.layers"
    queries = f"{layers}.1.encoder_attn.q_proj.weight"
    assert {queries, f"{layers}.0.fc2.weight"} <= changed
    assert not {f"{layers}.2.fc2.weight", f"{layers}.1.fc1.weight", f"{layers}.1.encoder_attn.v_proj.weight"} & changed
    rows = (both[1][queries] - both[0][queries]).abs().amax(1)
    assert rows.gt(1e-7).nonzero().flatten().tolist() == list(range(8, 12))  # of head 2, with d_k = 4


def test_the_head_of_a_new_model_is_in_the_layer_that_aligns_best_and_another_is_kept():
    new, guided = tiny_model(decoder_layers=6).config, guided_model().config
    choose_head(new)
    choose_head(guided)
    assert (new.alignment_heads, guided.alignment_heads) == ([[4, 0]], [[1, 2]])

"""What devices support, and the trial of bf16 on this processor."""

import pytest
import torch

from hf_vaswani.training.setup import precision
from hf_vaswani.training.setup.precision import bf16_speedup, has_native_bf16, possible_precisions

from ...conftest import tiny_model


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoder_layers": 3, "decoder_layers": 4, "encoder_layerdrop": 0.5, "decoder_layerdrop": 0.9},
        {"position_type": "learned", "max_position_embeddings": 8},
    ],
)
def test_bf16_trial_leaves_model_threads_and_random_state_unchanged(options):
    model = tiny_model(**options)
    model.get_encoder().requires_grad_(False)
    stacks = [model.get_encoder(), model.get_decoder()]
    before = [(len(stack.layers), stack.layerdrop, [*stack.state_dict()]) for stack in stacks]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    assert bf16_speedup(model, max_tokens=100) > 0
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), random_state)
    assert [(len(stack.layers), stack.layerdrop, [*stack.state_dict()]) for stack in stacks] == before
    assert not model.training and all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_trial_works_for_a_model_whose_first_layers_are_frozen():
    model = tiny_model(decoder_layers=3).requires_grad_(False)
    model.get_decoder().layers[2].requires_grad_(True)
    assert bf16_speedup(model, max_tokens=30) > 0


def test_speedup_ignores_passes_slowed_down_by_other_processes(monkeypatch):
    model, batches = tiny_model(), []
    # fp32 and bf16 in turn: bf16 is twice as fast, except in disturbed passes.
    seconds = iter([0.2, 0.5, 9.0, 0.1, 0.2, 0.1, 0.2, 3.0] * 100)

    def passes(model, forward, sentences):
        batches.append(sentences)
        return next(seconds)

    monkeypatch.setattr(precision, "pass_seconds", passes)
    assert bf16_speedup(model, max_tokens=4096) == pytest.approx(2)
    assert set(batches) == {1} and len(batches) == 2 * precision.ROUNDS


def test_trial_batches_grow_while_passes_are_short_up_to_the_token_budget(monkeypatch):
    batches = []
    monkeypatch.setattr(precision, "pass_seconds", lambda model, forward, n: batches.append(n) or n / 60)
    bf16_speedup(tiny_model(), max_tokens=4096)
    assert [*dict.fromkeys(batches)] == [1, 4, 16]
    batches.clear()
    monkeypatch.setattr(precision, "pass_seconds", lambda model, forward, n: batches.append(n) or 0.001)
    bf16_speedup(tiny_model(), max_tokens=240)
    assert [*dict.fromkeys(batches)] == [1, 4, 10]


def test_cpu_supports_all_but_fp8_and_an_old_gpu_lacks_native_bf16(monkeypatch):
    assert possible_precisions(torch.device("cpu")) == ["no", "bf16", "fp16"]
    assert not has_native_bf16(torch.device("cpu")) and not has_native_bf16(torch.device("mps"))
    # A GPU before Ampere: torch emulates bf16.
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not has_native_bf16(torch.device("cuda"))
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: True)
    assert has_native_bf16(torch.device("cuda"))
    monkeypatch.setattr(precision, "is_bf16_available", lambda ignore_tpu: False)
    monkeypatch.setattr(precision, "is_fp8_available", lambda: False)
    assert possible_precisions(torch.device("cuda")) == ["no", "fp16"]

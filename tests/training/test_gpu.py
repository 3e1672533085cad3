"""Training and translation on a GPU, compared with a CPU. Skipped without a GPU."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import pipeline

from hf_vaswani.fast.label_smoothing import CrossEntropy, DeviceCrossEntropy, fused_loss
from hf_vaswani.training import loop
from hf_vaswani.training import run as run_module
from hf_vaswani.training.train import train

from .helpers import losses

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def assert_close(folder, other):
    """Losses and weights are those of another run, up to the rounding of other kernels."""
    np.testing.assert_allclose(losses(folder), losses(other), rtol=1e-3)
    expected = load_file(other / "model.safetensors")
    for name, value in load_file(folder / "model.safetensors").items():
        # The loss does not depend on the biases of keys, whose gradient is nothing but rounding.
        if not name.endswith("k_proj.bias"):
            torch.testing.assert_close(value, expected[name], rtol=1e-2, atol=1e-3)


def test_run_takes_the_steps_of_a_cpu(recipe, monkeypatch):
    options = ("--dropout=0", "--mixed_precision=no", "--ema_decay=0.9")
    on_gpu = train(recipe(*options, output="gpu")).folder
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert_close(on_gpu, train(recipe(*options, output="cpu")).folder)


def test_run_is_the_same_whether_it_waits_for_each_step(recipe, monkeypatch):
    monkeypatch.setattr(run_module, "FIRST_STEPS", 0)
    ahead = train(recipe(output="ahead")).folder
    monkeypatch.setattr(loop, "may_run_async", lambda run: False)
    assert_close(ahead, train(recipe(output="one_by_one")).folder)


@pytest.mark.parametrize("options", [(), ("--mixed_precision=bf16",), ("--r_drop=1",), ("--max_grad_norm=1",)])
def test_steps_do_not_wait_for_the_gpu(recipe, monkeypatch, options):
    def never_waiting(function):
        def call(*arguments):
            torch.cuda.set_sync_debug_mode("error")
            try:
                return function(*arguments)
            finally:
                torch.cuda.set_sync_debug_mode("default")

        return call

    for name in ("compute_gradients", "step_on_device"):
        monkeypatch.setattr(loop, name, never_waiting(getattr(loop, name)))
    assert len(losses(train(recipe(*options)).folder)) == 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_those_of_a_cpu(dtype):
    logits, labels = torch.randn(300, 1000).to(dtype), torch.randint(1000, (300,))
    labels[::7] = -100
    results = []
    for kind, device in ((DeviceCrossEntropy, "cuda"), (CrossEntropy, "cpu")):
        leaf = logits.to(device).requires_grad_()
        loss = fused_loss(leaf, labels.to(device), 250.0, kind(0.1))
        loss.backward()
        results.append((loss.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_are_those_of_a_cpu(saved_model, num_beams):
    texts = [" ".join(f"w{(i * j) % 36}" for j in range(1, 3 + i % 9)) for i in range(60)]
    translations = [
        pipeline("translation", model=str(saved_model), device=device, engine="torch")(texts, num_beams=num_beams)
        for device in ("cuda", "cpu")
    ]
    assert translations[0] == translations[1]

"""Adam with its means in 8 bits, by torchao."""

from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file

from hf_vaswani.errors import InputError
from hf_vaswani.training.train import train

from ..helpers import losses


@pytest.mark.slow
def test_adam_in_8_bits_resumes_exactly_and_follows_adam(recipe):
    pytest.importorskip("torchao")
    # Smaller matrices are kept in 32 bits.
    wide = [f"--{side}_ffn_dim=128" for side in ("encoder", "decoder")]
    options = (*wide, "--max_steps=6", "--save_steps=3", "--average_last=1", "--eval_sentences=0")
    whole = train(recipe("--optim=adam_8bit", *options, output="whole")).folder
    train(recipe("--optim=adam_8bit", *options, "--max_steps=3", output="parts"))
    parts = train(recipe("--optim=adam_8bit", *options, output="parts")).folder
    found, expected = (load_file(folder / "model.safetensors") for folder in (parts, whole))
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert losses(parts) == losses(whole)
    assert "Adam in 8 bits, betas" in (whole / "README.md").read_text()
    adam = train(recipe(*options, output="adam")).folder
    assert losses(whole) == pytest.approx(losses(adam), rel=0.01) and losses(whole) != losses(adam)


@pytest.mark.skipif(find_spec("torchao") is not None, reason="torchao is installed")
def test_missing_library_for_8_bits_is_an_error_before_training(recipe):
    with pytest.raises(InputError, match=r"training.optim: torchao is not installed. Install it with: pip install"):
        train(recipe("--optim=adam_8bit"))

"""Exports to the MarianMT of transformers are compared with the model, like those for other engines."""

import pytest
import torch
from transformers import MarianMTModel

from hf_vaswani import VaswaniConfig
from hf_vaswani.engines.checked_export import export_model
from hf_vaswani.errors import InputError
from hf_vaswani.interop import marian

from ..conftest import slow_but, tiny_model
from .variants import VARIANTS

# The variants that Marian supports.
SUPPORTED = {
    "paper", "sinusoids of fairseq", "no biases", "bias on the logits", "untied", "silu", "gelu", "no scale",
    "layers and heads",
}  # fmt: skip


@pytest.mark.parametrize("variant", slow_but(VARIANTS, "paper"))
def test_variant_is_verified_or_rejected_with_reasons(variant, tokenizer, tmp_path):
    model = tiny_model(**VARIANTS[variant])
    if variant not in SUPPORTED or model.config.sinusoid_exponent != VaswaniConfig().sinusoid_exponent:
        with pytest.raises(InputError, match="Marian cannot represent"):
            export_model(model, tokenizer, tmp_path / "marian", to="marian")
        assert not (tmp_path / "marian").exists()
        return
    result = export_model(model, tokenizer, tmp_path / "marian", to="marian")
    assert (result.engine, result.sentences, result.different) == ("MarianMT", 24, 0)
    assert isinstance(MarianMTModel.from_pretrained(tmp_path / "marian"), MarianMTModel)


@pytest.mark.slow
def test_export_that_translates_differently_is_rejected_and_leaves_no_folder(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(marian, "permute_residual_stream", lambda weights, order: weights)
    with pytest.raises(InputError, match="MarianMT gives logits|log-probability per token"):
        export_model(tiny_model(), tokenizer, tmp_path / "marian", to="marian")
    assert not (tmp_path / "marian").exists()


@pytest.mark.slow
def test_weights_in_16_bits_keep_their_dtype(tokenizer, tmp_path):
    export_model(tiny_model().bfloat16(), tokenizer, tmp_path / "marian", to="marian")
    assert MarianMTModel.from_pretrained(tmp_path / "marian", dtype="auto").dtype == torch.bfloat16


def test_quantization_is_rejected(tokenizer, tmp_path):
    with pytest.raises(InputError, match="quantization must not be set, got 'int8'"):
        export_model(tiny_model(), tokenizer, tmp_path / "marian", "int8", to="marian")

import copy

import pytest
import torch
from torch import nn
from transformers import AutoModelForSeq2SeqLM, pipeline

from hf_vaswani.cli import main
from hf_vaswani.fast import int8
from hf_vaswani.fast.decoder_step import DecoderStep
from hf_vaswani.fast.int8 import Int8Linear, can_quantize, int8_copy, int8_linear, joint_int8
from hf_vaswani.translation.ensemble import Ensemble
from tests.conftest import tiny_model

pytestmark = pytest.mark.skipif(not can_quantize(), reason="torch does not multiply in 8 bits here")
TEXTS = ["w1 w2 w3 w4", "w5", "w6 w7"]


def linears(*widths, bias=True):
    torch.manual_seed(0)
    return [nn.Linear(64, width, bias=bias) for width in widths]


@pytest.mark.parametrize("shape", [(1, 64), (3, 5, 64), (300, 64)])
def test_int8_product_is_close(shape):
    [linear], states = linears(40), torch.randn(shape)
    with torch.no_grad():
        expected, result = linear(states), int8_linear(linear)(states)
    # Step sizes: at most a 127th of the input's range, and a 127th of the largest weight of each row.
    error = 64 * (states.abs().max() / 127 * linear.weight.abs().max() + states.abs().max() * 0.125 / 127)
    assert result.shape == expected.shape and (result - expected).abs().max() < error
    assert (result - expected).norm() < 0.02 * expected.norm()


def test_weights_are_rounded_to_127_steps_of_their_row_maximum():
    [linear] = linears(40)
    quantized = int8_linear(linear)
    assert quantized.values.dtype == torch.int8 and (quantized.values.abs().amax(1) == 127).all()
    error = (quantized.values * quantized.scale.unsqueeze(1) - linear.weight).abs()
    assert (error <= linear.weight.abs().amax(1, keepdim=True) / 254 * 1.001).all()


def test_row_of_zeros_stays_zero():
    [linear] = linears(40)
    with torch.no_grad():
        linear.weight[3] = 0
        assert (int8_linear(linear)(torch.randn(5, 64))[:, 3] == linear.bias[3]).all()


def test_joint_layers_give_the_output_of_each_layer():
    layers, states = (
        [int8_linear(linear) for linear in [*linears(24, 8), *linears(16, bias=False)]],
        torch.randn(9, 64),
    )
    expected = torch.cat([layer(states) for layer in layers], dim=-1)
    torch.testing.assert_close(joint_int8(layers)(states), expected)
    torch.testing.assert_close(joint_int8(layers, relu=True)(states), expected.clamp(min=0))


def test_original_model_is_unchanged_and_shares_unquantized_weights():
    model = tiny_model()
    before = copy.deepcopy(model.state_dict())
    quantized = int8_copy(model)
    assert not any(isinstance(module, Int8Linear) for module in model.modules())
    assert not any(isinstance(module, nn.Linear) for module in quantized.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert quantized.model.encoder.embed_tokens.weight is model.model.encoder.embed_tokens.weight


def test_int8_searches_build_the_decoder_step_only_once(monkeypatch):
    made = []
    init = DecoderStep.__init__
    monkeypatch.setattr(DecoderStep, "__init__", lambda self, *args: made.append(1) or init(self, *args))
    model = int8_copy(tiny_model())
    for _ in range(3):
        model.generate(torch.tensor([[5, 6, 2]]), num_beams=2, max_new_tokens=3)
    assert len(made) == 1


def test_int8_scores_are_close_to_those_in_fp32():
    model, source = tiny_model(d_model=64), torch.randint(4, 30, (8, 9))
    options = {"num_beams": 2, "max_new_tokens": 8, "return_dict_in_generate": True}
    expected = model.generate(source, **options).sequences_scores
    result = int8_copy(model).generate(source, **options).sequences_scores
    torch.testing.assert_close(result, expected, atol=0.05, rtol=0.05)


def test_pipeline_and_command_give_the_same_translations(saved_model, write_lines, tmp_path):
    expected = [
        result["translation_text"] for result in pipeline("translation", str(saved_model), quantize="int8")(TEXTS)
    ]
    output = tmp_path / "output"
    options = ["--input", write_lines("input", TEXTS), "--output", str(output), "--quantize", "int8"]
    assert main(["translate", str(saved_model), *options]) == 0
    assert output.read_text().splitlines() == expected


def test_model_passed_to_a_pipeline_is_not_quantized_in_place(saved_model, tokenizer):
    model = AutoModelForSeq2SeqLM.from_pretrained(saved_model)
    pipeline("translation", model=model, tokenizer=tokenizer, quantize="int8")("w1")
    assert isinstance(model.lm_head, nn.Linear)


def test_ensemble_is_quantized_with_all_its_members():
    ensemble = int8_copy(Ensemble([tiny_model(), tiny_model()]))
    assert not any(isinstance(module, nn.Linear) for module in ensemble.modules())
    assert ensemble.get_encoder().members[0] is ensemble.members[0].get_encoder()
    ensemble.generate(torch.tensor([[5, 6, 2]]), num_beams=2, max_new_tokens=3)


def test_model_of_an_unsupported_dtype_is_rejected():
    with pytest.raises(ValueError, match="for models on a CPU in float32; this one is on cpu, in bfloat16"):
        int8_copy(tiny_model().to(torch.bfloat16))


def test_already_quantized_model_is_rejected():
    with pytest.raises(ValueError, match="no linear layers in float32. Is it quantized already"):
        int8_copy(int8_copy(tiny_model()))


def test_unsupported_processor_is_reported_with_an_alternative(monkeypatch):
    monkeypatch.setattr(int8, "can_quantize", lambda: False)
    with pytest.raises(ValueError, match='not possible on this processor.*dtype="bfloat16"'):
        int8_copy(tiny_model())


@pytest.mark.parametrize("value", ["int4", True, 8])
def test_unknown_quantization_is_rejected(saved_model, value):
    with pytest.raises(ValueError, match='quantize must be "int8" or None'):
        pipeline("translation", model=str(saved_model), quantize=value)

import pytest
import torch
from torch import nn

from hf_vaswani.fast import decoder_step as packed_linear
from hf_vaswani.fast.decoder_step import can_pack, is_plain, packed_or_plain

pytestmark = pytest.mark.skipif(not can_pack(torch.float32), reason="torch without oneDNN")


def layers(*widths, d_model=512, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    return [nn.Linear(d_model, width, bias=bias).to(dtype) for width in widths]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 512), (3, 4, 512), (200, 512)])
@pytest.mark.parametrize("widths", [(600,), (300, 200, 100), (8,)], ids=["packed", "joint", "too small to pack"])
def test_product_equals_the_concatenated_layer_outputs(dtype, shape, widths):
    if not can_pack(dtype):
        pytest.skip(f"a processor on which oneDNN has no {dtype}")
    linears, states = layers(*widths, dtype=dtype), torch.randn(shape).to(dtype)
    with torch.no_grad():
        result = packed_or_plain(linears)(states)
        expected = torch.cat([linear.double()(states.double()) for linear in linears], dim=-1)
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("width", [600, 8], ids=["packed", "too small to pack"])
def test_product_with_relu_is_clamped_at_zero(width):
    linears, states = layers(width), torch.randn(7, 512)
    with torch.no_grad():
        torch.testing.assert_close(packed_or_plain(linears, relu=True)(states), linears[0](states).clamp(min=0))


def test_layers_with_and_without_biases_form_one_product():
    linears, states = layers(300, 300), torch.randn(7, 512)
    linears[0].bias = None
    with torch.no_grad():
        expected = torch.cat([linear(states) for linear in linears], dim=-1)
        torch.testing.assert_close(packed_or_plain(linears)(states), expected)


def test_only_large_matrices_are_packed(monkeypatch):
    packed = []
    monkeypatch.setattr(packed_linear, "packed_product", lambda weight, *_: packed.append(weight.shape))
    packed_or_plain(layers(512))
    packed_or_plain(layers(256, 256))
    packed_or_plain(layers(256))
    assert packed == [(512, 512), (512, 512)]


@pytest.mark.parametrize(
    "change",
    [
        lambda linear: linear.register_forward_hook(lambda *args: None),
        lambda linear: linear.register_forward_pre_hook(lambda *args: None),
        lambda linear: setattr(linear, "forward", lambda states: states),
        lambda linear: nn.utils.parametrizations.weight_norm(linear),
    ],
    ids=["hook", "pre-hook", "replaced forward", "parametrized weight"],
)
def test_layer_that_does_more_than_multiply_is_not_plain(change):
    [linear] = layers(8)
    assert is_plain(linear)
    change(linear)
    assert not is_plain(linear)


def test_random_state_is_left_unchanged():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    can_pack.cache_clear()
    assert can_pack(torch.float32)
    assert torch.equal(torch.rand(3), expected)


def test_without_onednn_nothing_is_packed(monkeypatch):
    monkeypatch.setattr(packed_linear, "can_pack", lambda dtype: False)
    monkeypatch.setattr(packed_linear, "packed_product", None)
    linears, states = layers(512), torch.randn(2, 512)
    with torch.no_grad():
        assert torch.equal(packed_or_plain(linears)(states), linears[0](states))

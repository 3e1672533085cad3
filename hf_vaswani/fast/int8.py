"""Linear layers in 8-bit integers, for inference on a CPU.

A processor multiplies these two to four times as fast as floats. A weight has a scale for each of its rows, computed
once; the input gets one scale in each product, from its largest value, so that a translation may differ slightly from
batch to batch. Embeddings, norms and attention stay in fp32.
"""

import copy
import functools
import warnings
from collections.abc import Sequence

import torch
from torch import nn

from .packed_linear import is_plain

LARGEST = 127


class Int8Linear(nn.Module):
    """A linear layer, or several with the same input side by side, in 8 bits.

    Args:
        weight: int8, `(out_features, in_features)`.
        scale: float32, `(out_features,)`: what each row is to be multiplied by.
        bias: float32, `(out_features,)`; or None.
        relu: apply ReLU to the output.
    """

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, relu: bool = False):
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.values, self.scale, self.bias = weight, scale, bias
        # For code that looks at a layer's dtype.
        self.weight = torch.empty(0)
        self._multiply = torch.ops.quantized.linear_relu_dynamic if relu else torch.ops.quantized.linear_dynamic
        # Without these instructions, sums of two products may overflow: the input then gets 7 bits.
        self._reduce_range = not torch.cpu._is_vnni_supported()
        with warnings.catch_warnings():  # torch deprecates these tensors, but not the product
            warnings.simplefilter("ignore")
            no_shift = torch.zeros(len(weight), dtype=torch.long)
            quantized = torch._make_per_channel_quantized_tensor(weight, scale.double(), no_shift, 0)
        self._packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """`(…, in_features)` → `(…, out_features)`, float32."""
        return self._multiply(states, self._packed, self._reduce_range)


def int8_linear(linear: nn.Linear) -> Int8Linear:
    """Convert a linear layer to 8 bits: divide each row of its weight by its largest magnitude / 127, and round."""
    weight = linear.weight.detach()
    scale = (weight.abs().amax(1) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    values = (weight / scale.unsqueeze(1)).round().to(torch.int8)
    return Int8Linear(values, scale, None if linear.bias is None else linear.bias.detach())


def joint_int8(layers: Sequence[Int8Linear], relu: bool = False) -> Int8Linear:
    """Combine layers with the same input into one, which returns their outputs side by side."""
    biases = [torch.zeros(layer.out_features) if layer.bias is None else layer.bias for layer in layers]
    weight, scale = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("values", "scale"))
    return Int8Linear(weight, scale, torch.cat(biases), relu)


def int8_copy(model: nn.Module) -> nn.Module:
    """Copy a model with its linear layers in 8 bits; the copy shares everything else.

    Raises:
        ValueError: the model is an export, is not in float32 on a CPU, or has no plain linear layers, or this torch
            cannot multiply in 8 bits on this processor.
    """
    if engine := getattr(model, "engine_name", ""):
        raise ValueError(f'quantize="int8" is not for {engine}. Export the model with --quantization int8 instead.')
    device, dtype = model.device.type, model.dtype
    if device != "cpu" or dtype != torch.float32:
        raise ValueError(
            f'quantize="int8" is for models on a CPU in float32; this one is on {device}, in {str(dtype)[6:]}.'
        )
    if not can_quantize():
        raise ValueError('quantize="int8" is not possible on this processor with this torch. Use dtype="bfloat16".')
    if not any(is_plain(module) for module in model.modules()):
        raise ValueError('quantize="int8": the model has no linear layers in float32. Is it quantized already?')
    return _copied(model, {})


def _copied(module: nn.Module, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """Copy a module with its linear layers in 8 bits; a module that is used in several places is copied once."""
    if module not in done:
        if is_plain(module):
            done[module] = int8_linear(module)
        else:
            done[module] = changed = copy.copy(module)
            changed._modules = {
                name: child if child is None else _copied(child, done) for name, child in module._modules.items()
            }
    return done[module]


@functools.cache
def can_quantize() -> bool:
    """Whether this torch can multiply in 8 bits on this processor."""
    linear = nn.utils.skip_init(nn.Linear, 64, 16, device="cpu")
    states = torch.linspace(-1, 1, 4 * 64).view(4, 64)
    try:
        with torch.no_grad():
            linear.weight.copy_(torch.linspace(-1, 1, 16 * 64).view(16, 64))
            linear.bias.zero_()
            return torch.allclose(int8_linear(linear)(states), linear(states), atol=0.3)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


__all__ = ["Int8Linear", "int8_copy", "joint_int8"]

"""Linear layers for inference on a CPU: weights in the order in which it multiplies fastest, or in 8-bit integers.

A processor multiplies these two to four times as fast as floats. A weight has a scale for each of its rows, computed
once; the input gets one scale in each product, from its largest value, so that a translation may differ slightly from
batch to batch. Embeddings, norms and attention stay in fp32.
"""

import copy
import functools
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

PACKED_DTYPES = (torch.float32, torch.bfloat16)
# For smaller matrices the call itself costs more than is gained.
LEAST_ELEMENTS = 2**18

# States `(…, in_features)` → `(…, out_features)`.
Product = Callable[[torch.Tensor], torch.Tensor]
LARGEST = 127


def packed_or_plain(layers: Sequence[nn.Linear], relu: bool = False) -> Product:
    """Combine linear layers into one product for inference, which returns their outputs side by side.

    Args:
        relu: apply ReLU to the outputs.
    """
    weight, bias = joint_weights(layers)
    if weight.device.type == "cpu" and weight.numel() >= LEAST_ELEMENTS and can_pack(weight.dtype):
        return packed_product(weight, bias, relu)
    if relu:
        return lambda states: F.linear(states, weight, bias).relu_()
    return lambda states: F.linear(states, weight, bias)


def joint_weights(layers: Sequence[nn.Linear]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Concatenate the weights, to `(sum of out_features, in_features)`, and biases of layers with the same input."""
    weights = [layer.weight.detach() for layer in layers]
    if all(layer.bias is None for layer in layers):
        return torch.cat(weights) if len(weights) > 1 else weights[0], None
    biases = [
        layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias.detach() for layer in layers
    ]
    return (torch.cat(weights), torch.cat(biases)) if len(weights) > 1 else (weights[0], biases[0])


def packed_product(weight: torch.Tensor, bias: torch.Tensor | None, relu: bool = False) -> Product:
    """A product with a weight laid out for oneDNN."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)
    after = "relu" if relu else "none"
    return lambda states: torch.ops.mkldnn._linear_pointwise(states, packed, bias, after, [], "")


def is_plain(module: nn.Module) -> bool:
    """Whether a module is a linear layer and nothing more: no adapter, no quantized or sharded weight, no hooks."""
    return (
        type(module) is nn.Linear
        and type(module.weight) is nn.Parameter
        and type(module.weight.data) is torch.Tensor
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
    )


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch can multiply by packed weights on this machine; neither operation is documented."""
    if dtype not in PACKED_DTYPES:
        return False
    # Fixed numbers rather than random ones, which would change the results of sampling with a given seed.
    states = torch.linspace(-1, 1, 4 * 32).view(4, 32).to(dtype)
    weight, bias = torch.linspace(-1, 1, 16 * 32).view(16, 32).to(dtype), torch.zeros(16, dtype=dtype)
    try:
        with torch.no_grad():
            result = packed_product(weight, bias, relu=True)(states)
        return torch.allclose(result.float(), F.linear(states, weight, bias).relu().float(), atol=0.1)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


__all__ = ["Product", "is_plain", "packed_or_plain"]


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

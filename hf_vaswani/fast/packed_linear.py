"""Linear layers for inference on a CPU, with weights in the order in which it multiplies fastest."""

import functools
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional as F

PACKED_DTYPES = (torch.float32, torch.bfloat16)
# For smaller matrices the call itself costs more than is gained.
LEAST_ELEMENTS = 2**18

# States `(…, in_features)` → `(…, out_features)`.
Product = Callable[[torch.Tensor], torch.Tensor]


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

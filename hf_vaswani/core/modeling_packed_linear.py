"""Weights in the order in which a CPU multiplies fastest.

A search multiplies by the same matrices hundreds of times. oneDNN, with which torch is built, lays a matrix out for
that once, where `nn.Linear` does it again in each product: products of many rows gain a tenth, those of a few, as at
the end of a search, take a fraction of the time.

The file travels with each checkpoint as remote code and therefore imports nothing but torch.
"""

import copy
import functools
from collections.abc import Collection

import torch
from torch import nn

PACKED_DTYPES = (torch.float32, torch.bfloat16)
# For smaller matrices the call itself costs more than is gained.
LEAST_ELEMENTS = 2**18


class PackedLinear(nn.Module):
    """A linear layer, for inference, whose weight is laid out for oneDNN."""

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.weight = linear.weight  # for those who ask a layer about it
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())
        self.bias = linear.bias

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """`(…, in_features)` → `(…, out_features)`."""
        return torch.ops.mkldnn._linear_pointwise(states, self.packed, self.bias, "none", [], "")


def with_packed_weights(module: nn.Module, left_alone: Collection[nn.Module] = ()) -> nn.Module:
    """The same module with packed weights: a copy that shares all the rest, so that the module itself stays as it is.

    Args:
        left_alone: parts of it that are not worth it.

    Returns:
        The module itself where nothing can be packed: on other devices, say, or without oneDNN.
    """
    if module in left_alone or torch.is_autocast_enabled("cpu"):
        return module
    if is_packable(module):
        return PackedLinear(module)
    children = {name: with_packed_weights(child, left_alone) for name, child in module.named_children()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    changed = copy.copy(module)
    changed._modules = {**module._modules, **children}
    return changed


def is_packable(module: nn.Module) -> bool:
    """Whether a module is a plain linear layer on a CPU, large enough, without hooks or adapters."""
    return (
        type(module) is nn.Linear
        and type(module.weight) is nn.Parameter
        and module.weight.device.type == "cpu"
        and module.weight.numel() >= LEAST_ELEMENTS
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__)
        and can_pack(module.weight.dtype)
    )


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this torch, on this machine, multiplies by packed weights; neither operation is documented."""
    if dtype not in PACKED_DTYPES:
        return False
    # Numbers that are not drawn: the search may be a sampling one, whose seed has been set.
    linear = nn.utils.skip_init(nn.Linear, 32, 16, dtype=dtype, device="cpu")
    states = torch.linspace(-1, 1, 4 * 32).view(4, 32).to(dtype)
    try:
        with torch.no_grad():
            linear.weight.copy_(torch.linspace(-1, 1, 16 * 32).view(16, 32))
            linear.bias.zero_()
            return torch.allclose(PackedLinear(linear)(states).float(), linear(states).float(), atol=0.1)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


__all__ = ["with_packed_weights"]

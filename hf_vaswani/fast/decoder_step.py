"""A decoder step, which a search takes hundreds of times: the arithmetic of `VaswaniDecoder` and nothing else.

Projections of the same states are one matrix product, weights are laid out for the processor, and no module, mask or
cache is looked up again between products. Up to rounding, the result equals the modules'.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module
from transformers.cache_utils import DynamicLayer, EncoderDecoderCache

from ..core.modeling_layers import VaswaniAttention, VaswaniDecoderLayer, split_heads
from .layers import attention_weights


@dataclass(frozen=True)
class StepInput:
    """The input of a search step.

    Attributes:
        tokens: ids of the new tokens, `(sentences, length)`.
        position_ids: `(1, length or 1)`.
        cache: keys and values of earlier steps, extended in place; the target has layers such as `PoolLayer`.
        encoder_output: `(sentences, source_length, d_model)`.
        mask: added to the attention scores, `(sentences, 1, length, entries)`; without it, tokens see earlier ones.
        source_mask: the same for the source, `(sentences, 1, 1, source_length)`.
    """

    tokens: torch.Tensor
    position_ids: torch.Tensor
    cache: EncoderDecoderCache
    encoder_output: torch.Tensor
    mask: torch.Tensor | None
    source_mask: torch.Tensor | None


class DecoderStep:
    """The decoder and the output projection of a model, for inference.

    Args:
        decoder: one that [`can_step`] accepts, with weights that do not change in the meantime.
        lm_head: the output projection.
    """

    def __init__(self, decoder: nn.Module, lm_head: nn.Linear):
        self.embed = decoder.embed
        self.layers = [LayerStep(layer) for layer in decoder.layers]
        self.norm = decoder.layer_norm
        self.head = packed_or_plain([lm_head])

    def states(self, step: StepInput) -> torch.Tensor:
        """The new tokens' states `(sentences, length, d_model)` before the output projection."""
        states, mask = self.embed(step.tokens, None, position_ids=step.position_ids), step.mask
        shape = states.shape
        states = states.reshape(-1, shape[-1])
        if mask is None and shape[1] > 1:
            mask = torch.full((shape[1], shape[1]), torch.finfo(states.dtype).min, dtype=states.dtype).triu_(1)
            mask = mask.to(states.device)
        own, source = step.cache.self_attention_cache.layers, step.cache.cross_attention_cache.layers
        for i, layer in enumerate(self.layers):
            states = layer(states, len(step.tokens), own[i], source[i], step.encoder_output, mask, step.source_mask)
        return self.norm(states).view(shape)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """States `(…, d_model)` → logits of the next tokens `(…, vocab_size)`."""
        return self.head(states)


class LayerStep:
    """One layer of a [`DecoderStep`], on states `(sentences * length, d_model)`."""

    def __init__(self, layer: VaswaniDecoderLayer):
        own, cross = layer.self_attn, layer.encoder_attn
        self.norm_first = layer.norm_first
        self.own, self.cross = own, cross
        self.norms = layer.self_attn_layer_norm, layer.encoder_attn_layer_norm, layer.final_layer_norm
        self.own_input = packed_or_plain([own.q_proj, own.k_proj, own.v_proj])
        self.own_output = packed_or_plain([own.out_proj])
        self.cross_query = packed_or_plain([cross.q_proj])
        self.cross_source = packed_or_plain([cross.k_proj, cross.v_proj])
        self.cross_output = packed_or_plain([cross.out_proj])
        is_relu = type(layer.activation_fn) is nn.ReLU
        self.fc1 = packed_or_plain([layer.fc1], relu=is_relu)
        self.activation: Callable = nn.Identity() if is_relu else layer.activation_fn
        self.fc2 = packed_or_plain([layer.fc2])

    def __call__(
        self,
        states: torch.Tensor,
        sentences: int,
        own: DynamicLayer,
        source: DynamicLayer,
        encoder_output: torch.Tensor,
        mask: torch.Tensor | None,
        source_mask: torch.Tensor | None,
    ) -> torch.Tensor:
        states = self._residual(0, states, lambda x: self._attend_to_target(x, sentences, own, mask))
        states = self._residual(
            1, states, lambda x: self._attend_to_source(x, sentences, source, encoder_output, source_mask)
        )
        return self._residual(2, states, lambda x: self.fc2(self.activation(self.fc1(x))))

    def _residual(
        self, place: int, states: torch.Tensor, sublayer: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        norm = self.norms[place]
        if self.norm_first:
            return sublayer(norm(states)).add_(states)
        return norm(sublayer(states).add_(states))

    def _attend_to_target(
        self, states: torch.Tensor, sentences: int, layer: DynamicLayer, mask: torch.Tensor | None
    ) -> torch.Tensor:
        query, key, value = heads(self.own_input(states), self.own, sentences, 3)
        keys, values = layer.update(key, value)
        return self.own_output(attend(query, keys, values, self.own.scaling, mask))

    def _attend_to_source(
        self,
        states: torch.Tensor,
        sentences: int,
        layer: DynamicLayer,
        encoder_output: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        if not layer.is_initialized:
            projected = self.cross_source(encoder_output.reshape(-1, encoder_output.shape[-1]))
            layer.update(*heads(projected, self.cross, sentences, 2))
        [query] = heads(self.cross_query(states), self.cross, sentences, 1)
        return self.cross_output(attend(query, layer.keys, layer.values, self.cross.scaling, mask))


def heads(states: torch.Tensor, attention: VaswaniAttention, sentences: int, parts: int) -> Iterator[torch.Tensor]:
    """Split the output `(sentences * length, …)` of one product into `(sentences, heads, length, d_k or d_v)` each.

    Args:
        parts: 1 for queries, 2 for keys and values, 3 for all of them.
    """
    d_k, d_v = attention.d_k, attention.d_v
    widths = attention.q_proj.out_features, attention.k_proj.out_features, attention.v_proj.out_features
    chosen = {1: (0,), 2: (1, 2), 3: (0, 1, 2)}[parts]
    split = states.view(sentences, -1, states.shape[-1]).split([widths[i] for i in chosen], dim=-1)
    return (split_heads(part, d_v if i == 2 else d_k) for i, part in zip(chosen, split))


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float, mask: torch.Tensor | None
) -> torch.Tensor:
    """softmax(Q K^T / sqrt(d_k) + mask) V (equation 1) → `(sentences * length, heads * d_v)`."""
    if query.device.type == "cpu":
        # With few queries, torch's own attention is slower than plain matrix products.
        n, count, length, _ = query.shape
        scores = query.new_empty(())
        scores = torch.baddbmm(
            scores, query.flatten(0, 1), keys.flatten(0, 1).transpose(1, 2), beta=0, alpha=scaling
        ).view(n, count, length, -1)
        if mask is not None:
            scores += mask
        weights = attention_weights(scores).to(values.dtype)
        attended = torch.bmm(weights.flatten(0, 1), values.flatten(0, 1)).view(n, count, length, -1)
    else:
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scaling)
    return attended.transpose(1, 2).flatten(2).flatten(0, 1)


def can_step(decoder: nn.Module, lm_head: nn.Module) -> bool:
    """Whether these are unmodified modules of this package in eval mode, without global hooks or autocast."""
    watchers = module._global_forward_hooks or module._global_forward_pre_hooks
    return (
        not (decoder.training or watchers or torch.is_autocast_enabled(decoder.device.type))
        and all(is_own(layer) for layer in decoder.layers)
        and is_plain(lm_head)
    )


def is_own(layer: nn.Module) -> bool:
    """Whether a layer and all its parts are of the original classes, without adapters for example."""
    return all(
        is_plain(part) if isinstance(part, nn.Linear) else type(part) is nn.LayerNorm or is_own_class(type(part))
        for part in layer.modules()
        if part is not layer.activation_fn
    )


def is_own_class(cls: type) -> bool:
    """Whether a class is defined in this package."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


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


__all__ = ["DecoderStep", "StepInput", "can_step", "is_own_class"]

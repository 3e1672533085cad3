"""The parts of the Transformer: positions (section 3.5), attention (3.2), encoder and decoder layers (3.1, 3.3).

Read it before `modeling_vaswani.py`, which builds the model from them.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_vaswani import VaswaniConfig


def sinusoidal_positions(
    position_ids: torch.Tensor, dim: int, layout: str = "interleaved", exponent: str = "paper"
) -> torch.Tensor:
    """Sinusoids of the given positions, exact at any length (section 3.5).

    Args:
        position_ids: integer positions of any shape `(…)`.
        dim: even width of the encoding.
        layout: `"interleaved"` (sin, cos, sin, cos, …) or `"halves"` (all sines, then all cosines).
        exponent: frequency i is 10000^(-2i/dim) for `"paper"`, 10000^(-i/(dim/2 - 1)) for `"tensor2tensor"`.

    Returns:
        `(…, dim)`, float64 (float32 on devices without float64).
    """
    # float64, since at position 5000 a float32 angle is already wrong in the fourth decimal.
    dtype = torch.float32 if position_ids.device.type == "mps" else torch.float64
    half = dim // 2
    index = torch.arange(half, dtype=dtype, device=position_ids.device)
    steps = half if exponent == "paper" else max(half - 1, 1)
    angles = position_ids.to(dtype).unsqueeze(-1) * torch.exp(index * (-math.log(10000.0) / steps))
    if layout == "halves":
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """Positions computed on the fly: no table to store, to extend or to fill after loading (section 3.5)."""

    def __init__(self, config: VaswaniConfig):
        super().__init__()
        self.dim = config.d_model
        self.layout = config.sinusoid_layout
        self.exponent = config.sinusoid_exponent
        self.offset = config.sinusoid_offset

    def forward(self, position_ids: torch.Tensor) -> torch.Tensor:
        """Positions `(…)`, counted from 0, → `(…, d_model)` in float64, or float32 on devices without float64."""
        return sinusoidal_positions(position_ids + self.offset, self.dim, self.layout, self.exponent)


class LearnedPositions(nn.Embedding):
    """A trained vector for each position up to `max_position_embeddings` (Table 3, row E)."""

    def __init__(self, config: VaswaniConfig):
        super().__init__(config.max_position_embeddings, config.d_model)


class NoPositions(nn.Module):
    """No positions: zeros, so that embeddings are used as they are."""

    def __init__(self, config: VaswaniConfig):
        super().__init__()
        self.dim = config.d_model

    def forward(self, position_ids: torch.Tensor) -> torch.Tensor:
        return position_ids.new_zeros(*position_ids.shape, self.dim)


POSITIONS = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions, "none": NoPositions}


def scaled_dot_product_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1): the "eager" attention, which also returns its weights.

    Args:
        query: `(batch, heads, target_length, d_k)`; key and value: `(batch, heads, source_length, d_k or d_v)`.
        attention_mask: additive, or bool with True where attention is allowed; broadcastable to
            `(batch, heads, target_length, source_length)`. Without one, queries of a causal module see the keys up to
            their own position.

    Returns:
        The attended values `(batch, target_length, heads, d_v)` and the weights
        `(batch, heads, target_length, source_length)`.
    """
    scores = masked_scores(module, query, key, attention_mask, scaling)
    weights = F.dropout(scores.softmax(dim=-1).to(value.dtype), p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def masked_scores(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
) -> torch.Tensor:
    """Q K^T / sqrt(d_k) `(batch, heads, target_length, source_length)`, very low where attention is not allowed.

    float32: in fp16, the lowest finite mask value plus a negative score is -inf, and a row of those becomes NaN.
    """
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    scores = (torch.matmul(query, key.transpose(-1, -2)) * scaling).float()
    if attention_mask is None and query.shape[2] > 1 and module.is_causal:
        attention_mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        return scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    return scores if attention_mask is None else scores + attention_mask.float()


class VaswaniAttention(nn.Module):
    """Multi-head attention (section 3.2.2) through transformers' attention interface, with key–value caches."""

    functions = ALL_ATTENTION_FUNCTIONS

    def __init__(self, config: VaswaniConfig, num_heads: int, layer_idx: int, is_causal: bool = False):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.d_k = config.d_k or config.d_model // num_heads
        self.d_v = config.d_v or config.d_model // num_heads
        self.scaling = self.d_k**-0.5
        self.dropout = config.attention_dropout
        self.q_proj = nn.Linear(config.d_model, num_heads * self.d_k, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.d_model, num_heads * self.d_k, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.d_model, num_heads * self.d_v, bias=config.attention_bias)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            projection.init_gain = config.qkv_init_gain
        self.out_proj = nn.Linear(num_heads * self.d_v, config.d_model, bias=config.attention_bias)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend from `hidden_states` to themselves or, where given, to `encoder_hidden_states`.

        Args:
            hidden_states: `(batch, target_length, d_model)`.
            attention_mask: in the form that the attention implementation expects.
            encoder_hidden_states: `(batch, source_length, d_model)`; makes this cross-attention.
            cache: keys and values of earlier steps, extended in place.

        Returns:
            `(batch, target_length, d_model)`, and the attention weights if the implementation returns them.
        """
        if encoder_hidden_states is None:
            key, value = self._self_attention_states(hidden_states, cache)
        else:
            key, value = self._cross_attention_states(encoder_hidden_states, cache)
        query = split_heads(self.q_proj(hidden_states), self.d_k)
        attend = self.functions.get_interface(self.config._attn_implementation, scaled_dot_product_attention)
        attended, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            scaling=self.scaling,
        )
        return self.out_proj(attended.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights

    def _self_attention_states(
        self, hidden_states: torch.Tensor, cache: Cache | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all steps so far, this one last."""
        key = split_heads(self.k_proj(hidden_states), self.d_k)
        value = split_heads(self.v_proj(hidden_states), self.d_v)
        if isinstance(cache, EncoderDecoderCache):
            cache = cache.self_attention_cache
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
        return key, value

    def _cross_attention_states(
        self, encoder_hidden_states: torch.Tensor, cache: Cache | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the source, projected only at the first step."""
        source_cache = cache.cross_attention_cache if isinstance(cache, EncoderDecoderCache) else None
        if source_cache is not None and cache.is_updated.get(self.layer_idx):
            return source_cache.layers[self.layer_idx].keys, source_cache.layers[self.layer_idx].values
        key = split_heads(self.k_proj(encoder_hidden_states), self.d_k)
        value = split_heads(self.v_proj(encoder_hidden_states), self.d_v)
        if source_cache is not None:
            key, value = source_cache.update(key, value, self.layer_idx)
            cache.is_updated[self.layer_idx] = True
        return key, value


def split_heads(states: torch.Tensor, head_dim: int) -> torch.Tensor:
    """`(batch, length, heads * head_dim)` → `(batch, heads, length, head_dim)`."""
    return states.view(*states.shape[:-1], states.shape[-1] // head_dim, head_dim).transpose(1, 2)


class VaswaniDropout(nn.Dropout):
    """In training, zeroes each state with probability p and divides the others by 1 - p (section 5.4)."""


class VaswaniLayer(GradientCheckpointingLayer):
    """What encoder and decoder layers share: residual sub-layers (3.1) and the feed-forward network (3.3)."""

    attention_class, dropout_class = VaswaniAttention, VaswaniDropout

    def __init__(self, config: VaswaniConfig, ffn_dim: int):
        super().__init__()
        self.norm_first = config.norm_position == "pre"
        self.dropout = self.dropout_class(config.dropout)
        self.activation_dropout = self.dropout_class(config.activation_dropout)
        self.activation_fn = ACT2FN[config.activation_function]
        self.fc1 = nn.Linear(config.d_model, ffn_dim, bias=config.ffn_bias)
        self.fc2 = nn.Linear(ffn_dim, config.d_model, bias=config.ffn_bias)
        self.final_layer_norm = layer_norm(config)

    def residual(self, hidden_states: torch.Tensor, norm: nn.Module, sublayer: Callable) -> torch.Tensor:
        """LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) where the norm comes first."""
        output = sublayer(norm(hidden_states) if self.norm_first else hidden_states)
        output = hidden_states + self.dropout(output)
        return output if self.norm_first else norm(output)

    def feed_forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """max(0, x W1 + b1) W2 + b2 (equation 2), with the config's activation."""
        return self.fc2(self.activation_dropout(self.activation_fn(self.fc1(hidden_states))))


class VaswaniEncoderLayer(VaswaniLayer):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.encoder_ffn_dim)
        self.self_attn = self.attention_class(config, config.encoder_attention_heads, layer_idx)
        self.self_attn_layer_norm = layer_norm(config)

    def forward(self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """`(batch, source_length, d_model)` → the same shape."""
        hidden_states = self.residual(
            hidden_states, self.self_attn_layer_norm, lambda x: self.self_attn(x, attention_mask)[0]
        )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


class VaswaniDecoderLayer(VaswaniLayer):
    """Causal self-attention over the target, attention to the source, then the feed-forward network."""

    def __init__(self, config: VaswaniConfig, layer_idx: int):
        super().__init__(config, config.decoder_ffn_dim)
        heads = config.decoder_attention_heads
        self.self_attn = self.attention_class(config, heads, layer_idx, is_causal=True)
        self.self_attn_layer_norm = layer_norm(config)
        self.encoder_attn = self.attention_class(config, heads, layer_idx)
        self.encoder_attn_layer_norm = layer_norm(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """`(batch, target_length, d_model)` → the same shape."""
        hidden_states = self.residual(
            hidden_states,
            self.self_attn_layer_norm,
            lambda x: self.self_attn(x, attention_mask, cache=cache)[0],
        )
        if encoder_hidden_states is not None:
            hidden_states = self.residual(
                hidden_states,
                self.encoder_attn_layer_norm,
                lambda x: self.encoder_attn(x, encoder_attention_mask, encoder_hidden_states, cache)[0],
            )
        return self.residual(hidden_states, self.final_layer_norm, self.feed_forward)


def layer_norm(config: VaswaniConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

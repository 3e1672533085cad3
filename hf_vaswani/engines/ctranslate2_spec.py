"""Lays out a model's weights as CTranslate2's specification of a Transformer does.

Models of this package and of Bart's family, whose layers have the same names, are laid out here; T5's family, by
CTranslate2's own loaders. Weights are copied, in float32, since CTranslate2 modifies tensors in place.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..generation.settings import position_limit
from ..interop.conversion import unexportable_features

# Names in transformers' ACT2FN → names in CTranslate2's `Activation`.
ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_python": "GELU", "gelu_new": "GELUTanh", "gelu_fast": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh", "quick_gelu": "GELUSigmoid", "silu": "SWISH", "swish": "SWISH", "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """How the layers of Bart's relatives differ."""

    pre_norm: bool = False  # layer normalization before each sublayer, and once more after the last layer
    norms_embeddings: bool = False


BART_FAMILY = {
    "bart": Family(norms_embeddings=True),
    "plbart": Family(norms_embeddings=True),
    "mbart": Family(pre_norm=True, norms_embeddings=True),
    "m2m_100": Family(pre_norm=True),
    "marian": Family(),
    "pegasus": Family(pre_norm=True),
}
T5_LOADERS = {"t5": "T5Loader", "mt5": "MT5Loader", "umt5": "UMT5Loader"}


def unsupported_features(model: PreTrainedModel) -> list[str]:
    """List the features of a model that CTranslate2 does not support."""
    config = model.config
    if config.model_type in T5_LOADERS:
        return []
    if not isinstance(model, VaswaniForConditionalGeneration) and config.model_type not in BART_FAMILY:
        return [f"models of type {config.model_type}"]
    checks = {f'activation_function="{config.activation_function}"': config.activation_function not in ACTIVATIONS}
    if isinstance(model, VaswaniForConditionalGeneration):
        heads = (config.encoder_attention_heads, config.decoder_attention_heads)
        widths = [width for width in (config.d_k, config.d_v) if width is not None]
        checks = {
            **unexportable_features(model),
            'final_norm=True with norm_position="post"': config.norm_position == "post" and bool(config.final_norm),
            **checks,
            f"d_k={config.d_k} and d_v={config.d_v}": any(
                w * count != config.d_model for w in widths for count in heads
            ),
        }
    checks["no eos_token_id"] = config.eos_token_id is None
    return [feature for feature, applies in checks.items() if applies]


def make_spec(model: PreTrainedModel, least_positions: int = 0) -> Any:
    """Make CTranslate2's `TransformerSpec` for a model, still without vocabularies.

    Args:
        model: a model without [`unsupported_features`]; it is not modified.
        least_positions: rows of a position table that can be computed to any length.
    """
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    if loader := T5_LOADERS.get(config.model_type):
        from ctranslate2.converters import transformers as loaders

        model = copy.deepcopy(model).cpu().float()
        # In newer releases of transformers, tied weights do not mean that the decoder's output is scaled.
        model.config.tie_word_embeddings = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
        return getattr(loaders, loader)().get_model_spec(model)
    is_own = isinstance(model, VaswaniForConditionalGeneration)
    family = Family(config.norm_position == "pre") if is_own else BART_FAMILY[config.model_type]
    encoder, decoder = model.get_encoder(), model.get_decoder()
    settings = {
        "pre_norm": family.pre_norm,
        "no_final_norm": not isinstance(getattr(encoder, "layer_norm", None), nn.LayerNorm),
        "activation": getattr(common_spec.Activation, ACTIVATIONS[config.activation_function]),
        "layernorm_embedding": family.norms_embeddings,
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.encoder_layers, config.encoder_attention_heads, **settings),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, config.decoder_attention_heads, **settings),
    )
    for part, stack, embeddings in (
        (spec.encoder, encoder, spec.encoder.embeddings[0]),
        (spec.decoder, decoder, spec.decoder.embeddings),
    ):
        part.scale_embeddings = config.d_model**0.5 if config.scale_embedding else 1.0
        embeddings.weight = copied(stack.embed_tokens.weight)
        part.position_encodings.encodings = positions(stack, config, least_positions)
        if family.pre_norm and not settings["no_final_norm"]:
            _set_norm(part.layer_norm, stack.layer_norm)
        if family.norms_embeddings:
            _set_norm(part.layernorm_embedding, stack.layernorm_embedding)
        for layer_spec, layer in zip(part.layer, stack.layers):
            _set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_layer_norm)
            if stack is decoder:
                _set_attention(layer_spec.attention, layer.encoder_attn, layer.encoder_attn_layer_norm, is_cross=True)
            _set_linear(layer_spec.ffn.linear_0, layer.fc1)
            _set_linear(layer_spec.ffn.linear_1, layer.fc2)
            _set_norm(layer_spec.ffn.layer_norm, layer.final_layer_norm)
    spec.decoder.start_from_zero_embedding = getattr(config, "decoder_start_embedding", None) == "zero"
    _set_linear(spec.decoder.projection, model.lm_head)
    bias = getattr(model, "final_logits_bias", None)
    if bias is not None and bias.any():
        spec.decoder.projection.bias = copied(bias.flatten())
    spec.config.layer_norm_epsilon = getattr(config, "layer_norm_eps", 1e-5)
    return spec


def position_count(spec: object) -> int:
    """The number of positions that a specification has embeddings for; 0 if any position will do."""
    tables = [getattr(stack, "position_encodings", None) for stack in (spec.encoder, spec.decoder)]
    return min((len(table.encodings) for table in tables if table is not None), default=0)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the CPU in float32; a copy, since CTranslate2 modifies tensors in place."""
    return tensor.detach().cpu().to(torch.float32, copy=True)


@torch.no_grad()
def positions(stack: nn.Module, config: object, least: int = 0) -> torch.Tensor:
    """The position table `(positions, d_model)` that a stack adds to its embeddings."""
    table = stack.embed_positions
    if isinstance(config, VaswaniConfig):
        is_fixed = position_limit(stack) is not None
        length = config.max_position_embeddings if is_fixed else max(config.max_position_embeddings, least)
        if config.position_type == "none":
            return torch.zeros(length, config.d_model)
        return copied(table(torch.arange(length, device=stack.embed_tokens.weight.device)))
    if config.model_type == "m2m_100":  # its table grows
        length = max(config.max_position_embeddings, least) + table.offset
        weights = table.get_embedding(length, config.d_model, table.padding_idx)
    else:
        weights = table.weight
    return copied(weights[getattr(table, "offset", 0) :])


def _set_norm(spec: object, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = copied(norm.weight), copied(norm.bias)


def _set_linear(spec: object, linear: nn.Linear) -> None:
    spec.weight = copied(linear.weight)
    if linear.bias is not None:
        spec.bias = copied(linear.bias)


def _set_attention(spec: object, attention: nn.Module, norm: nn.LayerNorm, is_cross: bool = False) -> None:
    """Set the projections of an attention layer, joined if they have the same input: in self-attention, all three."""
    query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
    for part, layers in zip(spec.linear, [[query], [key, value]] if is_cross else [[query, key, value]]):
        part.weight = torch.cat([copied(layer.weight) for layer in layers])
        if any(layer.bias is not None for layer in layers):
            part.bias = torch.cat(
                [torch.zeros(layer.out_features) if layer.bias is None else copied(layer.bias) for layer in layers]
            )
    _set_linear(spec.linear[-1], attention.out_proj)
    _set_norm(spec.layer_norm, norm)

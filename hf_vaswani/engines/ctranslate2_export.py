"""Exports models to CTranslate2, an engine in C++ that needs neither torch nor transformers.

Weights, positions and vocabularies are laid out as in CTranslate2's specification of a Transformer. The folder also
holds the tokenizer, the generation config, and the config fields that `ctranslate2_model.py` needs to read it.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_layers import VaswaniAttention
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.tokenizers.tokenizer import save_tokenizer
from ..errors import InputError
from ..interop.conversion import unexportable_features
from ..runtime.imports import import_extra
from ..text.languages import own_languages
from ..text.vocabularies import vocabularies
from .ctranslate2_config import COMPUTE_TYPES, MODEL_TYPE
from .ctranslate2_model import unsupported
from .engine_model import weights_digest

# Names in transformers' ACT2FN → names in CTranslate2's `Activation`.
ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu_python": "GELU", "gelu_new": "GELUTanh", "gelu_fast": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh", "quick_gelu": "GELUSigmoid", "silu": "SWISH", "swish": "SWISH", "tanh": "Tanh",
    "sigmoid": "Sigmoid",
}  # fmt: skip
# The config fields that a reader of the folder needs besides CTranslate2's own.
FIELDS = (
    "vocab_size", "decoder_vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings",
    "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "longest_training_source", "multi_sentence_share", "length_ratio",
)  # fmt: skip


def write(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a folder that `ctranslate2.Translator` and this package can open.

    Args:
        model: a model without any [`unsupported_features`] features; it is not modified.
        folder: an empty folder.
        quantization: one of `COMPUTE_TYPES`; `None` for float32.

    Raises:
        InputError: CTranslate2 is not installed, or cannot represent the model, or `quantization` is unknown.
    """
    if features := unsupported_features(model):
        raise InputError.of([f"CTranslate2 cannot represent {feature}." for feature in features])
    if quantization not in (None, *COMPUTE_TYPES):
        raise InputError(f"quantization must be one of {', '.join(COMPUTE_TYPES)}, got {quantization!r}.")
    import_extra("ctranslate2")
    spec = make_spec(model, tokenizer)
    spec.validate()
    spec.optimize(quantization=quantization)
    source, target = own_languages(model.config, tokenizer)
    own = {"model_type": MODEL_TYPE, "source_language": source, "target_language": target}
    own |= {name: getattr(model.config, name) for name in FIELDS} | {"weights_digest": weights_digest(model)}
    for name, value in own.items():
        spec.config.add_attribute(name, value)
    spec.save(str(folder))
    model.generation_config.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def unsupported_features(model: VaswaniForConditionalGeneration) -> list[str]:
    """List the features of a model that CTranslate2 does not support."""
    config = model.config
    heads = (config.encoder_attention_heads, config.decoder_attention_heads)
    widths = [width for width in (config.d_k, config.d_v) if width is not None]
    checks = {
        **unexportable_features(model),
        'final_norm=True with norm_position="post"': config.norm_position == "post" and bool(config.final_norm),
        f'activation_function="{config.activation_function}"': config.activation_function not in ACTIVATIONS,
        f"d_k={config.d_k} and d_v={config.d_v}": any(w * count != config.d_model for w in widths for count in heads),
        "no eos_token_id": config.eos_token_id is None,
    }
    settings = unsupported(model.generation_config.to_diff_dict())
    return [
        *(feature for feature, applies in checks.items() if applies),
        *(f"{name} in the model's generation_config" for name in settings),
    ]


def make_spec(model: VaswaniForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> Any:
    """Make CTranslate2's `TransformerSpec` for a model, with copies of its weights in float32."""
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.config
    settings = {
        "pre_norm": config.norm_position == "pre",
        "no_final_norm": not isinstance(model.model.encoder.layer_norm, nn.LayerNorm),
        "activation": getattr(common_spec.Activation, ACTIVATIONS[config.activation_function]),
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(config.encoder_layers, config.encoder_attention_heads, **settings),
        transformer_spec.TransformerDecoderSpec(config.decoder_layers, config.decoder_attention_heads, **settings),
    )
    encoder, decoder = model.model.encoder, model.model.decoder
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    for part, stack, embeddings in (
        (spec.encoder, encoder, spec.encoder.embeddings[0]),
        (spec.decoder, decoder, spec.decoder.embeddings),
    ):
        part.scale_embeddings = scale
        embeddings.weight = copied(stack.embed_tokens.weight)
        part.position_encodings.encodings = positions(stack, config)
        if not settings["no_final_norm"] and settings["pre_norm"]:
            _set_norm(part.layer_norm, stack.layer_norm)
        for layer_spec, layer in zip(part.layer, stack.layers):
            _set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_layer_norm)
            if stack is decoder:
                _set_attention(layer_spec.attention, layer.encoder_attn, layer.encoder_attn_layer_norm, is_cross=True)
            _set_linear(layer_spec.ffn.linear_0, layer.fc1)
            _set_linear(layer_spec.ffn.linear_1, layer.fc2)
            _set_norm(layer_spec.ffn.layer_norm, layer.final_layer_norm)
    spec.decoder.start_from_zero_embedding = config.decoder_start_embedding == "zero"
    _set_linear(spec.decoder.projection, model.lm_head)
    _set_vocabularies(spec, config, tokenizer)
    return spec


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the CPU in float32; a copy, since CTranslate2 modifies tensors in place."""
    return tensor.detach().cpu().to(torch.float32, copy=True)


@torch.no_grad()
def positions(stack: nn.Module, config: VaswaniConfig) -> torch.Tensor:
    """The position table `(max_position_embeddings, d_model)` that a stack adds to its embeddings."""
    length = config.max_position_embeddings
    if config.position_type == "none":
        return torch.zeros(length, config.d_model)
    return copied(stack.embed_positions(torch.arange(length, device=stack.embed_tokens.weight.device)))


def _set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = copied(norm.weight), copied(norm.bias)


def _set_linear(spec: Any, linear: nn.Linear) -> None:
    spec.weight = copied(linear.weight)
    if linear.bias is not None:
        spec.bias = copied(linear.bias)


def _set_attention(spec: Any, attention: VaswaniAttention, norm: nn.LayerNorm, is_cross: bool = False) -> None:
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


def _set_vocabularies(spec: Any, config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    source, target = vocabularies(tokenizer)
    source_tokens = token_list(source, config.vocab_size)
    target_tokens = token_list(target, config.decoder_vocab_size)
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(target_tokens)
    eos = config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[0]
    spec.config.eos_token = target_tokens[eos]
    spec.config.bos_token = tokenizer.bos_token or target_tokens[config.decoder_start_token_id]
    spec.config.unk_token = tokenizer.unk_token or spec.config.eos_token
    spec.config.decoder_start_token = target_tokens[config.decoder_start_token_id]
    spec.config.layer_norm_epsilon = config.layer_norm_eps


def token_list(vocabulary: dict[str, int], rows: int) -> list[str]:
    """The tokens in the order of their ids, with placeholder names for embeddings that have no token."""
    tokens = {index: token for token, index in vocabulary.items()}
    return [tokens.get(index, f"<unused{index}>") for index in range(rows)]

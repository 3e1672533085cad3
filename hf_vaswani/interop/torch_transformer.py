"""Reads `torch.nn.Transformer` modules, post- or pre-norm, and, if given, the embeddings and LM head around them.

The module has no embeddings, positions or output projection. By default, the imported model therefore adds no
positions, and `model.model(inputs_embeds=source, decoder_inputs_embeds=target)` gives the module's output.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..core.configuration_vaswani import VaswaniConfig
from ..errors import InputError
from ..generation.fast_model import VaswaniForConditionalGeneration
from ..presets import check_fields
from .conversion import SHARED, SOURCE_EMBEDDINGS, Conversion, make_config, split_projections

NAME = "the torch.nn.Transformer"
SOURCE_EMBEDDING, TARGET_EMBEDDING = "model.encoder.embed_tokens", "model.decoder.embed_tokens"
LM_HEAD = "lm_head"
ACTIVATIONS = {F.relu: "relu", torch.relu: "relu", F.gelu: "gelu", F.silu: "silu", torch.tanh: "tanh"}
ACTIVATION_MODULES = {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "silu", nn.Tanh: "tanh"}
# This model's name for each part of a layer → torch's.
ENCODER_PARTS = {
    "self_attn": "self_attn",
    "self_attn_layer_norm": "norm1",
    "fc1": "linear1",
    "fc2": "linear2",
    "final_layer_norm": "norm2",
}
DECODER_PARTS = {
    **ENCODER_PARTS,
    "encoder_attn": "multihead_attn",
    "encoder_attn_layer_norm": "norm2",
    "final_layer_norm": "norm3",
}


def read(
    module: nn.Transformer,
    source_embedding: nn.Embedding | None = None,
    target_embedding: nn.Embedding | None = None,
    output_projection: nn.Linear | None = None,
    **fields,
) -> Conversion:
    """Read a `torch.nn.Transformer` and the parts around it.

    Args:
        module: the encoder and the decoder.
        source_embedding, target_embedding, output_projection: the parts around them; those that are not given are
            initialized as new. Parts that share a parameter stay tied.
        fields: further fields of `VaswaniConfig`, such as `position_type="sinusoidal"`, `scale_embedding=True` and
            special tokens. By default no positions are added and embeddings are not scaled.

    Raises:
        InputError: lists everything that this model does not support.
    """
    check_fields(fields)
    fields = {VaswaniConfig.attribute_map.get(name, name): value for name, value in fields.items()}
    parts = {SOURCE_EMBEDDING: source_embedding, TARGET_EMBEDDING: target_embedding, LM_HEAD: output_projection}
    given = {name: part for name, part in parts.items() if part is not None}
    if features := unsupported(module, given):
        raise InputError.of([f"{NAME} has {feature}, which is not supported." for feature in features])
    known = {**_module_fields(module), **_embedding_fields(given)}
    errors = [
        f"{NAME} has {name}={known[name]!r}; {value!r} was requested."
        for name, value in fields.items()
        if known.get(name, value) != value
    ]
    if errors:
        raise InputError.of(errors)
    config = make_config(NAME, **{**_free_fields(module, given), **fields, **known})
    # Parts that are not given keep this model's own initialization.
    weights = VaswaniForConditionalGeneration(config).state_dict()
    for stack, parts in (("encoder", ENCODER_PARTS), ("decoder", DECODER_PARTS)):
        layers = getattr(module, stack)
        for number, layer in enumerate(layers.layers):
            for name, part in parts.items():
                weights.update(_part_weights(f"model.{stack}.layers.{number}.{name}", getattr(layer, part)))
        if layers.norm is not None:
            weights.update(_part_weights(f"model.{stack}.layer_norm", layers.norm))
    for name, part in given.items():
        weights.update(_part_weights(name, part))
    if config.share_encoder_decoder_embeddings and given:
        weights[SHARED] = weights[SOURCE_EMBEDDINGS]
    return Conversion(source=NAME, config=config, weights=weights)


def unsupported(module: nn.Transformer, given: dict[str, nn.Module]) -> list[str]:
    """The features of the module and of the parts around it that this model does not support."""
    errors = []
    if type(module).forward is not nn.Transformer.forward:
        errors.append(f"a forward pass of its own ({type(module).__name__})")
    for stack, stack_class, layer_class in (
        ("encoder", nn.TransformerEncoder, nn.TransformerEncoderLayer),
        ("decoder", nn.TransformerDecoder, nn.TransformerDecoderLayer),
    ):
        layers = getattr(module, stack)
        if type(layers) is not stack_class:
            errors.append(f"a custom {stack} ({type(layers).__name__})")
        elif any(type(layer) is not layer_class for layer in layers.layers):
            errors.append(f"custom layers in its {stack}")
        elif len(layers.layers) == 0:
            errors.append(f"no layers in its {stack}")
    for name, part in given.items():
        wanted = nn.Linear if name == LM_HEAD else nn.Embedding
        if not isinstance(part, wanted):
            errors.append(f"a {type(part).__name__} for {name}, where a {wanted.__name__} is expected")
        elif getattr(part, "max_norm", None) is not None:
            errors.append(f"an embedding with max_norm for {name}")
    if len({getattr(part, "padding_idx", None) for part in given.values()} - {None}) > 1:
        errors.append("source and target embeddings with different padding_idx")
    if errors:
        return errors
    layers = [*module.encoder.layers, *module.decoder.layers]
    norms = [norm for norm in (module.encoder.norm, module.decoder.norm) if norm is not None]
    norms += [layer.get_submodule(f"norm{i}") for layer in layers for i in (1, 2, 3) if hasattr(layer, f"norm{i}")]
    if any(type(norm) is not nn.LayerNorm or norm.weight is None for norm in norms):
        return ["a norm other than LayerNorm with a scale"]
    attentions = [part for layer in layers for part in layer.modules() if isinstance(part, nn.MultiheadAttention)]
    checks = {
        "an attention with bias_k and bias_v": any(part.bias_k is not None for part in attentions),
        "an attention with add_zero_attn": any(part.add_zero_attn for part in attentions),
        "keys or values whose width is not d_model": any(not part._qkv_same_embed_dim for part in attentions),
        "an unknown activation": any(_activation(layer) is None for layer in layers),
        "a final norm in only one stack": (module.encoder.norm is None) != (module.decoder.norm is None),
        "layers that differ in norm position, activation, biases, eps or dropout": len(set(map(_settings, layers))) > 1
        or len({norm.eps for norm in norms}) > 1,
        "different numbers of heads in one stack": any(
            len({part.num_heads for part in attentions if part in set(getattr(module, stack).modules())}) > 1
            for stack in ("encoder", "decoder")
        ),
        "several dropout rates on attention weights": len({part.dropout for part in attentions}) > 1,
        "several dropout rates on sublayer outputs": any(len(_rates(layer)) > 1 for layer in layers),
    }
    return [feature for feature, applies in checks.items() if applies]


def _settings(layer: nn.Module) -> tuple:
    return layer.norm_first, _activation(layer), layer.linear1.bias is not None, layer.dropout.p, *_rates(layer)


def _rates(layer: nn.Module) -> set[float]:
    """The dropout rates on sublayer outputs."""
    return {layer.get_submodule(f"dropout{i}").p for i in (1, 2, 3) if hasattr(layer, f"dropout{i}")}


def _activation(layer: nn.Module) -> str | None:
    activation = layer.activation
    if isinstance(activation, nn.GELU) and activation.approximate != "none":
        return "gelu_pytorch_tanh"
    if isinstance(activation, nn.Module):
        return ACTIVATION_MODULES.get(type(activation))
    return ACTIVATIONS.get(activation)


def _module_fields(module: nn.Transformer) -> dict[str, object]:
    """Config fields that the module's shapes and forward pass determine."""
    encoder, decoder = module.encoder.layers[0], module.decoder.layers[0]
    has_bias = encoder.linear1.bias is not None
    return {
        "d_model": encoder.linear1.in_features,
        "encoder_layers": len(module.encoder.layers),
        "decoder_layers": len(module.decoder.layers),
        "encoder_attention_heads": encoder.self_attn.num_heads,
        "decoder_attention_heads": decoder.self_attn.num_heads,
        "encoder_ffn_dim": encoder.linear1.out_features,
        "decoder_ffn_dim": decoder.linear1.out_features,
        "activation_function": _activation(encoder),
        "norm_position": "pre" if encoder.norm_first else "post",
        "final_norm": module.encoder.norm is not None,
        "layer_norm_eps": encoder.norm1.eps,
        "attention_bias": has_bias,
        "ffn_bias": has_bias,
    }


def _free_fields(module: nn.Transformer, given: dict[str, nn.Module]) -> dict[str, object]:
    """Config fields for what is outside the module or matters only in training; the caller may override them."""
    layer = module.encoder.layers[0]
    fields = {
        "dropout": layer.dropout1.p,
        "attention_dropout": layer.self_attn.dropout,
        "activation_dropout": layer.dropout.p,
        "embedding_dropout": 0.0,
        "label_smoothing": 0.0,
        "position_type": "none",
        "scale_embedding": False,
    }
    padding = {getattr(part, "padding_idx", None) for part in given.values()} - {None}
    return {**fields, "pad_token_id": padding.pop()} if padding else fields


def _embedding_fields(given: dict[str, nn.Module]) -> dict[str, Any]:
    """Config fields for the sizes and tying of the embeddings and the LM head: shared parameters stay tied."""
    if not given:
        return {}
    source, target, output = (given.get(name) for name in (SOURCE_EMBEDDING, TARGET_EMBEDDING, LM_HEAD))
    source_matrix, target_matrix, output_matrix = (getattr(part, "weight", None) for part in (source, target, output))
    fields = {
        "share_encoder_decoder_embeddings": target is not None and source_matrix is target_matrix,
        "tie_word_embeddings": target is not None and output_matrix is target_matrix,
        "output_bias": output is not None and output.bias is not None,
    }
    if source is not None:
        fields["vocab_size"] = source.num_embeddings
    for part in (target, output):
        if part is not None:
            fields["decoder_vocab_size"] = len(part.weight)
    return fields


def _part_weights(name: str, part: nn.Module) -> dict[str, torch.Tensor]:
    """The weights of a torch module under this model's names."""
    if isinstance(part, nn.MultiheadAttention):
        weights = _part_weights(f"{name}.out_proj", part.out_proj)
        for kind, tensor in (("weight", part.in_proj_weight), ("bias", part.in_proj_bias)):
            if tensor is not None:
                weights.update(split_projections(name, kind, tensor))
        return weights
    weights = {f"{name}.weight": part.weight}
    if isinstance(part, nn.LayerNorm):
        weights[f"{name}.bias"] = torch.zeros_like(part.weight) if part.bias is None else part.bias
    elif getattr(part, "bias", None) is not None:
        weights[f"{name}.bias"] = part.bias
    return weights

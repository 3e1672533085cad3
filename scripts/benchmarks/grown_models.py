"""Grows a trained model without changing its function, so that benchmarks of all sizes translate real text."""

import copy

import torch
from transformers import MarianMTModel

from hf_vaswani import VaswaniConfig, VaswaniForConditionalGeneration
from hf_vaswani.core.modeling_layers import sinusoidal_positions
from hf_vaswani.interop import export_marian

# Layers of each stack, d_model, width of the feed-forward network, vocabulary.
SIZES = {"4+4/128": (4, 128, 512, 8000), "6+6/512": (6, 512, 2048, 8000)}
HEAD_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
POSITIONS = 256


def grow(model: VaswaniForConditionalGeneration, size: str) -> VaswaniForConditionalGeneration:
    """A larger model that computes the same function, and so gives the same translations as the trained one.

    The residual stream holds several copies of the old one; matrices read their mean and write all of them. New units
    of the feed-forward networks and new tokens are never used. New layers add nothing: a norm that follows a norm
    without gain and bias changes nothing, so the last norm of each stack gets the gain and bias of the old last one.
    """
    layers, d_model, ffn_dim, vocab_size = SIZES[size]
    old = model.config
    copies = d_model // old.d_model
    heads = old.encoder_attention_heads * (1 if copies == 1 else 2)
    sizes = {"layers": layers, "attention_heads": heads, "ffn_dim": ffn_dim}
    stacks = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()}
    fields = {"d_model": d_model, "vocab_size": vocab_size, "decoder_vocab_size": vocab_size, "output_bias": True}
    fields |= {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "scale_embedding": False}
    fields |= {"position_type": "learned", "max_position_embeddings": POSITIONS}
    config = VaswaniConfig(**{**old.to_diff_dict(), **stacks, **fields})
    grown = VaswaniForConditionalGeneration(config).eval()
    weights = {name: torch.zeros_like(tensor) for name, tensor in grown.state_dict().items()}
    for name, tensor in model.state_dict().items():
        if name.startswith("model.shared") or name not in weights:
            continue
        new = widened(name, tensor, copies, old)
        weights[name][tuple(slice(n) for n in new.shape)] = new
    weights["lm_head.bias"][old.decoder_vocab_size :] = -1e4
    table = sinusoidal_positions(torch.arange(POSITIONS), old.d_model, old.sinusoid_layout).float().repeat(1, copies)
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = table
        norms = [name for name in weights if name.startswith(f"model.{stack}.layers") and "layer_norm.weight" in name]
        last = f"model.{stack}.layers.{getattr(old, f'{stack}_layers') - 1}.final_layer_norm"
        end = f"model.{stack}.layers.{layers - 1}.final_layer_norm"
        for name in norms:
            if int(name.split(".")[3]) >= getattr(old, f"{stack}_layers"):
                weights[name].fill_(1)
        if end != last:
            for part, neutral in (("weight", 1), ("bias", 0)):
                weights[f"{end}.{part}"] = weights[f"{last}.{part}"].clone()
                weights[f"{last}.{part}"].fill_(neutral)
    grown.load_state_dict(weights)
    grown.generation_config = model.generation_config
    return grown


def widened(name: str, tensor: torch.Tensor, copies: int, old: VaswaniConfig) -> torch.Tensor:
    """A weight for `copies` copies of the residual stream.

    Attention has twice as many heads, half of them unused, and longer queries and keys.
    """
    kind = name.split(".")[-2]
    if kind == "embed_tokens":
        return (tensor * (old.d_model**0.5 if old.scale_embedding else 1)).repeat(1, copies)
    if "layer_norm" in kind:
        return tensor.repeat(copies)
    reads = kind in ("q_proj", "k_proj", "v_proj", "fc1", "lm_head")
    if tensor.dim() == 1:
        return split_heads(tensor, kind, copies, old) if kind in HEAD_PROJECTIONS else (
            tensor if reads else tensor.repeat(copies)
        )  # fmt: skip
    if reads:
        tensor = tensor.repeat(1, copies) / copies
        return split_heads(tensor, kind, copies, old) if kind in HEAD_PROJECTIONS else tensor
    if kind == "out_proj":
        tensor = split_heads(tensor.T, "v_proj", copies, old).T
    return tensor.repeat(copies, 1)


def split_heads(rows: torch.Tensor, kind: str, copies: int, old: VaswaniConfig) -> torch.Tensor:
    """Rows of a head projection, `(heads * d_k, …)`, moved to their positions among longer heads."""
    if copies == 1:
        return rows
    old_length, new_length = (
        old.d_model // old.encoder_attention_heads,
        copies * old.d_model // (2 * old.encoder_attention_heads),
    )
    heads = rows.unflatten(0, (old.encoder_attention_heads, old_length))
    if kind == "q_proj":  # longer queries are divided by a larger root
        heads = heads * (new_length / old_length) ** 0.5
    new = heads.new_zeros(2 * old.encoder_attention_heads, new_length, *heads.shape[2:])
    new[: len(heads), :old_length] = heads
    return new.flatten(0, 1)


def as_marian(model: VaswaniForConditionalGeneration) -> MarianMTModel:
    """A MarianMT model that computes the same function; its sinusoidal positions are overwritten."""
    config = VaswaniConfig(
        **{**model.config.to_diff_dict(), "position_type": "sinusoidal", "sinusoid_layout": "halves"}
    )
    twin = VaswaniForConditionalGeneration(config).eval()
    twin.load_state_dict(model.state_dict(), strict=False)
    twin.generation_config = copy.deepcopy(model.generation_config)
    marian = export_marian(twin)
    set_positions(marian, model.model.encoder.embed_positions.weight)
    return marian


@torch.no_grad()
def set_positions(marian: MarianMTModel, table: torch.Tensor) -> None:
    for stack in (marian.model.encoder, marian.model.decoder):
        stack.embed_positions.weight[: len(table)] = table

"""Reads Transformer checkpoints of OpenNMT-py, versions 1 to 3, without OpenNMT-py.

Its architecture is pre-norm with a final norm in each stack, LayerNorm with eps 1e-6, and a bias on the logits.
Options mean what they mean in its source code, 0.9 to 3.5; biases and tied parameters are inferred from the weights.
"""

import re
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from ..errors import InputError, counted, listed
from .conversion import (
    SOURCE_EMBEDDINGS,
    Conversion,
    Inert,
    check_options,
    check_state,
    embedding_fields,
    is_sinusoidal,
    make_config,
    not_neutral,
)
from .vocabulary import SPLIT_AT_SPACES, join_backends, word_backend

UNK, PAD, BOS, EOS = "<unk>", "<blank>", "<s>", "</s>"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
# The supported values of options that would otherwise change the architecture.
OFF, ZERO, EMPTY = (False, None), (0, None), ([], None)
NEUTRAL = {
    "encoder_type": ("transformer",), "decoder_type": ("transformer",), "model_task": ("seq2seq", None),
    "model_type": ("text", None), "layer_norm": ("standard", None), "parallel_mode": ("data_parallel", None),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash", None),
    "generator_function": ("softmax", "log_softmax", None),
    "max_relative_positions": ZERO, "relative_positions_buckets": ZERO, "sliding_window": ZERO, "num_experts": ZERO,
    "num_kv": ZERO, "multiquery": OFF, "parallel_residual": OFF, "shared_layer_norm": OFF, "copy_attn": OFF,
    "lora_embedding": OFF, "lora_layers": EMPTY, "quant_layers": EMPTY,
}  # fmt: skip
# This model's name for each part of a layer → OpenNMT's.
PROJECTIONS = {
    "q_proj": "linear_query", "k_proj": "linear_keys", "v_proj": "linear_values", "out_proj": "final_linear",
}  # fmt: skip
ENCODER_PARTS = {
    **{f"self_attn.{name}": f"self_attn.{part}" for name, part in PROJECTIONS.items()},
    "self_attn_layer_norm": "layer_norm",
    "final_layer_norm": "feed_forward.layer_norm",
    "fc1": "feed_forward.w_1",
    "fc2": "feed_forward.w_2",
}
DECODER_PARTS = {
    **ENCODER_PARTS,
    **{f"encoder_attn.{name}": f"context_attn.{part}" for name, part in PROJECTIONS.items()},
    "self_attn_layer_norm": "layer_norm_1",
    "encoder_attn_layer_norm": "layer_norm_2",
}
SINUSOIDS = {
    "SinusoidalInterleaved": {},
    "SinusoidalConcat": {"sinusoid_layout": "halves", "sinusoid_exponent": "tensor2tensor"},
}
POSITION_TABLE = "make_embedding.pe.pe"
EMBEDDINGS = "embeddings.make_embedding.emb_luts.0.weight"


def is_checkpoint(contents: dict) -> bool:
    """Whether the contents of a file are an OpenNMT-py checkpoint."""
    return {"vocab", "opt"} <= contents.keys()


def read(path: Path, contents: dict, vocabularies: Path | None = None) -> Conversion:
    """Read an OpenNMT-py checkpoint and its contents, from `read_checkpoint`, which include its vocabularies.

    Raises:
        InputError: lists all unsupported options, or weights and vocabularies that do not fit.
    """
    options = check_options(str(path), contents["opt"])
    if contents.get("model") is None:
        raise InputError(f"{path} contains no weights; OpenNMT-py checkpoints in safetensors are not supported.")
    state = check_state(str(path), contents["model"])
    generator = check_state(str(path), contents.get("generator"))
    errors = unsupported(options, state)
    if errors:
        raise InputError.of([f"{path}: {error}" for error in errors])
    if vocabularies is not None:
        raise InputError(f"{path} contains its own vocabularies, so no dictionaries can be given.")
    own = read_vocabularies(path, contents["vocab"])
    weights = _rename({name: tensor for name, tensor in state.items() if not name.startswith("generator.")})
    weights.update({f"lm_head.{name.removeprefix('0.')}": tensor for name, tensor in generator.items()})
    fields = embedding_fields(str(path), weights)
    start = contents["vocab"].get("decoder_start_token") or BOS
    _check_vocabularies(path, own, {"src": fields["vocab_size"], "tgt": fields["decoder_vocab_size"]}, start)
    # One rate, or a list with one for each stage of training.
    rates = [options.get(name) for name in ("dropout", "attention_dropout")]
    dropout, attention_dropout = (next(iter(rate), None) if isinstance(rate, list) else rate for rate in rates)
    dropout = 0.1 if dropout is None else dropout
    heads = options.get("heads", 8)
    config = make_config(
        str(path),
        d_model=weights[SOURCE_EMBEDDINGS].shape[1],
        encoder_layers=_layers(state, "encoder.transformer."),
        decoder_layers=_layers(state, "decoder.transformer_layers."),
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=_ffn_dim(weights, "encoder"),
        decoder_ffn_dim=_ffn_dim(weights, "decoder"),
        activation_function=ACTIVATIONS[options.get("pos_ffn_activation_fn", "relu")],
        dropout=dropout,
        attention_dropout=dropout if attention_dropout is None else attention_dropout,
        activation_dropout=dropout,
        label_smoothing=options.get("label_smoothing", 0.0),
        norm_position="pre",
        layer_norm_eps=options.get("norm_eps", 1e-6),
        attention_bias=any(name.endswith(".q_proj.bias") for name in weights),
        ffn_bias=any(name.endswith(".fc1.bias") for name in weights),
        output_bias="lm_head.bias" in weights,
        pad_token_id=own["tgt"].index(PAD),
        bos_token_id=own["tgt"].index(BOS),
        eos_token_id=own["tgt"].index(EOS),
        decoder_start_token_id=own["tgt"].index(start),
        **fields,
        **_positions(path, options, state),
    )
    return Conversion(
        source=str(path),
        config=config,
        weights=weights,
        make_tokenizer=lambda: _make_tokenizer(own),
        splitting=SPLIT_AT_SPACES,
    )


def unsupported(options: dict, state: dict[str, torch.Tensor]) -> list[str]:
    """An error for each option that this model does not support."""
    errors = not_neutral(options, NEUTRAL)
    activation = options.get("pos_ffn_activation_fn", "relu")
    if str(activation) not in ACTIVATIONS:
        errors.append(f"pos_ffn_activation_fn={activation!r} is not supported.")
    if any("emb_luts.1." in name for name in state):
        errors.append("source features (more than one embedding table) are not supported.")
    if options.get("position_encoding_type") not in (None, *SINUSOIDS):
        errors.append(f"position_encoding_type={options['position_encoding_type']!r} is not supported.")
    return errors


def _positions(path: Path, options: dict, state: dict[str, torch.Tensor]) -> dict:
    """Config fields for positions. A stored table overrides the options.

    Without positions, OpenNMT-py does not scale embeddings either.
    """
    tables = [
        tensor.flatten(0, -2) if tensor.dim() > 1 else tensor
        for name, tensor in state.items()
        if name.endswith(POSITION_TABLE)
    ]
    if not tables and not options.get("position_encoding"):
        return {"position_type": "none", "scale_embedding": False}
    if not tables:
        return SINUSOIDS[options.get("position_encoding_type") or "SinusoidalInterleaved"]
    for fields in SINUSOIDS.values():
        layout = fields.get("sinusoid_layout", "interleaved"), fields.get("sinusoid_exponent", "paper")
        if all(is_sinusoidal(table, *layout) for table in tables):
            return fields
    raise InputError(f"{path}: its position table ({POSITION_TABLE}) contains unsupported sinusoids.")


def read_vocabularies(path: Path, vocabulary: object) -> dict[str, list[str]]:
    """The tokens of `"src"` and `"tgt"` in order of their ids, from lists (version 3) or torchtext fields (earlier).

    Raises:
        InputError: there are no tokens, or some are not text.
    """
    try:
        vocabularies = {side: _tokens(vocabulary[side]) for side in ("src", "tgt")}
    except (AttributeError, IndexError, KeyError, TypeError):
        raise InputError(f"{path}: its vocab contains no lists of tokens for src and tgt.") from None
    if not all(isinstance(token, str) for tokens in vocabularies.values() for token in tokens):
        raise InputError(f"{path}: its vocab contains tokens that are not text.")
    return vocabularies


def _tokens(vocabulary: list | Inert) -> list[str]:
    if isinstance(vocabulary, Inert):
        fields = vocabulary.state.get("fields")
        field = fields[0][1] if fields else vocabulary
        return list(field.state["vocab"].state["itos"])
    return list(dict.fromkeys(vocabulary))


def _check_vocabularies(path: Path, vocabularies: dict[str, list[str]], rows: dict[str, int], start: str) -> None:
    errors = [
        f"{path}: its {side} vocabulary has {counted(len(vocabularies[side]), 'token')}, "
        f"but the weights have {counted(count, 'embedding')}."
        for side, count in rows.items()
        if len(vocabularies[side]) != count
    ]
    lacking = [token for token in (UNK, PAD, BOS, EOS, start) if token not in vocabularies["tgt"]]
    lacking += [token for token in (UNK, PAD) if token not in vocabularies["src"]]
    if lacking:
        errors.append(f"{path}: its vocabularies lack the special tokens {listed(set(lacking))}.")
    elif vocabularies["src"].index(PAD) != vocabularies["tgt"].index(PAD):
        errors.append(f"{path}: {PAD} has different ids in the source and target vocabularies.")
    if errors:
        raise InputError.of(errors)


def _ffn_dim(weights: dict[str, torch.Tensor], stack: str) -> int:
    """The inner width, from the first layer that has one; missing weights are reported later, all at once."""
    found = (weights.get(f"model.{stack}.layers.{number}.fc1.weight") for number in range(len(weights)))
    return next((len(weight) for weight in found if weight is not None and weight.dim() == 2), 1)


def _rename(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename weights to this model's names, and drop the table of sinusoids."""
    names = {}
    for stack, layers, parts in (
        ("encoder", "encoder.transformer", ENCODER_PARTS),
        ("decoder", "decoder.transformer_layers", DECODER_PARTS),
    ):
        names[f"{stack}.{EMBEDDINGS}"] = f"model.{stack}.embed_tokens.weight"
        for number in range(_layers(state, f"{layers}.")):
            for name, part in parts.items():
                for kind in ("weight", "bias"):
                    names[f"{layers}.{number}.{part}.{kind}"] = f"model.{stack}.layers.{number}.{name}.{kind}"
        for kind in ("weight", "bias"):
            names[f"{stack}.layer_norm.{kind}"] = f"model.{stack}.layer_norm.{kind}"
    renamed = {}
    for name, tensor in state.items():
        # Before version 0.7, norms had different names.
        name = re.sub(r"\.a_2$", ".weight", re.sub(r"\.b_2$", ".bias", name))
        if not name.endswith(POSITION_TABLE):
            renamed[names.get(name, name)] = tensor
    return renamed


def _layers(state: dict[str, torch.Tensor], prefix: str) -> int:
    return len({name[len(prefix) :].split(".")[0] for name in state if name.startswith(prefix)})


def _make_tokenizer(vocabularies: dict[str, list[str]]) -> PreTrainedTokenizerBase:
    """Build the tokenizer; OpenNMT-py ends the target with `</s>`, but not the source."""
    target_special = [UNK, PAD, BOS, EOS]
    source_special = [token for token in target_special if token in vocabularies["src"]]
    source = word_backend(vocabularies["src"], UNK, None, source_special)
    target = word_backend(vocabularies["tgt"], UNK, EOS, target_special)
    names = {"pad_token": PAD, "unk_token": UNK}
    positions = [[vocabularies[side].index(token) for token in source_special] for side in ("src", "tgt")]
    if BOS in source_special and EOS in source_special and positions[0] == positions[1]:
        names.update(bos_token=BOS, eos_token=EOS)
    return join_backends(source, target, **names)

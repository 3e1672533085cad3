"""Reads fairseq's `.pt` checkpoints of `transformer*` translation models, of all versions since 2018, without fairseq.

Options are read from `args` or `cfg`, dictionaries from `dict.LANGUAGE.txt` next to the checkpoint. Weights have the
same names as here, except in older versions. The options handled are those in fairseq's source code, 0.5 to 0.12.
"""

import re
from argparse import Namespace
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from ..text.languages import language_code
from .conversion import (
    LM_HEAD,
    Conversion,
    check_options,
    check_state,
    embedding_fields,
    make_config,
    not_neutral,
    split_projections,
)
from .vocabulary import describe_splitting, dictionary_tokenizer, read_dictionary

# The symbols that precede a dictionary's own.
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
PROJECTION = "decoder.output_projection.weight"
ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_pytorch_tanh", "gelu_fast": "gelu_pytorch_tanh",
    "tanh": "tanh", "linear": "linear",
}  # fmt: skip
# The supported values of options that would otherwise change the architecture.
OFF, ZERO, UNSET = (False, None), (0, None), (None,)
NEUTRAL = {
    "layernorm_embedding": OFF, "no_cross_attention": OFF, "cross_self_attention": OFF, "layer_wise_attention": OFF,
    "scale_attn": OFF, "scale_fc": OFF, "scale_heads": OFF, "scale_resids": OFF, "encoder_unidirectional": OFF,
    "quant_noise_pq": ZERO, "quant_noise_scalar": ZERO, "base_layers": ZERO,
    "adaptive_softmax_cutoff": UNSET, "encoder_layers_to_keep": UNSET, "decoder_layers_to_keep": UNSET,
    "simul_type": UNSET, "encoder_xformers_att_config": UNSET, "decoder_xformers_att_config": UNSET,
}  # fmt: skip
DEFAULTS = {
    "encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048, "activation_fn": "relu",
    "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
    "encoder_normalize_before": False, "decoder_normalize_before": False, "no_decoder_final_norm": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False, "no_token_positional_embeddings": False,
    "no_scale_embedding": False, "share_all_embeddings": False, "share_decoder_input_output_embed": False,
    "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "relu_dropout": 0.0,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "label_smoothing": 0.0,
    "source_lang": None, "target_lang": None, "arch": None,
}  # fmt: skip
# Options with the same meaning and name here.
SAME = (
    "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "dropout",
    "attention_dropout", "encoder_layerdrop", "decoder_layerdrop", "label_smoothing",
)  # fmt: skip
# The options to read from each group of `cfg`; None for all.
GROUPS = {"criterion": ("label_smoothing",), "task": ("source_lang", "target_lang"), "model": None}
# Architectures with the same weight names, but a different forward pass or task.
OTHER_ARCHITECTURES = (
    "transformer_lm", "transformer_unidirectional", "transformer_monotonic", "transformer_from_pretrained",
    "transformer_pointer",
)  # fmt: skip
# Options that fairseq has for each stack, but this model only once.
ONE_FOR_BOTH = (
    ("encoder_embed_dim", "decoder_embed_dim"),
    ("encoder_normalize_before", "decoder_normalize_before"),
    ("encoder_learned_pos", "decoder_learned_pos"),
)


def is_checkpoint(contents: dict) -> bool:
    """Whether the contents of a file are a fairseq checkpoint."""
    return "model" in contents and ("args" in contents or "cfg" in contents)


def read(path: Path, contents: dict, vocabularies: Path | None = None) -> Conversion:
    """Read a fairseq checkpoint and its contents, from `read_checkpoint`.

    Args:
        vocabularies: folder with `dict.LANGUAGE.txt` and subword files; default: the checkpoint's folder.

    Raises:
        InputError: lists all unsupported options, or weights that do not fit the options.
    """
    options = read_options(str(path), contents)
    state = check_state(str(path), contents["model"])
    errors = unsupported(options)
    if errors:
        raise InputError.of([f"{path}: {error}" for error in errors])
    weights = {f"model.{name}": tensor for name, tensor in upgrade(state, options).items()}
    if f"model.{PROJECTION}" in weights:
        weights[LM_HEAD] = weights.pop(f"model.{PROJECTION}")
    fields = embedding_fields(str(path), weights)
    positions, errors = _positions(options, weights)
    errors += _final_norm_errors(options, weights, state)
    if errors:
        raise InputError.of([f"{path}: {error}" for error in errors])
    config = make_config(
        str(path),
        d_model=options["encoder_embed_dim"],
        encoder_ffn_dim=options["encoder_ffn_embed_dim"],
        decoder_ffn_dim=options["decoder_ffn_embed_dim"],
        activation_function=ACTIVATIONS[options["activation_fn"]],
        # Older versions call it relu_dropout, which newer ones still accept.
        activation_dropout=options["activation_dropout"] or options["relu_dropout"],
        norm_position="pre" if options["encoder_normalize_before"] else "post",
        final_norm="model.encoder.layer_norm.weight" in weights,
        layer_norm_eps=1e-5,
        scale_embedding=not options["no_scale_embedding"],
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=EOS,
        source_language=language_code(options["source_lang"]),
        target_language=language_code(options["target_lang"]),
        **{name: options[name] for name in SAME},
        **fields,
        **positions,
    )
    rows = {"source": fields["vocab_size"], "target": fields["decoder_vocab_size"]}
    languages = options["source_lang"], options["target_lang"]
    return Conversion(
        source=str(path),
        config=config,
        weights=weights,
        make_tokenizer=lambda: _make_tokenizer(path, vocabularies, languages, rows),
        splitting=describe_splitting(vocabularies or path.parent),
    )


def read_options(source: str, contents: dict) -> dict:
    """The options of a checkpoint under fairseq's flat names, with fairseq's defaults filled in."""
    found = {}
    if contents.get("args") is not None:
        found.update(check_options(source, contents["args"]))
    else:
        groups = check_options(source, contents.get("cfg"))
        for group, names in GROUPS.items():
            if groups.get(group) is not None:
                options = _flat(check_options(source, groups[group]))
                found.update({name: value for name, value in options.items() if names is None or name in names})
    options = {**DEFAULTS, **{name: value for name, value in found.items() if value is not None}}
    options.setdefault("decoder_embed_dim", options["encoder_embed_dim"])
    options.setdefault("decoder_ffn_embed_dim", options["encoder_ffn_embed_dim"])
    return options


def unsupported(options: dict) -> list[str]:
    """An error for each option that this model does not support."""
    errors = not_neutral(options, NEUTRAL)
    for first, second in ONE_FOR_BOTH:
        if options[first] != options[second]:
            errors.append(f"{first}={options[first]} with {second}={options[second]} is not supported.")
    width = options["decoder_embed_dim"]
    if options.get("decoder_output_dim", width) != width:
        errors.append(
            f"decoder_output_dim={options['decoder_output_dim']} with decoder_embed_dim={width} is not supported."
        )
    if str(options["activation_fn"]) not in ACTIVATIONS:
        errors.append(f"activation_fn={options['activation_fn']!r} is not supported.")
    for name in ("arch", "_name"):
        architecture = str(options.get(name) or "transformer")
        if not architecture.startswith("transformer") or architecture.startswith(OTHER_ARCHITECTURES):
            errors.append(f"{name}={architecture!r} is not supported; only transformer* translation models are.")
    return errors


def upgrade(state: dict[str, torch.Tensor], options: dict) -> dict[str, torch.Tensor]:
    """Rename weights as in fairseq's last version; keep only parameters, tied ones under each of their names."""
    norms = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}
    upgraded = {}
    for name, tensor in state.items():
        stack = name.split(".")[0]
        if re.search(r"\.version$|\.embed_positions\.(_float_tensor|weights)$", name):
            continue
        # Version 0.12.2 stored additional copies of the weights of encoder layers.
        if re.search(r"^encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$", name):
            continue
        match = re.search(r"^(.*_attn)\.in_proj_(weight|bias)$", name)
        if match and tensor.dim() > 0:
            upgraded.update(split_projections(match[1], match[2], tensor))
            continue
        match = re.search(r"^(.*)\.layer_norms\.(\d)\.(weight|bias)$", name)
        if match and int(match[2]) < len(norms.get(stack, ())):
            name = f"{match[1]}.{norms[stack][int(match[2])]}_layer_norm.{match[3]}"
        if name == "decoder.embed_out":
            name = PROJECTION
        upgraded[name] = tensor
    source, target = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
    if options["share_all_embeddings"] and source in upgraded:
        upgraded.setdefault(target, upgraded[source])
    if (options["share_decoder_input_output_embed"] or options["share_all_embeddings"]) and target in upgraded:
        upgraded.setdefault(PROJECTION, upgraded[target])
    return upgraded


def _positions(options: dict, weights: dict[str, torch.Tensor]) -> tuple[dict, list[str]]:
    """Config fields for fairseq's positions, and errors.

    A learned table begins with rows that fairseq never uses, up to the row of padding; they are cut off in `weights`.
    """
    fields = {"positions_skip_padding": True}
    if options["no_token_positional_embeddings"]:
        return {"position_type": "none"}, []
    if not options["encoder_learned_pos"]:
        sinusoids = {"sinusoid_layout": "halves", "sinusoid_exponent": "tensor2tensor", "sinusoid_offset": PAD + 1}
        return {**fields, **sinusoids}, []
    sizes = set()
    for stack in ("encoder", "decoder"):
        name = f"model.{stack}.embed_positions.weight"
        if name in weights and weights[name].dim() == 2:
            weights[name] = weights[name][PAD + 1 :]
            sizes.add(len(weights[name]))
    if len(sizes) > 1:
        sizes = ", ".join(map(str, sorted(sizes)))
        return {}, [f"different numbers of learned positions ({sizes}) are not supported."]
    return {**fields, "position_type": "learned", "max_position_embeddings": max(sizes, default=1024)}, []


def _final_norm_errors(options: dict, weights: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> list[str]:
    """Errors about the final norm, which only the weights reveal: pre-norm stacks before version 3 had none."""
    encoder, decoder = (f"model.{stack}.layer_norm.weight" in weights for stack in ("encoder", "decoder"))
    if encoder != decoder:
        return [f"a final norm only in the {'encoder' if encoder else 'decoder'} is not supported."]
    is_new = bool((state.get("encoder.version", torch.zeros(1)) >= 3).any())
    if is_new and options["encoder_normalize_before"] and not encoder and not options["no_decoder_final_norm"]:
        return ["encoder.layer_norm and decoder.layer_norm are missing, which pre-norm models end with."]
    return []


def _make_tokenizer(
    path: Path, vocabularies: Path | None, languages: tuple[str | None, str | None], rows: dict[str, int]
) -> PreTrainedTokenizerBase | None:
    folder = vocabularies or path.parent
    files = [folder / f"dict.{language}.txt" for language in languages]
    if None in languages or not any(file.exists() for file in files):
        if vocabularies is not None:
            names = " and ".join(file.name for file in files) if None not in languages else "dict.LANGUAGE.txt"
            raise InputError(f"{folder} has no {names}, which {path} needs. Specify a folder that does.")
        return None
    missing = [str(file) for file in files if not file.exists()]
    if missing:
        raise InputError(f"{path} needs the dictionaries of both languages; missing: {', '.join(missing)}.")
    symbols = [[*SPECIAL_TOKENS, *read_dictionary(file, SPECIAL_TOKENS)] for file in files]
    errors = [
        f"{file} has {len(tokens)} symbols, including the four special ones, but {path} has {count} embeddings. "
        "Use the dictionary that the model was trained with."
        for file, tokens, count in zip(files, symbols, rows.values())
        if len(tokens) != count
    ]
    if errors:
        raise InputError.of(errors)
    return dictionary_tokenizer(folder, symbols[0], symbols[1], languages)


def _flat(options: dict) -> dict:
    """Nested options under flat names: `{"encoder": {"embed_dim": 512}}` becomes `{"encoder_embed_dim": 512}`."""
    flat = {}
    for name, value in options.items():
        if name in ("encoder", "decoder", "quant_noise") and isinstance(value, dict | Namespace):
            flat.update({f"{name}_{inner}": part for inner, part in check_options(name, value).items()})
        else:
            flat[name] = value
    return flat

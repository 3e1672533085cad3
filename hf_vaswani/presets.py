"""Named architectures: the paper's models, the rows of its Table 3, well-known tutorials, other toolkits' conventions.

    >>> from hf_vaswani import VaswaniForConditionalGeneration, preset
    >>> model = VaswaniForConditionalGeneration(preset("base", vocab_size=32000))

A preset sets fields of `VaswaniConfig`; vocabulary sizes and special tokens come from your tokenizer.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

from .core.configuration_vaswani import VaswaniConfig
from .errors import InputError

SEPARATE = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "output_bias": True}
FAIRSEQ_PAD = 1
VOCABULARY_SIZES = {"vocab_size", "decoder_vocab_size"}


def _both(**fields: Any) -> dict[str, Any]:
    """The same value for encoder and decoder: `layers=2` is `encoder_layers=2, decoder_layers=2`."""
    return {f"{stack}_{name}": value for name, value in fields.items() for stack in ("encoder", "decoder")}


def _row(**fields: Any) -> dict[str, Any]:
    """A variation of the base model in Table 3.

    With the vocabulary of about 37,000 tokens in section 5.1, the rows have some 2 million fewer parameters than the
    table says. The only size at which rows (A) to (D) all match the printed numbers is 41,000, give or take 100.
    """
    return {"vocab_size": 41_000, **fields}


PAPER = {
    "base": {},
    "big": {"d_model": 1024, "dropout": 0.3, **_both(attention_heads=16, ffn_dim=4096)},
}
# Table 3: what differs from the base model in each row.
TABLE_3 = {
    "table3_a_1_head": _row(**_both(attention_heads=1)),
    "table3_a_4_heads": _row(**_both(attention_heads=4)),
    "table3_a_16_heads": _row(**_both(attention_heads=16)),
    "table3_a_32_heads": _row(**_both(attention_heads=32)),
    "table3_b_dk_16": _row(d_k=16),
    "table3_b_dk_32": _row(d_k=32),
    "table3_c_2_layers": _row(**_both(layers=2)),
    "table3_c_4_layers": _row(**_both(layers=4)),
    "table3_c_8_layers": _row(**_both(layers=8)),
    "table3_c_dmodel_256": _row(d_model=256),
    "table3_c_dmodel_1024": _row(d_model=1024),
    "table3_c_dff_1024": _row(**_both(ffn_dim=1024)),
    "table3_c_dff_4096": _row(**_both(ffn_dim=4096)),
    "table3_d_dropout_0.0": _row(dropout=0.0),
    "table3_d_dropout_0.2": _row(dropout=0.2),
    "table3_d_smoothing_0.0": _row(label_smoothing=0.0),
    "table3_d_smoothing_0.2": _row(label_smoothing=0.2),
    "table3_e_learned": _row(position_type="learned"),
}
# Well-known tutorial implementations, each for the dataset it is known for.
SYSTEMS = {
    # German to English books: pre-norm, word-level vocabularies.
    "system_a": {"norm_position": "pre", "attention_dropout": 0.1, "activation_dropout": 0.1, **SEPARATE},
    # Portuguese to English talks: small, plain cross-entropy, 2^13 subwords per side.
    "system_b": {
        "vocab_size": 8192,
        "decoder_vocab_size": 8192,
        "d_model": 128,
        "label_smoothing": 0.0,
        **_both(layers=4, attention_heads=8, ffn_dim=512),
        **SEPARATE,
    },
    # Arabic to English: pre-norm with learned positions up to 80, 72.5 million parameters.
    "system_c": {
        "vocab_size": 32_000,
        "decoder_vocab_size": 26_000,
        "norm_position": "pre",
        "position_type": "learned",
        "max_position_embeddings": 80,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        **_both(layers=4, attention_heads=4),
        **SEPARATE,
    },
    # English to French talks: dropout only inside the feed-forward networks, word-level vocabularies.
    "system_d": {
        "vocab_size": 56_000,
        "decoder_vocab_size": 73_000,
        "dropout": 0.0,
        "activation_dropout": 0.1,
        "label_smoothing": 0.0,
        **SEPARATE,
    },
    # The paper itself.
    "system_e": {},
}
# Defaults of other toolkits that differ from the paper, at the base model's size.
CONVENTIONS = {
    "fairseq": {
        "sinusoid_layout": "halves",
        "sinusoid_exponent": "tensor2tensor",
        "sinusoid_offset": FAIRSEQ_PAD + 1,
        "positions_skip_padding": True,
        "bos_token_id": 0,
        "pad_token_id": FAIRSEQ_PAD,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
    },
    "marian": {"sinusoid_layout": "halves", "output_bias": True, "decoder_start_token_id": 0},
    "tensor2tensor": {
        "norm_position": "pre",
        "layer_norm_eps": 1e-6,
        "sinusoid_layout": "halves",
        "sinusoid_exponent": "tensor2tensor",
        "attention_bias": False,
        "decoder_start_embedding": "zero",
        "decoder_start_token_id": 0,
    },
    # Versions 1 and 2; version 3 has other defaults for biases.
    "opennmt": {
        "norm_position": "pre",
        "layer_norm_eps": 1e-6,
        "output_bias": True,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        "pad_token_id": 1,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
}
PRESETS: dict[str, dict[str, Any]] = {**PAPER, **TABLE_3, **SYSTEMS, **CONVENTIONS}


def preset(name: str, **changes: Any) -> VaswaniConfig:
    """The config of a named architecture.

    Args:
        name: a key of `PRESETS`, such as `"base"`, `"big"`, `"table3_b_dk_16"`, `"system_c"` or `"fairseq"`.
        changes: fields of `VaswaniConfig` to override, such as vocabulary sizes; `vocab_size` alone sets both.

    Raises:
        InputError: there is no preset of that name, or a field is unknown.
        ValueError: fields conflict; all conflicts are listed.
    """
    check_fields(changes)
    fields = preset_fields(name)
    if changes.keys() & VOCABULARY_SIZES:
        fields = {field: value for field, value in fields.items() if field not in VOCABULARY_SIZES}
    return VaswaniConfig(**{**fields, **changes})


def check_fields(fields: Iterable[str]) -> None:
    """Raise an `InputError` that names all unknown fields; `VaswaniConfig` would keep them as attributes."""
    known = {field.name for field in dataclasses.fields(VaswaniConfig)} | set(VaswaniConfig.attribute_map)
    if unknown := sorted(set(fields) - known):
        raise InputError(f"{', '.join(unknown)}: not a field of VaswaniConfig. Its documentation lists all fields.")


def preset_fields(name: str) -> dict[str, Any]:
    """The fields that a preset sets."""
    if name not in list(PRESETS):  # a list, which also compares names that cannot be hashed
        raise InputError(f"There is no preset {name!r}. Choose from: {', '.join(PRESETS)}.")
    return dict(PRESETS[name])

"""Exports models to transformers.js, which translates in browsers and in Node.js.

The graphs are those of `onnx/graph_stacks.py`. transformers.js chooses the class that runs them by `model_type`: the
exports use Marian's, whose encoder and decoder have the same inputs and outputs. Its search is greedy.
"""

import json
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError
from ..pipeline.arguments import DEFAULT_MAX_NEW_TOKENS
from ..runtime.imports import import_extra
from . import transformers_js_tokenizer
from .onnx import onnx_export
from .onnx.graph_stacks import make_decoder, make_encoder
from .onnx.onnx_config import DECODER, ENCODER, checked_quantization, graph_file

# Names of weight types here → in transformers.js.
DTYPES = {"float32": "fp32", "int8": "q8"}
FIELDS = (
    "vocab_size", "decoder_vocab_size", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
    "decoder_attention_heads", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
)  # fmt: skip
# The fields of the generation config that transformers.js supports, too; its search is greedy.
SETTINGS = (
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "eos_token_id",
    "forced_bos_token_id", "forced_eos_token_id", "max_new_tokens", "min_new_tokens", "no_repeat_ngram_size",
    "pad_token_id", "repetition_penalty", "suppress_tokens",
)  # fmt: skip


def write(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
    with_alignment: bool = False,
) -> None:
    """Write a folder that transformers.js opens with `pipeline("translation", folder)`; arguments as in `onnx_export`.

    Args:
        with_alignment: give the decoder an additional output, which transformers.js ignores; see `make_decoder`.

    Raises:
        InputError: `onnx` is not installed, transformers.js cannot represent the model or its tokenizer, or
            `quantization` is unknown.
    """
    features = onnx_export.unsupported_features(model) + transformers_js_tokenizer.unsupported_rules(tokenizer)
    if not with_alignment:  # the web page creates its caches itself
        features += _other_widths(model.config)
    if features:
        raise InputError.of([f"transformers.js cannot represent {feature}." for feature in features])
    import_extra("onnx")
    quantization = checked_quantization(quantization)
    graphs = {
        ENCODER: make_encoder(model, quantization),
        DECODER: make_decoder(model, quantization, for_greedy_batches=True, with_alignment=with_alignment),
    }
    for name, graph in graphs.items():
        path = graph_file(folder, name, quantization)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(graph.SerializeToString())
    files = {
        "config.json": config_fields(model.config, quantization),
        "generation_config.json": search_settings(model.config, model.generation_config),
        "tokenizer.json": transformers_js_tokenizer.tokenizer_rules(tokenizer),
        "tokenizer_config.json": transformers_js_tokenizer.tokenizer_settings(tokenizer),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _other_widths(config: VaswaniConfig) -> list[str]:
    """List head widths that transformers.js does not support: it sizes the first cache by d_model and heads alone."""
    usual = (None, config.d_model // config.decoder_attention_heads)
    others = [f"{name}={getattr(config, name)}" for name in ("d_k", "d_v") if getattr(config, name) not in usual]
    return [f"{' and '.join(others)} (head widths other than d_model / heads)"] if others else []


def config_fields(config: VaswaniConfig, quantization: str) -> dict[str, Any]:
    """The contents of `config.json`."""
    fields = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        **{name: getattr(config, name) for name in FIELDS},
        # So that callers need not specify it.
        "transformers.js_config": {"dtype": DTYPES[quantization]},
    }
    if config.longest_sequence:
        fields["max_position_embeddings"] = config.longest_sequence
    return fields


def search_settings(config: VaswaniConfig, own: GenerationConfig) -> dict[str, Any]:
    """The contents of `generation_config.json`: the model's own settings that apply, and when outputs end."""
    settings = {name: getattr(config, name) for name in SETTINGS if getattr(config, name, None) is not None}
    settings["max_new_tokens"] = min(
        DEFAULT_MAX_NEW_TOKENS, (config.longest_sequence or DEFAULT_MAX_NEW_TOKENS + 1) - 1
    )
    given = own.to_diff_dict()
    return settings | {name: given[name] for name in SETTINGS if given.get(name) is not None}

"""Exports models to transformers.js, which translates in browsers and in Node.js.

The graphs come from `onnx/graph_layers.py`. transformers.js chooses the class that runs them by `model_type`: the
exports use Marian's, whose encoder and decoder have the same inputs and outputs. Its search is greedy.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError
from ..generation.settings import DEFAULT_MAX_NEW_TOKENS
from ..runtime.imports import import_extra
from ..text.normalization import WHITESPACE, outer_normalizer
from ..text.vocabularies import vocabularies
from .onnx import onnx_export
from .onnx.graph_layers import make_decoder, make_encoder
from .onnx.onnx_config import DECODER, ENCODER, checked_quantization, graph_file

# The components that transformers.js has, and that behave as in the library.
KNOWN = {
    "normalizer": ("Sequence", "Replace", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Prepend"),
    "pre_tokenizer": ("Sequence", "Metaspace", "Split", "Punctuation", "Digits", "WhitespaceSplit"),
    "model": ("BPE", "WordPiece", "WordLevel"),
    "post_processor": ("TemplateProcessing",),
    "decoder": ("Sequence", "Metaspace", "ByteFallback", "Fuse", "Replace", "Strip"),
}
REASONS = {"Unigram": ", in which it merges consecutive unknown characters into one"}
# A part of a tokenizer.json.
Rule = dict[str, Any]
NESTED = ("normalizers", "pretokenizers", "decoders")
# Unicode's punctuation and ASCII's.
PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token")


def unsupported_rules(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """List the features of a tokenizer that transformers.js does not support."""
    if not tokenizer.is_fast:
        return [f"a {type(tokenizer).__name__}, which has no tokenizer.json"]
    source, target = vocabularies(tokenizer)
    features = ["a tokenizer with separate vocabularies"] if source != target else []
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    for part, known in KNOWN.items():
        unknown = (rule["type"] for rule in _nested_rules(rules[part]) if rule["type"] not in known)
        features += [f"the tokenizer's {part.replace('_', '-')} {kind}{REASONS.get(kind, '')}" for kind in unknown]
    return features


def _nested_rules(rule: Rule | None) -> Iterator[Rule]:
    """Yield a rule and all rules nested in it."""
    if rule is not None:
        yield rule
        for part in itertools.chain.from_iterable(rule.get(name) or () for name in NESTED):
            yield from _nested_rules(part)


def tokenizer_rules(tokenizer: PreTrainedTokenizerBase) -> Rule:
    """The contents of `tokenizer.json` for transformers.js; the `tokenizers` library interprets it in the same way."""
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    rules |= {"truncation": None, "padding": None}
    if WHITESPACE not in tokenizer.init_kwargs:
        outer = outer_normalizer(tokenizer, rules["model"]["vocab"])
        parts = [json.loads(part.__getstate__()) for part in (outer, tokenizer.backend_tokenizer.normalizer) if part]
        rules["normalizer"] = {"type": "Sequence", "normalizers": parts}
    for rule in _nested_rules(rules["normalizer"]):
        if rule.get("pattern") == {"Regex": r"\z"}:
            # On its own, the pattern also matches inside characters beyond U+FFFF in JavaScript.
            rule["pattern"] = {"Regex": r"(?<=[\s\S])\z"}
    if rules["pre_tokenizer"]:
        rules["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": list(_plain_splits(rules["pre_tokenizer"]))}
    if getattr(tokenizer, "split_special_tokens", False):
        # Special tokens listed here would be recognized inside a text. Their ids are in the model's vocabulary anyway.
        rules["added_tokens"] = [token for token in rules["added_tokens"] if not token["special"]]
    return rules


def tokenizer_settings(tokenizer: PreTrainedTokenizerBase) -> Rule:
    """The contents of `tokenizer_config.json` for transformers.js."""
    named = {name: str(getattr(tokenizer, name)) for name in SPECIAL if getattr(tokenizer, name) is not None}
    return {
        "tokenizer_class": "PreTrainedTokenizer",
        **named,
        # So that they are left out of decoded text.
        "additional_special_tokens": list(tokenizer.all_special_tokens),
        "clean_up_tokenization_spaces": False,
        "model_max_length": tokenizer.model_max_length,
    }


def _plain_splits(rule: Rule) -> Iterator[Rule]:
    """Rewrite a pre-tokenizer as one or more that split in the same way in both libraries."""
    kind = rule["type"]
    if kind == "Sequence":
        for part in rule["pretokenizers"]:
            yield from _plain_splits(part)
    elif kind == "Metaspace" and rule["split"]:
        yield {**rule, "split": False}
        yield _isolated(MERGED["MergedWithNext"](_escaped(rule["replacement"])))
    elif kind == "Punctuation":
        yield _isolated(BEHAVIORS.get(rule["behavior"], str)(PUNCTUATION), rule["behavior"])
    elif kind == "Digits":
        yield _isolated(r"\p{N}" if rule["individual_digits"] else r"\p{N}+")
    elif kind == "Split" and not rule["invert"]:
        pattern = rule["pattern"].get("Regex") or _escaped(rule["pattern"]["String"])
        yield _isolated(BEHAVIORS.get(rule["behavior"], str)(pattern), rule["behavior"])
    else:
        yield rule


# Functions that turn a pattern into one whose matches are the pieces that the pattern splits a text into.
MERGED: dict[str, Callable[[str], str]] = {
    "MergedWithNext": lambda pattern: rf"(?:{pattern})?(?:(?!{pattern})[\s\S])+|(?:{pattern})",
    "MergedWithPrevious": lambda pattern: rf"(?:(?!{pattern})[\s\S])+(?:{pattern})?|(?:{pattern})",
}
BEHAVIORS = {**MERGED, "Contiguous": lambda pattern: f"(?:{pattern})+"}


def _isolated(pattern: str, behavior: str = "Isolated") -> Rule:
    behavior = "Removed" if behavior == "Removed" else "Isolated"
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _escaped(text: str) -> str:
    """A regular expression that matches a text literally."""
    return "".join(rf"\{character}" if character in r".*+?^${}()|[]\/" else character for character in text)


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
    features = onnx_export.unsupported_features(model) + unsupported_rules(tokenizer)
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
        "tokenizer.json": tokenizer_rules(tokenizer),
        "tokenizer_config.json": tokenizer_settings(tokenizer),
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

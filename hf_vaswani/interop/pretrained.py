"""Loads another transformers model and its tokenizer strictly: a missing weight is an error, not a random one.

Nothing here trusts a folder's own code. transformers raises many kinds of exceptions where a file is damaged, missing
or of another kind than it says; each becomes one clear error.
"""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    FSMTTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from ..data.tokenizer import has_tokenizer, vocabularies
from ..errors import InputError, reason
from .checkpoint_file import foreign_classes
from .conversion import weight_faults

# Fields that mean the same in MarianConfig, FSMTConfig and VaswaniConfig.
COMMON_FIELDS = (
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "encoder_layerdrop",
    "decoder_layerdrop",
    "activation_function",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "max_position_embeddings",
    "scale_embedding",
    "use_cache",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
)


def load_model(model_class: type[PreTrainedModel], source: str) -> PreTrainedModel:
    """The model of a folder or a Hub id, in float32.

    Raises:
        InputError: where a file is damaged, missing or dangerous, or weights do not fit the configuration.
    """
    _check_json(Path(source) / "generation_config.json")
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what it would warn of is an error below
    try:
        model, report = model_class.from_pretrained(
            source, output_loading_info=True, ignore_mismatched_sizes=True, dtype=torch.float32
        )
    except Exception as error:
        classes = foreign_classes(error)
        if classes:
            raise InputError(
                f"{source}: its pickle holds {classes}, which no weights need and which could run code; it was not "
                "read. Use a copy in safetensors."
            ) from None
        raise InputError(f"{source} cannot be read: {reason(error)}") from None
    finally:
        logging.set_verbosity(verbosity)
    faults = weight_faults(
        source, sorted(report["mismatched_keys"]), report["missing_keys"], report["unexpected_keys"]
    )
    if hasattr(model.config, "quantization_config"):
        faults.append(
            f"{source} has quantized weights, of which no other model is made. Use the one they were made of."
        )
    if faults:
        raise InputError.of(faults)
    return model.eval()


def common_fields(config: PreTrainedConfig) -> dict[str, Any]:
    """What configs of Marian, FSMT and this model say in the same words."""
    return {name: getattr(config, name) for name in COMMON_FIELDS}


def generation_settings(model: PreTrainedModel) -> GenerationConfig:
    """How a model searches, with transformers' own end where it names none: 20 tokens behind the start token."""
    settings = copy.deepcopy(model.generation_config)
    if settings.max_length is None and settings.max_new_tokens is None:
        settings.max_length = 21
    return settings


def load_tokenizer(source: str, rows: dict[str, int], config: PreTrainedConfig) -> PreTrainedTokenizerBase | None:
    """The tokenizer of a folder or a Hub id; None for a folder without one.

    Args:
        source: folder or Hub id.
        rows: of the embeddings of `"source"` and `"target"`.
        config: the model's, whose special tokens must be the tokenizer's.

    Raises:
        InputError: where it cannot be read, or is another model's.
    """
    if Path(source).is_dir() and not has_tokenizer(Path(source)):
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        if isinstance(tokenizer, FSMTTokenizer) and tokenizer.eos_token is None:
            tokenizer.eos_token = tokenizer.sep_token  # with which it ends texts
        faults = _misfits(source, tokenizer, rows, config)
    except Exception as error:
        raise InputError(f"{source}: its tokenizer cannot be read: {reason(error)}") from None
    if faults:
        raise InputError.of(faults)
    return tokenizer


def _misfits(
    source: str, tokenizer: PreTrainedTokenizerBase, rows: dict[str, int], config: PreTrainedConfig
) -> list[str]:
    """Ids without an embedding, and special tokens that the model knows under other ids."""
    largest = {
        side: max(tokens.values(), default=-1)
        for side, tokens in zip(("source", "target"), vocabularies(tokenizer), strict=True)
    }
    faults = [
        f"{source}: the {side} vocabulary has an id {largest[side]}, but the weights have {rows[side]} embeddings. "
        "Put the vocabulary and the weights of one model together."
        for side in largest
        if largest[side] >= rows[side]
    ]
    faults += [
        f"{source}: {name} is {getattr(tokenizer, name)} in the vocabulary and {getattr(config, name)} in config.json."
        for name in ("pad_token_id", "eos_token_id")
        if not _agree(getattr(tokenizer, name), getattr(config, name))
    ]
    return faults


def _agree(token_id: int | None, configured: int | list[int] | None) -> bool:
    """Whether a special token of the tokenizer is (one of) the model's, as far as both say anything."""
    if token_id is None or configured is None:
        return True
    return token_id in configured if isinstance(configured, list) else token_id == configured


def _check_json(path: Path) -> None:
    """transformers passes over a generation config that it cannot read."""
    try:
        if path.is_file() and not isinstance(json.loads(path.read_text(encoding="utf-8")), dict):
            raise ValueError("it holds no settings")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None

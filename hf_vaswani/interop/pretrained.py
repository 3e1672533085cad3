"""Loads another transformers model and its tokenizer strictly: a missing weight is an error, not a random one.

Nothing here trusts a folder's own code. transformers raises many kinds of exceptions where a file is damaged, missing
or of another kind than it says; each becomes one clear error.
"""

import copy
from collections.abc import Iterable
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

from ..core.pipeline_inputs import damaged_weights, fills, vocabularies
from ..data.tokenizers.tokenizer import has_tokenizer
from ..data.tokenizers.tokenizer_files import check_tokenizer_settings, tokenizer_file_errors
from ..errors import InputError, reason
from ..files import AGAIN, where_not_found
from .checkpoint_file import foreign_classes, read_checkpoint
from .conversion import listed, weight_faults
from .model_files import check_settings, weight_file_errors

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
    if Path(source).is_dir():
        check_settings(Path(source))
    model, report = read_weights(model_class, source, dtype=torch.float32)
    faults = weight_faults(
        source, sorted(report["mismatched_keys"]), report["missing_keys"], report["unexpected_keys"]
    )
    if hasattr(model.config, "quantization_config"):
        faults.append(
            f"{source} has quantized weights, of which no other model is made. Use the one they were made of."
        )
    if faults := faults + damage_faults(source, model.named_parameters()):
        raise InputError.of(faults)
    return model.eval()


def read_weights(model_class: type, source: str, **options) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A model and transformers' report on how its weights fit: missing, unexpected and mismatched keys.

    Args:
        model_class: a class of models, or of the Auto classes.
        options: further arguments of `from_pretrained`.

    Raises:
        InputError: where a file is damaged, missing or dangerous.
    """
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what it would warn of is in the report
    try:
        return model_class.from_pretrained(source, output_loading_info=True, ignore_mismatched_sizes=True, **options)
    except Exception as error:  # of many kinds, for files that are damaged or missing
        raise InputError.of(_why_not_loaded(source, error)) from None
    finally:
        logging.set_verbosity(verbosity)


def damage_faults(source: str, weights: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
    """Weights, with their names, whose values are not numbers."""
    damaged = damaged_weights(weights)
    return [f"{source} has weights with values that are NaN or infinite: {listed(damaged)}. {AGAIN}"] * bool(damaged)


def _why_not_loaded(source: str, error: Exception) -> list[str]:
    """The files that are damaged; where none is found to be, what transformers says."""
    folder = Path(source)
    faults = weight_file_errors(folder) if folder.is_dir() else []
    for path in sorted(folder.glob("pytorch_model*.bin")):
        try:
            read_checkpoint(str(path))
        except InputError as fault:
            faults.append(str(fault))
    if faults:
        return faults
    if classes := foreign_classes(error):
        return [
            f"{source}: its pickle holds {classes}, which no weights need and which could run code; it was not read. "
            "Use a copy in safetensors."
        ]
    hint = f" (pip install {error.name})" if isinstance(error, ModuleNotFoundError) else ""
    return [f"{source}{where_not_found(source)} cannot be loaded: {reason(error)}{hint}"]


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
    if Path(source).is_dir():
        check_tokenizer_settings(Path(source))
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        if isinstance(tokenizer, FSMTTokenizer) and tokenizer.eos_token is None:
            tokenizer.eos_token = tokenizer.sep_token  # with which it ends texts
        faults = _misfits(source, tokenizer, rows, config)
    except Exception as error:
        faults = tokenizer_file_errors(Path(source)) or [f"{source}: its tokenizer cannot be read: {reason(error)}"]
    if faults:
        raise InputError.of(faults)
    return tokenizer


def _misfits(
    source: str, tokenizer: PreTrainedTokenizerBase, rows: dict[str, int], config: PreTrainedConfig
) -> list[str]:
    """Ids without an embedding, embeddings without an id, and special tokens that the model knows under other ids."""
    sides = zip(("source", "target"), vocabularies(tokenizer), strict=True)
    sizes = {side: (len(tokens), max(tokens.values(), default=-1)) for side, tokens in sides}
    faults = [
        f"{source}: the {side} vocabulary has {count} tokens with ids up to {largest}, but the weights have "
        f"{rows[side]} embeddings. Put the vocabulary and the weights of one model together."
        for side, (count, largest) in sizes.items()
        if largest >= rows[side] or not fills(count, rows[side])
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

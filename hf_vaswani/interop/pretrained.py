"""What the readers of transformers models share: opening a model, and the tokenizer that fits it.

An import never runs code from a folder.
"""

import copy
from pathlib import Path

import torch
from transformers import FSMTTokenizer, GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..data.tokenizers.tokenizer import has_tokenizer, load_tokenizer
from ..errors import InputError, counted
from ..models.model_loading import load_model
from ..text.vocabularies import vocabularies
from .conversion import Conversion, make_config

# Fields that mean the same in MarianConfig, FSMTConfig and VaswaniConfig.
COMMON_FIELDS = (
    "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads",
    "encoder_ffn_dim", "decoder_ffn_dim", "encoder_layerdrop", "decoder_layerdrop", "activation_function",
    "dropout", "attention_dropout", "activation_dropout", "max_position_embeddings", "scale_embedding", "use_cache",
    "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
)  # fmt: skip


def open_model(
    model_class: type[PreTrainedModel], source: str | Path | PreTrainedModel
) -> tuple[PreTrainedModel, str]:
    """The given model, or the one that is loaded from a folder or Hub id, and its name for messages."""
    if isinstance(source, model_class):
        return source, source.name_or_path or f"the {model_class.__name__}"
    return load_model(model_class, str(source)), str(source)


def make_conversion(
    source: str | Path | PreTrainedModel, model: PreTrainedModel, name: str, weights: dict[str, torch.Tensor], **fields
) -> Conversion:
    """Make the [`Conversion`] of an opened model.

    Args:
        source: what the model was opened from; only a folder or a Hub id has a tokenizer.
        weights: under this package's names.
        fields: config fields besides those in `COMMON_FIELDS`.
    """
    fields |= {"sinusoid_layout": "halves", "label_smoothing": 0.0, **common_fields(model.config)}
    rows = {"source": fields["vocab_size"], "target": fields["decoder_vocab_size"]}
    is_model = isinstance(source, PreTrainedModel)
    return Conversion(
        source=name,
        config=make_config(name, **fields),
        weights=weights,
        generation_config=generation_settings(model),
        make_tokenizer=lambda: None if is_model else matching_tokenizer(str(source), rows, model.config),
    )


def common_fields(config: PreTrainedConfig) -> dict[str, object]:
    """The fields that configs of Marian, FSMT and this model share."""
    return {name: getattr(config, name) for name in COMMON_FIELDS}


def generation_settings(model: PreTrainedModel) -> GenerationConfig:
    """A model's search settings, with transformers' default limit, 20 tokens after the start token, made explicit."""
    settings = copy.deepcopy(model.generation_config)
    if settings.max_length is None and settings.max_new_tokens is None:
        settings.max_length = 21
    return settings


def matching_tokenizer(source: str, rows: dict[str, int], config: PreTrainedConfig) -> PreTrainedTokenizerBase | None:
    """Load the tokenizer of a model, and check that it fits the model; None for a folder without a tokenizer.

    Args:
        source: the model's folder or Hub id.
        rows: how many embeddings the `"source"` and the `"target"` have.
        config: the model's; its padding and end tokens must be the tokenizer's.

    Raises:
        InputError: the tokenizer cannot be read, or belongs to another model.
    """
    if Path(source).is_dir() and not has_tokenizer(Path(source)):
        return None
    tokenizer = load_tokenizer(source, trust_remote_code=False)
    if isinstance(tokenizer, FSMTTokenizer) and tokenizer.eos_token is None:
        tokenizer.eos_token = tokenizer.sep_token  # FSMT ends its texts with it
    if errors := _misfits(source, tokenizer, rows, config):
        raise InputError.of(errors)
    return tokenizer


def _misfits(
    source: str, tokenizer: PreTrainedTokenizerBase, rows: dict[str, int], config: PreTrainedConfig
) -> list[str]:
    """Errors for ids without an embedding, and special tokens whose ids differ."""
    sides = dict(zip(("source", "target"), vocabularies(tokenizer), strict=True))
    if errors := [
        f"{source}: the {side} vocabulary must map tokens to whole numbers, got {token!r}: {index!r}."
        for side, tokens in sides.items()
        for token, index in [item for item in tokens.items() if type(item[1]) is not int][:1]
    ]:
        return errors
    sizes = {side: (len(tokens), max(tokens.values(), default=-1)) for side, tokens in sides.items()}
    errors = [
        f"{source}: the {side} vocabulary has {counted(count, 'token')} with ids up to {largest}, but the weights "
        f"have {rows[side]} embeddings. The vocabulary and the weights must come from the same model."
        for side, (count, largest) in sizes.items()
        if largest >= rows[side]
    ]
    errors += [
        f"{source}: {name} is {getattr(tokenizer, name)} in the vocabulary and {getattr(config, name)} in config.json."
        for name in ("pad_token_id", "eos_token_id")
        if not _agree(getattr(tokenizer, name), getattr(config, name))
    ]
    return errors


def _agree(token_id: int | None, configured: int | list[int] | None) -> bool:
    """Whether a special token of the tokenizer is (one of) the model's, if both are known."""
    if token_id is None or configured is None:
        return True
    return token_id in configured if isinstance(configured, list) else token_id == configured

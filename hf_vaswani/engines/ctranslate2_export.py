"""Exports models to CTranslate2, an engine in C++ that needs neither torch nor transformers.

The folder also holds the tokenizer, the generation config, and the config fields that `ctranslate2_model.py` needs to
read it.
"""

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..backends import CTRANSLATE2
from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.tokenizers.tokenizer import save_tokenizer
from ..errors import InputError
from ..generation.output_scores import decoder_start
from ..generation.settings import LONGEST_SOURCE
from ..runtime.imports import import_extra
from ..text.languages import own_languages
from ..text.vocabularies import vocabularies
from . import ctranslate2_spec
from .ctranslate2_config import MODEL_TYPE
from .ctranslate2_model import unsupported
from .engine_model import weights_digest

# Enough for the longest source that the pipeline reads, and an output of that length.
POSITIONS = LONGEST_SOURCE + 128
# The config fields that a reader of the folder needs besides CTranslate2's own.
FIELDS = (
    "vocab_size", "decoder_vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings",
    "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "language_pairs", "longest_training_source", "multi_sentence_share", "length_ratio", "confidence",
)  # fmt: skip


def export(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a folder that `ctranslate2.Translator` and this package can open.

    Args:
        model: a model without any [`unsupported_features`] features; it is not modified.
        folder: an empty folder.
        quantization: one of the `quantizations` of CTranslate2; `None` for float32.

    Raises:
        InputError: CTranslate2 is not installed, or cannot represent the model, or `quantization` is unknown.
    """
    if features := unsupported_features(model):
        raise InputError.of([f"CTranslate2 cannot represent {feature}." for feature in features])
    if quantization not in (None, *CTRANSLATE2.quantizations):
        raise InputError(f"quantization must be one of {', '.join(CTRANSLATE2.quantizations)}, got {quantization!r}.")
    import_extra("ctranslate2")
    spec = ctranslate2_spec.make_spec(model)
    _set_vocabularies(spec, model.config, tokenizer)
    source, target = own_languages(model.config, tokenizer)
    own = {"model_type": MODEL_TYPE, "source_language": source, "target_language": target}
    own |= {name: getattr(model.config, name) for name in FIELDS} | {"weights_digest": weights_digest(model)}
    _save(spec, folder, own, quantization)
    model.generation_config.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def convert(model: PreTrainedModel, folder: Path, quantization: str | None = None) -> None:
    """Write the weights of a model of any supported family, with numbers in place of the tokens of its vocabularies.

    Args:
        model: a model without any [`unsupported_features`](ctranslate2_spec.py); it is not modified.
        folder: an empty folder.
        quantization: one of the `quantizations` of CTranslate2; `None` for float32.
    """
    spec, config = ctranslate2_spec.make_spec(model, POSITIONS), model.config
    rows = [len(module.weight) for module in (model.get_input_embeddings(), model.get_output_embeddings())]
    eos = config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[0]
    start = decoder_start(model)
    spec.register_source_vocabulary(list(map(str, range(rows[0]))))
    spec.register_target_vocabulary(list(map(str, range(rows[1]))))
    spec.config.unk_token = spec.config.eos_token = str(eos)
    spec.config.bos_token = spec.config.decoder_start_token = str(start)
    own = {"model_type": MODEL_TYPE, "vocab_size": rows[0], "decoder_vocab_size": rows[1], "eos_token_id": eos}
    own |= {"pad_token_id": config.pad_token_id, "decoder_start_token_id": start}
    _save(spec, folder, {**own, "max_position_embeddings": ctranslate2_spec.position_count(spec)}, quantization)


def _save(spec: object, folder: Path, own: dict[str, Any], quantization: str | None) -> None:
    spec.validate()
    spec.optimize(quantization=quantization)
    for name, value in own.items():
        spec.config.add_attribute(name, value)
    spec.save(str(folder))


def unsupported_features(model: VaswaniForConditionalGeneration) -> list[str]:
    """List the features of a model, and the settings of its search, that CTranslate2 does not support."""
    settings = unsupported(model.generation_config.to_diff_dict())
    own = ctranslate2_spec.unsupported_features(model)
    return own + [f"{name} in the model's generation_config" for name in settings]


def _set_vocabularies(spec: object, config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    source, target = vocabularies(tokenizer)
    source_tokens = token_list(source, config.vocab_size)
    target_tokens = token_list(target, config.decoder_vocab_size)
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(target_tokens)
    eos = config.eos_token_id if isinstance(config.eos_token_id, int) else config.eos_token_id[0]
    spec.config.eos_token = target_tokens[eos]
    spec.config.bos_token = tokenizer.bos_token or target_tokens[config.decoder_start_token_id]
    spec.config.unk_token = tokenizer.unk_token or spec.config.eos_token
    spec.config.decoder_start_token = target_tokens[config.decoder_start_token_id]


def token_list(vocabulary: dict[str, int], rows: int) -> list[str]:
    """The tokens in the order of their ids, with placeholder names for embeddings that have no token."""
    tokens = {index: token for token, index in vocabulary.items()}
    return [tokens.get(index, f"<unused{index}>") for index in range(rows)]

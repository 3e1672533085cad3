"""Loads a trained model, or a PEFT adapter, with its tokenizer, and says plainly what is missing if that fails."""

import hashlib
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import ADAPTER_CONFIG_NAME, cached_file

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_base import RESIZE_HINT
from ..data.tokenizers.tokenizer import has_tokenizer, load_tokenizer
from ..errors import InputError, reason
from ..files import AGAIN
from ..generation.adapters import base_error
from ..generation.model_checks import vocabulary_error
from ..generation.settings import generation_config_in
from ..text.vocabularies import target_vocab_size, vocabularies
from .ensemble import Ensemble
from .model_digest import adapter_base
from .model_files import (
    check_config_exists,
    check_settings,
    has_weights,
    is_engine_folder,
    is_page,
    model_kind,
    weight_file_errors,
)
from .model_loading import damage_errors, read_weights, weight_errors


def has_own_tokenizer(path: str) -> bool:
    """Whether an adapter (a folder or a Hub id) comes with its own tokenizer, as it does if tokens were added."""
    if Path(path).is_dir():
        return has_tokenizer(Path(path))
    quiet = ("gated_repo", "missing_entries", "connection_errors")
    options = {f"_raise_exceptions_for_{problem}": False for problem in quiet}
    return cached_file(path, "tokenizer_config.json", **options) is not None


def add_adapter(model: PreTrainedModel, path: str) -> PreTrainedModel:
    """Add an adapter to a model: its weights to the layers, and its search settings, if it has any.

    The weights are not merged: with tied matrices, merging an adapter into one of them would change them all.

    Raises:
        InputError: the adapter was trained on another model, does not fit this one, or is not of a kind that changes
            its layers.
    """
    from peft import PeftConfig, PeftModel

    try:
        config = PeftConfig.from_pretrained(path)
        if config.is_prompt_learning:
            raise InputError(
                f"{path} is an adapter of type {config.peft_type.value}, which adds tokens before the text. Only "
                "those that change a model's layers, such as LoRA's, can be loaded here."
            )
        if error := base_error(model, path):
            raise InputError(error)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # PEFT only warns about missing weights, and continues with an adapter that is partly untrained.
            warnings.filterwarnings("error", message="Found missing adapter keys")
            adapted = PeftModel.from_pretrained(model, path, config=config, autocast_adapter_dtype=False)
        model.generation_config = generation_config_in(path) or model.generation_config
    except InputError:
        raise
    except (TypeError, AttributeError):
        raise InputError(f"{path}: a value in {ADAPTER_CONFIG_NAME} has the wrong type. {AGAIN}") from None
    except Exception as error:  # PEFT raises many types for damaged files and for adapters of other models
        raise InputError(f"{path} cannot be loaded: {reason(error)}") from None
    return adapted.get_base_model()


def load_ensemble(paths: list[str], dtype: str | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load several models as one that translates with all of them, and the tokenizer that they share.

    Takes the arguments of [`load`]. A single path gives that model itself.

    Raises:
        InputError: as in [`load`], or the models do not have the same tokens.
    """
    (model, tokenizer), *others = [load(path, dtype) for path in paths]
    if not others:
        return model, tokenizer
    tokenizers = {paths[0]: tokenizer} | {path: other for path, (_, other) in zip(paths[1:], others)}
    if errors := tokenizer_errors(tokenizers):
        raise InputError.of(errors)
    try:
        return Ensemble([model, *(other for other, _ in others)]), tokenizer
    except ValueError as error:
        raise InputError(str(error)) from None


def tokenizer_errors(tokenizers: Mapping[str, PreTrainedTokenizerBase]) -> list[str]:
    """Errors for models of an ensemble whose tokens differ from the first model's.

    Args:
        tokenizers: path of each model → its tokenizer.
    """
    first, *others = tokenizers
    return [
        f"{path} has a different tokenizer from {first}, so they cannot form an ensemble."
        for path in others
        if vocabularies(tokenizers[path]) != vocabularies(tokenizers[first])
    ]


def load(
    path: str, dtype: str | None = None, trust_remote_code: bool | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a model and its tokenizer from a folder or the Hub, onto an accelerator if there is one.

    Args:
        path: a model, or a PEFT adapter; an adapter without a tokenizer uses its base model's.
        dtype: `"float32"`, `"bfloat16"` or `"float16"`; default: the dtype of the weights.
        trust_remote_code: whether code that comes with the model may run, if its type is unknown here; by default
            transformers asks the user.

    Raises:
        InputError: the config, weights or tokenizer are missing, damaged, or do not fit together.
    """
    if Path(path).is_file():
        raise InputError(f"{path} is a file. Specify the folder of a model.")
    base = adapter_base(path)
    if base is None:
        model, tokenizer = _load_whole(path, dtype, trust_remote_code=trust_remote_code)
    else:
        try:
            own = path if has_own_tokenizer(path) else None
            model, tokenizer = _load_whole(base, dtype, own, trust_remote_code)
        except InputError as error:
            raise InputError(
                f"{path} is an adapter, but its base model could not be loaded. {error} If that has moved, change "
                "base_model_name_or_path in adapter_config.json."
            ) from None
        model = add_adapter(model, path)
    check_vocabularies(path, model, tokenizer)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    return model.to(device).eval(), tokenizer


def check_not_exported(path: str, model: PreTrainedModel) -> None:
    """Raise an `InputError` for a folder exported to an engine, which shows neither probabilities nor attention."""
    if hasattr(model.config, "weights_digest"):
        raise InputError(f"{path} was exported to an engine that can only translate. Use the original model.")


def check_gives_probabilities(path: str, model: PreTrainedModel) -> None:
    """Raise an `InputError` for a folder exported to an engine that cannot score given translations."""
    if getattr(model, "engine_name", "") == "CTranslate2":  # ONNX Runtime gives logits
        check_not_exported(path, model)


def _load_whole(
    path: str, dtype: str | None, tokenizer_path: str | None = None, trust_remote_code: bool | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a model and a tokenizer, which is in the model's folder unless `tokenizer_path` names another."""
    if Path(path).is_dir():
        check_folder(Path(path), tokenizer_path is None)
        if not trust_remote_code or model_kind(Path(path)) in CONFIG_MAPPING:
            check_settings(Path(path))
    given: dict[str, Any] = {"dtype": dtype} if dtype else {}
    if trust_remote_code is not None:
        given["trust_remote_code"] = trust_remote_code
    model, report = read_weights(AutoModelForSeq2SeqLM, path, **given)
    # For a quantized tensor, the tensors that it is made of.
    tensors = ((name, part) for name, weight in model.named_parameters() for part in _plain_tensors(weight))
    if errors := unfit_weights(path, model, report) + damage_errors(path, tensors):
        raise InputError.of(errors)
    return model, load_tokenizer(tokenizer_path or path, trust_remote_code)


def fingerprint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> str:
    """Digest of a model, its generation config and its tokenizer, the same in any folder and on any device.

    It covers the first 64 values of each tensor, which training changes.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        for part in _plain_tensors(tensor):
            values = part.flatten()[:64].float().cpu().tolist()
            digest.update(json.dumps([name, list(part.shape), values]).encode())
    # For a model that runs in another engine and has no tensors here.
    digest.update(repr(getattr(model.config, "weights_digest", "")).encode("ascii", "backslashreplace"))
    generation = model.generation_config.to_diff_dict()
    generation.pop("transformers_version", None)
    digest.update(json.dumps([generation, sorted(tokenizer.get_vocab().items())], default=str).encode())
    return digest.hexdigest()


def _plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors that a tensor is made of: itself, or for a quantized tensor its codes, its scales and so on."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _plain_tensors(getattr(tensor, name))


def unfit_weights(path: str, model: PreTrainedModel, report: dict[str, Any]) -> list[str]:
    """Errors for weights that do not fit the config: transformers would initialize them at random."""
    missing, unexpected = report["missing_keys"], report["unexpected_keys"]
    if model.config.model_type != VaswaniConfig.model_type:
        # Other models have buffers that may be missing, and weights of old versions that nothing needs.
        names = dict(model.named_parameters()).keys()
        missing = names & set(missing)
        unexpected = [name for name in unexpected if _is_of_a_further_layer(name, names)]
    return weight_errors(path, sorted(report["mismatched_keys"]), missing, unexpected)


def _is_of_a_further_layer(name: str, names: Collection[str]) -> bool:
    """Whether a weight belongs to a layer beyond the config's: with 0 as the number, the model has its name."""
    numbers = re.finditer(r"(?<=\.)\d+(?=\.)", name)
    return any(f"{name[: number.start()]}0{name[number.end() :]}" in names for number in numbers)


def check_vocabularies(path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Raise an `InputError` for a tokenizer with more tokens than its model has embeddings."""
    error = vocabulary_error(model, tokenizer)
    # Other models may have more embeddings than tokens, but not fewer.
    tokens, rows = (len(tokenizer), target_vocab_size(tokenizer)), len(model.get_input_embeddings().weight)
    if tokens[0] > rows or tokens[1] > getattr(model.config, "decoder_vocab_size", tokens[1]):
        error = error or f"the tokenizer has {max(tokens):,} tokens, more than the model has embeddings"
    if error:
        raise InputError(f"{path}: {error}. {RESIZE_HINT}")
    if isinstance(model.config, VaswaniConfig) and model.config.pad_token_id is not None and not tokenizer.pad_token:
        raise InputError(f"{path}: its tokenizer_config.json sets no pad_token, but the model has one. {AGAIN}")


def check_folder(folder: Path, needs_tokenizer: bool = True) -> None:
    """Check that a folder has the files that a model is loaded from.

    Raises:
        InputError: a file is missing; the error names it.
    """
    if is_page(folder):
        raise InputError(f"{folder} was exported for the web. Use the original model, or export that with --to onnx.")
    check_config_exists(folder)
    if not has_weights(folder) and not is_engine_folder(folder):
        raise InputError.of(weight_file_errors(folder))
    if needs_tokenizer and not has_tokenizer(folder):
        raise InputError(
            f"{folder} has no tokenizer (tokenizer.json). Copy the tokenizer it was trained with into the folder."
        )

"""Loads PEFT adapters, such as LoRA: folders with a few weights and the name of the base model that has the rest."""

import json
import warnings
from pathlib import Path

from transformers import PreTrainedModel
from transformers.utils import ADAPTER_CONFIG_NAME, cached_file, find_adapter_config_file

from ..data.tokenizers.tokenizer import has_tokenizer
from ..errors import InputError, reason
from ..generation.adapters import base_error
from ..generation.settings import generation_config_in
from ..runtime.imports import import_extra

ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


def adapter_base(path: str) -> str | None:
    """The base model (a folder or a Hub id) that an adapter names; None for anything that is not an adapter.

    Args:
        path: folder or Hub id. A whole model with an adapter beside it is not one: transformers loads both.

    Raises:
        InputError: the adapter names no base model or has no weights, or PEFT is not installed.
    """
    folder = Path(path)
    if folder.is_dir() and (folder / "config.json").exists():
        return None
    try:
        config_file = find_adapter_config_file(path)
    except Exception:  # not a Hub id, no such model, no connection: loading the model reports it
        return None
    if config_file is None:
        return None
    try:
        config = json.loads(Path(config_file).read_text(encoding="utf-8"))
        base = config.get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{config_file} cannot be read: {reason(error)}") from None
    errors = []
    if not isinstance(base, str) or not base:
        errors.append(
            f"{path} is an adapter without a base model. Set base_model_name_or_path in {ADAPTER_CONFIG_NAME}."
        )
    if folder.is_dir() and not any((folder / name).exists() for name in ADAPTER_WEIGHTS):
        errors.append(f"{path} is an adapter without weights ({ADAPTER_WEIGHTS[0]}).")
    try:
        import_extra("peft")
    except InputError as error:
        errors.append(f"{path} is an adapter. {error}")
    if errors:
        raise InputError.of(errors)
    return base


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
    except Exception as error:  # PEFT raises many types for damaged files and for adapters of other models
        raise InputError(f"{path} cannot be loaded: {reason(error)}") from None
    return adapted.get_base_model()

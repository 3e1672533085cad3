"""Loads transformers models strictly: missing weights are errors, not initialized at random.

transformers raises many types of exceptions if a file is damaged, missing or not what it claims to be; each becomes
one clear error.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ..errors import InputError, counted, listed, reason
from ..files import AGAIN, model_path_error, where_not_found
from ..generation.model_checks import damaged_weights
from ..runtime.imports import quiet
from .model_files import check_settings, weight_file_errors

NAMES_SHOWN = 5
Report = Mapping[str, Iterable[Any]]
# Arguments of `from_pretrained`: return a report on weights that are missing or do not fit, instead of raising.
REPORTING = {"output_loading_info": True, "ignore_mismatched_sizes": True}


def load_model(model_class: type[PreTrainedModel], source: str) -> PreTrainedModel:
    """Load a model from a folder or a Hub id, in float32.

    Raises:
        InputError: a file is damaged, missing or unsafe, or the weights do not fit the configuration, are quantized,
            or are not finite.
    """
    if Path(source).is_dir():
        check_settings(Path(source))
    model, report = read_weights(model_class, source, dtype=torch.float32)
    errors = report_errors(source, report)
    if hasattr(model.config, "quantization_config"):
        errors.append(f"{source} has quantized weights, which cannot be converted. Use the model that was quantized.")
    if errors := errors + damage_errors(source, model.named_parameters()):
        raise InputError.of(errors)
    return model.eval()


def read_weights(model_class: type, source: str, **options) -> tuple[PreTrainedModel, Report]:
    """Load a model, with transformers' report on how its weights fit: missing, unexpected and mismatched keys.

    Args:
        model_class: a model class or an Auto class.
        options: further arguments of `from_pretrained`.

    Raises:
        InputError: a file is damaged, missing or unsafe.
    """
    if error := model_path_error(source):
        raise InputError(error)
    try:
        with quiet("transformers"):  # its warnings are in the report
            return model_class.from_pretrained(source, **REPORTING, **options)
    except InputError:  # from one of this package's engines
        raise
    except Exception as error:  # of many types, for damaged or missing files
        raise InputError.of(_why_not_loaded(source, error)) from None


def damage_errors(source: str, weights: Iterable[tuple[str, torch.Tensor]]) -> list[str]:
    """One error that lists all weights with non-finite values, or none; `weights` are names and tensors."""
    damaged = damaged_weights(weights)
    return [f"{source} has weights with values that are NaN or infinite: {listed(damaged)}. {AGAIN}"] * bool(damaged)


def foreign_classes(error: Exception) -> str:
    """The classes that PyTorch refused to load, according to its error."""
    return ", ".join(sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(error)))))


def _why_not_loaded(source: str, error: Exception) -> list[str]:
    """An error for each damaged file, or transformers' own error if none is found."""
    folder = Path(source)
    if folder.is_dir() and (errors := weight_file_errors(folder)):
        return errors
    if "weights_only" in str(error):
        classes = foreign_classes(error)
        what = f"contains {classes}, which weights do not need and which could run code" if classes else "is damaged"
        return [f"{source}: its pickle {what}; it was not read. Use a copy in safetensors."]
    hint = f" (pip install {error.name})" if isinstance(error, ModuleNotFoundError) else ""
    return [f"{source}{where_not_found(source)} cannot be loaded: {reason(error)}{hint}"]


def report_errors(source: str, report: Report) -> list[str]:
    """Errors for all weights in transformers' report."""
    keys = report["missing_keys"], report["unexpected_keys"]
    return weight_errors(source, sorted(report["mismatched_keys"]), *keys)


def weight_errors(
    source: str, mismatched: Iterable[tuple[str, tuple, tuple]], missing: Iterable[str], unknown: Iterable[str]
) -> list[str]:
    """Errors for mismatches between the weights of a source and its configuration.

    Args:
        mismatched: name, shape found and shape expected of each weight with the wrong shape.
        missing: names of weights that are expected but not found.
        unknown: names of weights that are found but not expected.
    """
    mismatched = list(mismatched)
    errors = [
        f"{source}: {name} has shape {tuple(found)}, but its configuration expects {tuple(expected)}."
        for name, found, expected in mismatched[:NAMES_SHOWN]
    ]
    if len(mismatched) > NAMES_SHOWN:
        more = counted(len(mismatched) - NAMES_SHOWN, "more weight")
        errors.append(f"{source}: the same for {more}.")
    if missing:
        errors.append(f"{source} lacks weights that its configuration expects: {listed(missing)}.")
    if unknown:
        errors.append(f"{source} has weights that do not belong to this model: {listed(unknown)}.")
    return errors

"""What kind of model a folder or a Hub id holds, for a run that starts from it."""

from pathlib import Path

from transformers import PreTrainedConfig

from ..core.configuration_vaswani import VaswaniConfig
from .families import FAMILIES
from .model_files import CONFIG_FILE, model_kind


def model_type(source: str) -> str | None:
    """The `model_type` of a model in a folder or on the Hub; `None` for anything else, and for what cannot be read."""
    path = Path(source)
    if (path / CONFIG_FILE).exists():
        return model_kind(path)
    if path.exists():
        return None
    try:
        return PreTrainedConfig.get_config_dict(source)[0].get("model_type")
    except Exception:  # reading the model says what is wrong
        return None


def is_own_model(source: str) -> bool:
    """Whether a folder or a Hub id is that of a model of this package."""
    return model_type(source) == VaswaniConfig.model_type


def keeps_its_class(source: str) -> bool:
    """Whether a model of another class is fine-tuned as it is, and not imported."""
    return model_type(source) in FAMILIES

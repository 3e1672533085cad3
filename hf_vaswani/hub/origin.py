"""What others can know about the model that was exported: its name on the Hub, its languages and its license."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import cached_file

from ..configuration.yaml_reader import read_yaml
from ..engines.engine_folders import weights_size
from ..errors import InputError
from ..models.model_files import CONFIG_FILE
from ..text.languages import own_languages
from .metadata import hub_languages
from .repository import hub_id, is_hub_id
from .run_report import RESULTS_FILE, read_report

CARD_FILE = "README.md"
LICENSE_KEYS = ("license", "license_name", "license_link")
QUIET = {
    f"_raise_exceptions_for_{problem}": False for problem in ("gated_repo", "missing_entries", "connection_errors")
}


@dataclass(frozen=True)
class Origin:
    """The model that was exported.

    Attributes:
        hub_id: its id on the Hub; `None` if it is not known to be there.
        languages: the Hub's codes of its source and target languages.
        license: what its card says about its license, by the Hub's keys.
        size: size of its weights in bytes.
    """

    hub_id: str | None
    languages: list[str] | None
    license: dict[str, str]
    size: int


def read_origin(path: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Origin:
    """What is known about a model.

    Args:
        path: folder or Hub id that the model was loaded from.
    """
    card = card_metadata(path)
    license = {key: card[key] for key in LICENSE_KEYS if isinstance(card.get(key), str)}
    codes = [code for code in own_languages(model.config, tokenizer) if code]
    config = Path(path) / CONFIG_FILE if Path(path).is_dir() else cached_file(path, CONFIG_FILE, **QUIET)
    size = weights_size(Path(config).parent) if config else 0  # an adapter has none
    return Origin(published_name(path), hub_languages(codes), license, size)


def card_metadata(path: str) -> dict[str, Any]:
    """The metadata of a model's card; empty if it has none that can be read."""
    try:
        file = cached_file(path, CARD_FILE, **QUIET)
        found = REGEX_YAML_BLOCK.match(Path(file).read_text(encoding="utf-8-sig")) if file else None
        content = read_yaml(found[2]) if found else {}
        return content if isinstance(content, dict) else {}
    except (OSError, ValueError, yaml.YAMLError):
        return {}


def published_name(path: str) -> str | None:
    """A model's id on the Hub: the one it was loaded by, or the one that `hf-vaswani card --name` gave its run."""
    if not Path(path).is_dir():
        return hub_id(path)
    try:
        name = read_report(Path(path)).name if (Path(path) / RESULTS_FILE).exists() else None
    except InputError:
        return None
    return name if name and "/" in name and is_hub_id(name) else None


__all__ = ["Origin", "read_origin"]

"""Identifies a model by the content of the files that its translations depend on, its base included."""

import functools
import hashlib
from pathlib import Path

from transformers.utils import ADAPTER_CONFIG_NAME, cached_file, find_adapter_config_file

from ..data.tokenizers.tokenizer import SAVED_FILES
from ..errors import InputError
from ..files import file_digest, read_json
from ..runtime.imports import import_extra
from .model_files import CONFIG_FILE, GENERATION_FILE, SHORTLIST_FILE, weight_patterns

ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
SETTINGS_FILES = (CONFIG_FILE, GENERATION_FILE, ADAPTER_CONFIG_NAME)
# Of CTranslate2, and of a tokenizer with two vocabularies next to the model of an engine.
ENGINE_FILES = ("*_vocabulary.json", SHORTLIST_FILE, "*_tokenizer/*.json")


def content_digest(model: str) -> str:
    """Digest of the files that a model's translations depend on: weights, tokenizer and settings; also of its base.

    Files are read once, and again only when they change. A model on the Hub has the digest of its commit; a
    missing one has the digest of no files.

    Args:
        model: a folder or a Hub id.
    """
    folder = Path(model)
    if folder.is_dir():
        parts = [f"{path.relative_to(folder)} {_digest_of(path)}" for path in _files(folder)]
    else:
        parts = [_commit(model)]
    try:
        base = adapter_base(model)
    except InputError:  # loading the model reports it
        base = None
    parts += [content_digest(base)] if base and base != model else []
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    patterns = (*weight_patterns(), "adapter_model.bin", *SAVED_FILES, *SETTINGS_FILES, *ENGINE_FILES)
    return sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})


def _digest_of(path: Path) -> str:
    status = path.stat()
    return _file_digest(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@functools.lru_cache(maxsize=256)
def _file_digest(path: Path, *status: int) -> str:
    return file_digest(path)


@functools.cache
def _commit(model: str) -> str:
    """The commit of a model on the Hub, or in the local cache if the Hub cannot be reached; or ""."""
    for name in (CONFIG_FILE, ADAPTER_CONFIG_NAME):
        try:
            return Path(cached_file(model, name)).parent.name
        except Exception:  # no such file or model, or no connection: loading the model reports it
            continue
    return ""


def adapter_base(path: str) -> str | None:
    """The base model (a folder or a Hub id) that an adapter names; None for anything that is not an adapter.

    Args:
        path: folder or Hub id. A whole model with an adapter next to it is not one: transformers loads both.

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
    base, errors = read_json(Path(config_file)).get("base_model_name_or_path"), []
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

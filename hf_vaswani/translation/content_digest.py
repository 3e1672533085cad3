"""Digests of models by the content of their files, so that caches of translations notice new weights."""

import functools
import hashlib
from pathlib import Path

from transformers.utils import ADAPTER_CONFIG_NAME, cached_file

from ..data.tokenizers.tokenizer import SAVED_FILES
from ..engines.engine_folders import WEIGHT_FILES
from ..errors import InputError
from ..models.model_files import CONFIG_FILE, GENERATION_FILE
from .adapters import adapter_base

SETTINGS_FILES = (CONFIG_FILE, GENERATION_FILE, ADAPTER_CONFIG_NAME)
# Of CTranslate2, and of a tokenizer with two vocabularies beside the model of an engine.
ENGINE_FILES = ("*_vocabulary.json", "*_tokenizer/*.json")
PATTERNS = (*WEIGHT_FILES, "adapter_model.bin", *SAVED_FILES, *SETTINGS_FILES, *ENGINE_FILES)


def content_digest(model: str) -> str:
    """Digest of the files that a model's translations depend on: weights, tokenizer and settings; also of its base.

    Files are read once, and again only when they change. For a model on the Hub, it is that of its commit; for one
    that is not there, it is that of no files.

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
    return sorted({path for pattern in PATTERNS for path in folder.glob(pattern) if path.is_file()})


def _digest_of(path: Path) -> str:
    status = path.stat()
    return _file_digest(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@functools.lru_cache(maxsize=256)
def _file_digest(path: Path, *status: int) -> str:
    with path.open("rb") as file:
        result = hashlib.sha256()
        while block := file.read(1 << 20):
            result.update(block)
    return result.hexdigest()


@functools.cache
def _commit(model: str) -> str:
    """The commit of a model on the Hub, or in the local cache if the Hub cannot be reached; or ""."""
    for name in (CONFIG_FILE, ADAPTER_CONFIG_NAME):
        try:
            return Path(cached_file(model, name)).parent.name
        except Exception:  # no such file or model, or no connection: loading the model reports it
            continue
    return ""

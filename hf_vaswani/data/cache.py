"""The cache of prepared text: folders named after the content they were made from, there whole or not at all."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub.constants import HF_HOME

from ..errors import InputError


def cache_folder(path: str | None = None) -> Path:
    """Where prepared text is kept: `path`, `$HF_VASWANI_CACHE`, or `vaswani` in the cache of Hugging Face."""
    return Path(path or os.environ.get("HF_VASWANI_CACHE") or Path(HF_HOME) / "vaswani")


def cached(cache: Path, key: Any, make: Callable[[Path], None]) -> Path:
    """The folder in `cache` of what `key` describes, made where it is not there yet.

    Args:
        key: plain values that say all that the content depends on.
        make: fills the empty folder that it is given. A folder whose making was interrupted is never found.

    Raises:
        InputError: where the cache cannot be written.
    """
    name = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()
    path = cache / name
    if path.is_dir():
        return path
    # Of two that make the same at once, the first to end gives it its name.
    part = cache / f"{name}.{os.getpid()}.part"
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        if not path.is_dir():
            part.rename(path)
    except OSError as error:
        if path.is_dir():
            return path
        raise InputError(
            f"The cache of prepared text in {cache} cannot be written: {error.strerror or error}. Make room, or name "
            "another folder with data.cache_dir."
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return path

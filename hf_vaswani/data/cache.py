"""The cache of prepared text: folders named after a hash of what their content depends on, each complete or absent.

Each folder holds checksums of its files, so that damage is noticed before anything is trained on it.
"""

import hashlib
import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub.constants import HF_HOME

from ..errors import InputError, reason
from ..ledger import new_folder, partial_folder

CHECKSUMS_FILE = "checksums.json"
CHUNK = 1 << 20


def cache_folder(path: str | None = None) -> Path:
    """The folder for prepared text: `path`, `$HF_VASWANI_CACHE`, or `vaswani` in the Hugging Face cache."""
    return Path(path or os.environ.get("HF_VASWANI_CACHE") or Path(HF_HOME) / "vaswani")


Content = TypeVar("Content")
logger = logging.getLogger(__name__)


def cached(
    cache: Path,
    key: Any,
    make: Callable[[Path], None],
    read: Callable[[Path], Content],
    what: str = "prepared text",
    remedy: str = "choose another folder with data.cache_dir",
) -> Content:
    """Return the content for `key` from its folder in `cache`, first making the folder if it is missing or damaged.

    Args:
        key: all values that the content depends on, as plain values that JSON can express.
        make: fills the empty folder that it is given. A folder left incomplete by an interruption is never used.
        read: reads a filled folder. The files of an existing folder are compared with their checksums first; `read`
            may also report damage by raising a `ValueError`, `KeyError`, `AttributeError`, `EOFError` or
            `FileNotFoundError`.
        what, remedy: what a folder holds, and what to do if the cache cannot be used, for messages.

    Raises:
        InputError: the cache cannot be read or written.
    """
    path = cache / folder_name(key)
    if path.is_dir():
        try:
            check_checksums(path)
            return read(path)
        except (ValueError, KeyError, AttributeError, EOFError, FileNotFoundError):  # JSON errors are ValueErrors
            _remove(path, what)
        except OSError as error:
            raise InputError(
                f"The {what} in {path} cannot be read: {reason(error)}. Make it readable, or {remedy}."
            ) from None
    with new_folder(path, f"or {remedy}", may_appear=True) as part:
        make(part)
        write_checksums(part)
    return read(path)


def folder_name(key: Any) -> str:
    """The name of the folder for a key."""
    return hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_checksums(folder: Path) -> None:
    """Store the CRC-32 of each file in a folder in that folder.

    CRC-32 detects accidents, not attacks, and is twice as fast as SHA-256: 0.15 s for 136 MB.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    values = {path.relative_to(folder).as_posix(): _checksum(path) for path in files}
    (folder / CHECKSUMS_FILE).write_text(json.dumps(values))


def check_checksums(folder: Path) -> None:
    """Compare the files in a folder with the checksums that [`write_checksums`] stored.

    Raises:
        ValueError, AttributeError, FileNotFoundError: a file has changed or is missing.
    """
    for name, value in json.loads((folder / CHECKSUMS_FILE).read_text()).items():
        if _checksum(folder / name) != value:
            raise ValueError(f"{folder / name} is not the file that was written.")


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def _remove(folder: Path, what: str) -> None:
    """Remove a damaged folder, moving it aside first so that it disappears atomically."""
    logger.warning("The %s in %s is damaged or incomplete; making it again.", what, folder)
    aside = partial_folder(folder)
    try:
        folder.rename(aside)
    except OSError as error:
        raise InputError(f"{folder} is damaged and cannot be removed: {reason(error)}. Delete it.") from None
    shutil.rmtree(aside, ignore_errors=True)

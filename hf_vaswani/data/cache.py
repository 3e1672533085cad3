"""The cache of prepared text and converted models: folders named after a hash of what their content depends on, each
complete or absent.

Each folder holds its own name and checksums of its files, and belongs to the user alone, so that a folder that is
damaged, in the place of another or made by somebody else is noticed before it is used. So are notes, which are small
JSON files.
"""

import hashlib
import json
import logging
import os
import shutil
import stat
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub.constants import HF_HOME

from ..errors import InputError, reason
from ..files import atomic_write, is_own, read_json
from ..ledger import new_folder, partial_folder

CHECKSUMS_FILE = "checksums.json"
CHUNK = 1 << 20


def cache_folder(path: str | None = None) -> Path:
    """The folder for prepared text: `path`, `$HF_VASWANI_CACHE`, or `vaswani` in the Hugging Face cache.

    Where that is not this user's, or everybody can write to it, it is a folder of the user's own in there.
    """
    folder = Path(path or os.environ.get("HF_VASWANI_CACHE") or Path(HF_HOME) / "vaswani")
    with suppress(OSError, ValueError, AttributeError):  # no such folder or path; or the system has no such users
        status, user = folder.stat(), os.geteuid()
        if status.st_uid != user or status.st_mode & stat.S_IWOTH:
            return folder / f"user-{user}"
    return folder


Content = TypeVar("Content")
logger = logging.getLogger(__name__)


def cached(
    cache: Path,
    key: object,
    make: Callable[[Path], None],
    read: Callable[[Path], Content],
    what: str = "prepared text",
    remedy: str = "choose another folder with data.cache_dir",
) -> Content:
    """Return the content for `key` from its folder in `cache`, first making the folder if it is missing or damaged.

    Args:
        key: all values that the content depends on, as plain values that JSON can express.
        make: fills the empty folder that it is given. A folder left incomplete by an interruption is never used.
        read: reads a filled folder. An existing folder is checked first, see [`check_folder`]; `read` may also report
            damage by raising a `ValueError`, `KeyError`, `AttributeError`, `EOFError` or `FileNotFoundError`.
        what, remedy: what a folder holds, and what to do if the cache cannot be used, for messages.

    Raises:
        InputError: the cache cannot be read or written.
    """
    path = cache / folder_name(key)
    if os.path.lexists(path):
        try:
            check_folder(path)
            return read(path)
        except (ValueError, KeyError, AttributeError, EOFError, FileNotFoundError, NotADirectoryError):
            _remove(path, what, remedy)
        except OSError as error:
            raise InputError(
                f"The {what} in {path} cannot be read: {reason(error)}. Make it readable, or {remedy}."
            ) from None
    with new_folder(path, f"or {remedy}", is_cached=True) as part:
        make(part)
        write_checksums(part, path.name)
    return read(path)


def folder_name(key: object) -> str:
    """The name of the folder for a key."""
    return hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()


def write_checksums(folder: Path, name: str) -> None:
    """Store in a folder the name that it will have, and the CRC-32 of each of its files, which only the user may read.

    CRC-32 detects accidents, not attacks, and is twice as fast as SHA-256: 0.15 s for 136 MB.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        with suppress(OSError):  # a file system without permissions
            path.chmod(0o600)
    values = {path.relative_to(folder).as_posix(): _checksum(path) for path in files}
    (folder / CHECKSUMS_FILE).write_text(json.dumps({"folder": name, "files": values}))


def check_folder(folder: Path) -> None:
    """Check that a folder is what [`cached`] made under its name, and that nobody else can have changed it.

    Raises:
        ValueError: it is not, or a file has changed.
        OSError: a file is missing or cannot be read.
    """
    if not is_own(folder):
        raise ValueError(f"{folder} belongs to another user, or others can write to it.")
    stored = read_json(folder / CHECKSUMS_FILE)
    if stored.get("folder") != folder.name or not isinstance(stored.get("files"), dict):
        raise ValueError(f"{folder} was made under another name.")
    for name, value in stored["files"].items():
        if not is_own(folder / name) or _checksum(folder / name) != value:
            raise ValueError(f"{folder / name} is not the file that was written.")


def read_note(file: Path) -> dict[str, Any]:
    """The content of a note in the cache; empty if there is none, if it is damaged, or if it is not this user's."""
    if is_own(file):
        with suppress(InputError, OSError):
            return read_json(file)
    return {}


def write_note(file: Path, content: dict[str, Any]) -> None:
    """Write a note, if the cache can be written."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.touch(0o600)
            part.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def _remove(folder: Path, what: str, remedy: str) -> None:
    """Remove a folder that cannot be used, moving it aside first so that it disappears atomically."""
    why = "is damaged or incomplete" if is_own(folder) else "can be changed by others"
    logger.warning("The %s in %s %s; making it again.", what, folder, why)
    aside = partial_folder(folder)
    try:
        if not folder.is_dir() or folder.is_symlink():
            return folder.unlink()
        folder.rename(aside)
    except OSError as error:
        raise InputError(f"{folder} {why}, and cannot be removed: {reason(error)}. Delete it, or {remedy}.") from None
    shutil.rmtree(aside, ignore_errors=True)

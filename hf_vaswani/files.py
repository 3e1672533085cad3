"""Files and folders: checks of the paths that users give, atomic writes, and JSON with type checks.

An old file stays in place until the new one is complete, and what an earlier run stored is checked before it is used.
"""

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import InputError, nearest, reason, write_remedy

Result = TypeVar("Result")

# In a relative path: an empty part, which a leading slash makes, too; ".", "..", a drive, a backslash, a NUL.
UNSAFE = re.compile(r"(^|/)(\.{0,2}($|/)|[A-Za-z]:)|[\\\0]")
GIT_LFS = b"version https://git-lfs"
AGAIN = "Copy or download it again."
REMEDIES = {
    errno.EACCES: "Change its permissions, or choose another.",
    errno.EPERM: "Change its permissions, or choose another.",
    errno.ELOOP: "The symbolic links form a loop: choose another.",
    errno.ENAMETOOLONG: "Choose a shorter one.",
}
TYPE_NAMES = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null",
    dict: "keys with values", list: "a list",
}  # fmt: skip


class InputPath(str):
    """The value of an option that names what a command reads: a file, a folder or a Hub id."""


class OutputPath(str):
    """The value of an option that names what a command writes."""


def path_error(path: str | Path, is_output: bool = False) -> str | None:
    """Why a path cannot be used, or `None` if it can. It need not exist.

    Args:
        is_output: the path must also be UTF-8, since it will appear in messages and files.
    """
    if not str(path):
        return "A path is empty. Name a file or a folder."
    try:
        if is_output:
            str(path).encode()
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return os_error(error)
    except ValueError:  # a NUL, or a surrogate in place of a byte that is not UTF-8
        return f"{str(path)!a} is not a valid file name: it contains a NUL or is not UTF-8. Choose another."
    return None


def os_error(error: OSError) -> str | None:
    """An operating system error as one line; `None` if the error does not name a path."""
    if error.filename is None or error.errno is None:
        return None
    return f"{os.fsdecode(error.filename)}: {error.strerror}. {REMEDIES.get(error.errno, 'Choose another.')}"


def option_errors(options: dict[str, object]) -> list[str]:
    """Errors in the texts and paths among the values of options."""
    texts = {name: value for name, value in options.items() if type(value) is str}
    errors = [f"--{name} is not UTF-8: {text!a}" for name, text in texts.items() if not _is_utf8(text)]
    values = [value for given in options.values() for value in (given if isinstance(given, list) else [given])]
    paths = dict.fromkeys(value for value in values if isinstance(value, InputPath | OutputPath))
    return errors + [error for path in paths if (error := path_error(path, isinstance(path, OutputPath)))]


def check_names(names: Iterable[str], where: str) -> None:
    """Check the names of files that come from elsewhere, such as a repository's, before any is written.

    Args:
        names: paths in a folder, with slashes between their parts.
        where: beginning of the error message, such as "you/de-en cannot be downloaded".

    Raises:
        InputError: a name could lead out of the folder, on this system or on another one, or is not a file name.
    """
    wrong = [name for name in names if UNSAFE.search(name) or not _is_utf8(name)]
    if wrong:
        raise InputError(
            f"{where}: its file {wrong[0]!a} could be written outside the folder. Choose another repository."
        )


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path in a folder is really elsewhere, through a symbolic link."""
    # Not with `resolve()`, which fails on circular links.
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _is_utf8(text: str) -> bool:
    """Whether a text is free of surrogates, which Python puts in place of bytes that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def where_not_found(path: str | Path) -> str:
    """The part of an error message between a folder or Hub id and the reason why it cannot be loaded.

    It says that there is no such folder, and suggests one next to it with a similar name; it is empty if the path
    exists.
    """
    path = Path(path)
    return "" if path.exists() else f" is not a local folder{_similar_folder(path)}, and"


def model_path_error(path: str | Path) -> str | None:
    """Why the path of a model or tokenizer cannot be used; `None` if it can, or if it may be an id on the Hub."""
    text, folder = str(path), Path(path)
    if error := path_error(path):
        return error
    if folder.exists() or not (text.startswith((".", "/", "~")) or "\\" in text or text.count("/") > 1):
        return None
    return f"{text} does not exist{_similar_folder(folder)}. Specify a folder that does, or an id on the Hub."


def _similar_folder(path: Path) -> str:
    """A question whether a folder next to a path is meant; "" if none has a similar name."""
    try:
        siblings = [other.name for other in path.parent.iterdir() if other.is_dir()]
    except OSError:
        siblings = []
    close = nearest(path.name, siblings)
    return f" (did you mean {path.parent / close}?)" if close else ""


def is_same_file(path: str | Path | int, other: str | Path | int) -> bool:
    """Whether two names refer to the same file: by path, symbolic link, hard link, or open descriptor.

    Devices and pipes do not count: what is written to a terminal does not replace what is read from it.

    Args:
        path, other: paths, which need not exist, or file descriptors.
    """
    try:
        first, second = os.stat(path), os.stat(other)
    except OSError:
        return not {int} & {type(path), type(other)} and os.path.realpath(path) == os.path.realpath(other)
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def descriptor_of(stream: io.TextIOBase | None) -> int | None:
    """The file descriptor of standard input or output, or `None` if it has none."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object in memory
        return None


@contextmanager
def reading(path: str | Path, remedy: str = "") -> Iterator[None]:
    """Turn errors of the system while a file or folder is read into one that names it.

    Args:
        remedy: what to do about it, as the next sentence.

    Raises:
        InputError: instead of an `OSError`, or an error of the encoding.
    """
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. {remedy}".strip()) from None


@contextmanager
def writing(path: str | Path, then: str = "try again") -> Iterator[None]:
    """Turn errors of the system while a file or folder is written into one that names it and says what to do.

    Args:
        then: what to do afterwards, to end that sentence.

    Raises:
        InputError: instead of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {reason(error)}. {write_remedy(error)}, then {then}.") from None


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield the path of a hidden file in the same folder; what the block writes to it then replaces the file.

    If the block raises an error or the process is killed, the file is unchanged; after a power failure, it is the old
    or the new one. A symbolic link is replaced too, and the file that it leads to is unchanged. Resolve a path that a
    user gave for output, so that a link there is kept.

    Raises:
        OSError: the folder cannot be written or is full, or the path is a device or a pipe, which must not be
            replaced by a file.
    """
    if path.exists() and not path.is_file() and not path.is_symlink():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    # A name that nobody can foresee, and put a link there.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield part
        sync(part)
        os.replace(part, path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Write the content of a file, or the names in a folder, to the disk.

    Raises:
        OSError: the file cannot be written. Not every file system can do this for folders.
    """
    with suppress(OSError) if path.is_dir() else nullcontext():
        descriptor = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_own(path: Path) -> bool:
    """Whether a file or folder belongs to this user, and others cannot write to it; False for a symbolic link."""
    try:
        status = path.lstat()
    except OSError:
        return False
    # On Windows, each user's files are in folders of their own.
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def left_parts(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders that processes killed in [`atomic_write`] left."""
    return list(folder.rglob(f".*.{'[0-9a-f]' * 16}.part"))


def replace_link(path: Path) -> None:
    """Put a copy of a file in place of a symbolic link to it, so that appending to it changes nothing elsewhere.

    Raises:
        OSError: the folder cannot be written, or the file cannot be read.
    """
    if path.is_symlink():
        with atomic_write(path) as part:
            part.write_bytes(path.read_bytes() if path.is_file() else b"")


def replace_files(contents: dict[Path, bytes]) -> None:
    """Write files that belong together: none is replaced before all are written, and the first is replaced last.

    Raises:
        InputError: one cannot be written; all are unchanged.
    """
    path = None
    try:
        with ExitStack() as stack:
            for path, content in contents.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(atomic_write(path)).write_bytes(content)
    except OSError as error:
        raise InputError(
            f"{error.filename2 or path} cannot be written: {error.strerror}. {write_remedy(error)}, or choose another "
            "file."
        ) from None


def file_digest(path: str | Path, kind: Callable[[], Any] = hashlib.sha256) -> str:
    """The digest of a file's bytes, in hexadecimal.

    Args:
        kind: makes the hash, such as the functions of `hashlib`.

    Raises:
        OSError: it cannot be read.
    """
    content = kind()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def read_json(path: Path, remedy: str = AGAIN) -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        remedy: what to do about a damaged file, at the end of the error message.

    Raises:
        InputError: the file cannot be read, is damaged, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from None
    except (ValueError, RecursionError) as error:
        raise unreadable(path, f"not JSON ({reason(error)})", remedy) from None
    if not isinstance(values, dict):
        message = f"{path} cannot be read: it contains {shown(values)}, not keys with values. {remedy}"
        raise InputError(message.rstrip())
    return values


def unreadable(path: Path, why: str, remedy: str = AGAIN) -> InputError:
    """The error for a damaged file, or for a Git LFS pointer in its place."""
    with path.open("rb") as file:
        is_pointer = file.read(len(GIT_LFS)) == GIT_LFS
    if is_pointer:
        why, remedy = "a Git LFS pointer, not the file itself", "Fetch the file itself: git lfs pull."
    return InputError(f"{path} cannot be read: it is {why}. {remedy}".rstrip())


def check_types(path: Path, values: Mapping[str, object], kinds: Mapping[str, object]) -> None:
    """Raise an [`InputError`] that names the file and all values that are missing or of the wrong type."""
    if errors := type_errors(values, kinds):
        raise InputError.of([f"{path}: {error}." for error in errors])


def type_errors(values: Mapping[str, object], kinds: Mapping[str, object], optional: bool = False) -> list[str]:
    """The errors in the values of a JSON object: missing keys and wrong types.

    Args:
        kinds: key → type, such as `int`, `dict[str, float]` or `str | None`; other keys may have any value.
        optional: whether keys may be missing.
    """
    errors = [] if optional else [f"{key} is missing" for key in kinds if key not in values]
    return errors + [
        f"{key} is {shown(values[key])}, not {type_in_words(kind)}"
        for key, kind in kinds.items()
        if key in values and not _has_type(values[key], kind)
    ]


def _has_type(value: object, kind: object) -> bool:
    """Whether a JSON value is of a type. Whole numbers are numbers; true and false are not."""
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def type_in_words(kind: object) -> str:
    """A type as error messages describe it: "a whole number or null"."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(type_in_words, inner))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin is list:
        return f"a list of {type_in_words(inner[0])}"
    if origin is dict:
        return f"keys with values, each {type_in_words(inner[1])}"
    return TYPE_NAMES.get(kind, str(kind))


def shown(value: object) -> str:
    """A value as JSON, cut after 60 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def collect_errors(errors: list[str], work: Callable[[], Result]) -> Result | None:
    """Call a function and return its result, or add the lines of its `ValueError` to `errors` and return `None`."""
    try:
        return work()
    except ValueError as error:
        errors += str(error).splitlines()
        return None

"""Files and folders: the paths that users give, files replaced whole or not at all, locks, JSON that is checked.

What was there stays until its successor is complete; what an earlier run stored is checked before it is believed.
"""

import difflib
import errno
import io
import json
import os
import shutil
import stat
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .errors import InputError, reason

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

ARE_THERE_LOCKS = fcntl is not None
GIT_LFS = b"version https://git-lfs"
AGAIN = "Copy it again from where it came from."
REMEDIES = {
    errno.EACCES: "Change its permissions, or name another.",
    errno.EPERM: "Change its permissions, or name another.",
    errno.ELOOP: "The links point to each other: name another.",
    errno.ENAMETOOLONG: "Choose a shorter one.",
}


class InputPath(str):
    """An option's value: what a command reads, a file, a folder or a Hub id."""


class OutputPath(str):
    """An option's value: what a command writes."""


def path_error(path: str | Path, is_output: bool = False) -> str | None:
    """Why nothing can be at a path, or nobody can know; `None` where that is not so, be anything there or not.

    Args:
        is_output: the path must also be UTF-8, since it will stand in messages and files.
    """
    try:
        if is_output:
            str(path).encode()
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return os_error(error)
    except ValueError:  # a NUL, or a surrogate in place of a byte that is not UTF-8
        return f"{str(path)!a} is no name of a file: it holds a NUL or is not UTF-8. Name another."
    return None


def os_error(error: OSError) -> str | None:
    """The system's reason against a path as one line; `None` for an error that names none."""
    if error.filename is None or error.errno is None:
        return None
    return f"{os.fsdecode(error.filename)}: {error.strerror}. {REMEDIES.get(error.errno, 'Name another.')}"


def option_errors(options: dict[str, object]) -> list[str]:
    """What is wrong with the paths among the values of options."""
    texts = {name: value for name, value in options.items() if type(value) is str}
    errors = [f"--{name} is not UTF-8: {text!a}" for name, text in texts.items() if not _is_utf8(text)]
    values = [value for given in options.values() for value in (given if isinstance(given, list) else [given])]
    paths = dict.fromkeys(value for value in values if isinstance(value, InputPath | OutputPath))
    return errors + [error for path in paths if (error := path_error(path, isinstance(path, OutputPath)))]


def _is_utf8(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, as Python reads bytes that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def where_not_found(path: str | Path) -> str:
    """What is said between a name that could be a folder's or a Hub id and why it cannot be loaded: that there is no
    such folder, and one beside it that is called nearly so."""
    path = Path(path)
    if path.exists():
        return ""
    try:
        beside = [other.name for other in path.parent.iterdir() if other.is_dir()]
    except OSError:
        beside = []
    close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.7)
    return f" is no folder here{f' (did you mean {path.parent / close[0]}?)' if close else ''}, and"


def is_same_file(path: str | Path | int, other: str | Path | int) -> bool:
    """Whether two names lead to one file: the same path, a symbolic link, a hard link, or an open descriptor.

    Devices and pipes are not files: what is written to a terminal does not replace what is read from it.

    Args:
        path, other: paths, which need not exist, or file descriptors.
    """
    try:
        first, second = os.stat(path), os.stat(other)
    except OSError:
        return not {int} & {type(path), type(other)} and os.path.realpath(path) == os.path.realpath(other)
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def descriptor_of(stream: io.TextIOBase | None) -> int | None:
    """The file descriptor of standard input or output; `None` where it has none."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object in memory
        return None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Replace a file by what the block writes to the path that it is given, a hidden one in the same folder.

    Where the block raises an error or the process is killed, the file is as it was before. A symbolic link goes on
    pointing to it.

    Raises:
        OSError: where the folder cannot be written or is full, or the path is that of a device or a pipe, which a
            file must not take the place of.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def replace_files(contents: dict[Path, bytes]) -> None:
    """Write files that belong together: none is replaced before all are written, and the first one last.

    Raises:
        InputError: where one cannot be written: it names that one, and all are as they were.
    """
    path = None
    try:
        with ExitStack() as stack:
            for path, content in contents.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(whole_file(path)).write_bytes(content)
    except OSError as error:
        raise InputError(
            f"{error.filename2 or path} cannot be written: {error.strerror}. Make room, or name another file."
        ) from None


def check_new(output: str | Path) -> None:
    """Refuse a folder that holds anything, or that cannot be made."""
    if error := path_error(output, is_output=True):
        raise InputError(error)
    try:
        output = Path(output).resolve()
        is_free = not output.exists() or (output.is_dir() and not any(output.iterdir()))
        parent = next(path for path in (output, *output.parents) if path.exists())
    except (OSError, ValueError) as error:
        raise InputError(f"{output} cannot be written: {reason(error)}") from None
    if not is_free:
        raise InputError(f"{output} exists and is no empty folder. Name another one; nothing is overwritten.")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "nothing may be written there" if parent.is_dir() else "it is no folder"
        raise InputError(f"{output} cannot be made in {parent}: {why}. Name another one.")


@contextmanager
def new_folder(output: str | Path) -> Iterator[Path]:
    """A folder to write into, which gets its name only when all of it was written."""
    check_new(output)
    output = Path(output).resolve()
    partial = output.with_name(f".{output.name}-{uuid.uuid4().hex}")
    try:
        partial.mkdir(parents=True)
        yield partial
        if output.exists():
            output.rmdir()
        partial.rename(output)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{output} cannot be written: {reason(error)}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def lock(descriptor: int) -> None:
    """Hold an open file or folder until it is closed; without effect where system or file system has no locks.

    Raises:
        BlockingIOError: where another process holds it.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: where the file cannot be read, or holds anything else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {_shown(content)}, not keys with values.")
    return content


def check_types(path: Path, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise an [`InputError`] that names the file and all values of a wrong type, and all that are missing."""
    if errors := type_errors(values, kinds):
        raise InputError.of([f"{path}: {error}." for error in errors])


def type_errors(values: Mapping[str, Any], kinds: Mapping[str, Any], optional: bool = False) -> list[str]:
    """What is wrong with the values of a JSON object.

    Args:
        kinds: key → type, such as `int`, `dict[str, float]` or `str | None`; what has no type here may be anything.
        optional: whether keys may be missing.
    """
    errors = [] if optional else [f"{key} is missing" for key in kinds if key not in values]
    return errors + [
        f"{key} is {_shown(values[key])}, not {_described(kind)}"
        for key, kind in kinds.items()
        if key in values and not has_type(values[key], kind)
    ]


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is of a type. Whole numbers are numbers; true and false are neither."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, choice) for choice in inner)
    if origin is list:
        return isinstance(value, list) and all(has_type(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(has_type(item, inner[1]) for item in value.values())
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, int | float if kind is float else kind)


def _described(kind: Any) -> str:
    """A type in words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_described, inner))
    if origin is list:
        return f"a list, each {_described(inner[0])}"
    if origin is dict:
        return f"keys with values, each {_described(inner[1])}"
    names = {
        int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null",
        dict: "keys with values", list: "a list",
    }  # fmt: skip
    return names.get(kind, str(kind))


def _shown(value: Any) -> str:
    """A value as it stands in JSON, in a few characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_json(path: Path) -> dict[str, Any]:
    """The keys and values of a JSON file.

    Raises:
        InputError: where it is damaged, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise unreadable(path, f"not JSON ({reason(error)})") from None
    if not isinstance(values, dict):
        kinds = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
        raise InputError(
            f"{path} cannot be read: it holds {kinds.get(type(values), 'a number')}, not keys with values. {AGAIN}"
        )
    return values


def unreadable(path: Path, why: str) -> InputError:
    """The error of a damaged file; a pointer of Git LFS in its place is recognized."""
    with path.open("rb") as file:
        is_pointer = file.read(len(GIT_LFS)) == GIT_LFS
    if is_pointer:
        why, remedy = "a pointer of Git LFS in place of the file", "Fetch the file itself: git lfs pull."
    else:
        remedy = AGAIN
    return InputError(f"{path} cannot be read: it is {why}. {remedy}")


def collect_errors(errors: list[str], work: Callable[[], Any]) -> Any:
    """What some work returns, or `None` after adding its complaints to the errors."""
    try:
        return work()
    except ValueError as error:
        errors += str(error).splitlines()
        return None

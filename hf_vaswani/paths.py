"""Paths that users give: what the system has against one, told before anything is read or written there.

`Path.exists()` and its like raise an error of their own where a folder on the way may not be entered.
"""

import errno
import os
from pathlib import Path

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

"""The errors that end a command with a clear message instead of a traceback.

Anything that a user can fix before work starts is an [`InputError`] (exit status 2): a missing file, a wrong key, a
folder in use. A run in progress ends with a [`TrainingError`] (status 1) or, on a signal, with a
[`TrainingInterrupted`] (128 plus the signal's number, as in shells).

Each has an attribute `is_repeated`: whether another process of the same run reports the error, so that it is printed
only once.
"""

import difflib
import errno
import re
from collections.abc import Iterable
from pathlib import Path

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# How torch, the system and others say that memory ran out, or that it leaves no room for another thread.
OUT_OF_MEMORY = re.compile(
    r"out of memory|(can't|cannot|could not|failed to) (allocate|map)|bad_alloc|start new thread|ThreadPoolBuildError",
    re.IGNORECASE,
)
# The libraries whose errors are connection errors. huggingface_hub 2 replaced httpx with httpx2.
NETWORK = {
    "httpx", "httpcore", "httpx2", "httpcore2", "requests", "urllib3", "aiohttp", "huggingface_hub",
}  # fmt: skip
# What to do about a file that cannot be written, before the rest of the sentence.
WRITE_REMEDIES = {
    errno.ENOENT: "If its folder was moved or removed, put it back",
    errno.ENOTDIR: "If its folder was moved or removed, put it back",
    errno.EACCES: "Change its permissions",
    errno.EPERM: "Change its permissions",
    errno.EROFS: "Make the disk writable",
    errno.ENOMEM: "Free up memory",
}


class InputError(ValueError):
    """Input that cannot be used. The message says what is wrong, where, and what to do, one line per error."""

    is_repeated = False

    @classmethod
    def of(cls, errors: list[str]) -> "InputError":
        """Combine all errors in one input into one exception, which says each once."""
        return cls("\n".join(dict.fromkeys(errors)))


class TrainingError(RuntimeError):
    """A run that cannot continue. The message says at which step it stopped, why, and from where it can be resumed."""

    is_repeated = False


class TrainingInterrupted(Exception):
    """A run that was stopped by a signal, after it saved its state.

    Attributes:
        signal: the signal's number.
    """

    is_repeated = False

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


def reason(error: Exception) -> str:
    """Say in one line why something failed.

    This is the operating system's reason and the file's name, or else the exception's message, preceded by its type if
    the message is at most one word, such as the key of a `KeyError`.
    """
    if is_out_of_memory(error):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({Path(error.filename).name})" if isinstance(error.filename, str) else error.strerror
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    message = " ".join(str(error).split())
    if "integer string conversion" in message:
        return "it has a number with thousands of digits"
    return message if " " in message else f"{type(error).__name__} {message}".strip()


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that memory ran out: Python's, NumPy's, torch's, the system's."""
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}"):
            return True
        error = error.__cause__
    return False


def is_network_error(error: BaseException) -> bool:
    """Whether an error comes from a connection, or from the Hub at its other end."""
    modules = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return isinstance(error, ConnectionError) or bool(modules & NETWORK)


def write_remedy(error: BaseException) -> str:
    """What to do about a file that cannot be written, as the beginning of a sentence without its end."""
    found = re.search(r"os error (\d+)", str(error))  # of safetensors
    number = int(found[1]) if found else getattr(error, "errno", None)
    if is_out_of_memory(error):
        number = errno.ENOMEM
    return WRITE_REMEDIES.get(number or 0, "Free up disk space")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`, preferably one that `name` abbreviates; `None` if none is similar."""
    known = list(known)
    longer = [other for other in known if len(name) > 2 and other.startswith(name)]
    close = difflib.get_close_matches(name, longer or known, n=1, cutoff=0 if longer else 0.6)
    return close[0] if close else None


def counted(number: int, noun: str) -> str:
    """A number and what it counts, such as "1 training pair" or "2,000 batches". `noun` is in the singular."""
    plural = noun + ("es" if noun.endswith(("ch", "s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def line_range(first: int, last: int) -> str:
    """A range of line numbers in words, both ends included."""
    return f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"


def listed(names: Iterable[str], shown: int = 5) -> str:
    """The first names in sorted order, and how many more there are."""
    names = sorted(names)
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")

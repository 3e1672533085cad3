"""The errors that end a command with a clear message instead of a traceback.

What a user can put right before work starts is an [`InputError`] (exit status 2): a missing file, a wrong key, a
folder in use. What ends a running training is a [`TrainingError`] (status 1) or, on a signal, a
[`TrainingInterrupted`] (128 and the signal's number, as shells have it).

Each has `is_repeated`: whether another process of the same training says the same, so that it is said once.
"""

from pathlib import Path


class InputError(ValueError):
    """Input that cannot be used. The message says what is wrong, where, and what to do; a line for each fault."""

    is_repeated = False

    @classmethod
    def of(cls, faults: list[str]) -> "InputError":
        """All faults of one input in one error."""
        return cls("\n".join(faults))


class TrainingError(RuntimeError):
    """A training that cannot go on. The message says at which update, why, and where it can be taken up again."""

    is_repeated = False


class TrainingInterrupted(Exception):
    """A training that was told to stop by a signal, and has saved its state.

    Attributes:
        signal: its number.
    """

    is_repeated = False

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal


def reason(error: Exception) -> str:
    """Why something failed, in one line: the system's reason and the file's name, or the exception's message; its kind
    too where that is a word at most, such as the key of a `KeyError`."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({Path(error.filename).name})" if isinstance(error.filename, str) else error.strerror
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    message = " ".join(str(error).split())
    if "integer string conversion" in message:
        return "it holds a number of thousands of digits"
    return message if " " in message else f"{type(error).__name__} {message}".strip()


def counted(number: int, noun: str) -> str:
    """A number and what it counts, in the plural but for 1.

    Args:
        noun: in the singular, its last word the one that takes the plural.
    """
    plural = noun + ("es" if noun.endswith(("ch", "s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def line_range(first: int, last: int) -> str:
    """Lines of a file by their numbers, both ends included."""
    return f"line {first:,}" if first == last else f"lines {first:,} to {last:,}"

"""Whether an output would be written over an input, whatever the two are called."""

import io
import os
import stat
from pathlib import Path


def is_same_file(path: str | Path, other: str | Path | int) -> bool:
    """Whether two names lead to one file: the same path, a symbolic link, a hard link, or an open descriptor.

    Devices and pipes are not files: what is written to a terminal does not replace what is read from it.

    Args:
        path: need not exist.
        other: a path or a file descriptor.
    """
    try:
        first, second = os.stat(path), os.stat(other)
    except OSError:
        return not isinstance(other, int) and os.path.realpath(path) == os.path.realpath(other)
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def descriptor_of(stream: io.TextIOBase | None) -> int | None:
    """The file descriptor of standard input or output; `None` where it has none."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object in memory
        return None

"""Files that others see whole: what is there already stays until its successor is complete."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .errors import InputError


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

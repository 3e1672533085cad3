"""Files that others see whole: what is there already stays until its successor is complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Replace a file by what the block writes to the path that it is given, a hidden one in the same folder.

    Where the block raises an error or the process is killed, the file is as it was before. A symbolic link goes on
    pointing to it.

    Raises:
        OSError: where the folder cannot be written or is full.
    """
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)

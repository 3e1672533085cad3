"""Lines in windows: as many at a time as fit well into batches, few enough that translations appear early.

A window is what is translated together, sorted by length inside. Its size depends on the lines alone, never on time:
a run that resumes at the end of one makes the same windows as a run that never stopped. Only lines that come one by
one, from a terminal or another program, end a window where they pause.
"""

import io
import select
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from ..core.pipeline_batches import window_size
from ..data.sources.text_files import CHUNK, Report, lines_of

MOST_CHARACTERS = 1 << 20
PAUSE = 0.05


class Line(NamedTuple):
    """A line to translate, and what its translation must begin with."""

    text: str
    prefix: str = ""


def windows(
    lines: Iterable[Line], number: int = 0, is_waiting: Callable[[], bool] = lambda: False
) -> Iterator[list[Line]]:
    """Cut lines into windows.

    Args:
        lines: read as they are needed.
        number: of windows that came before these, which were smaller.
        is_waiting: whether the next line is yet to come, so that those that are there are a window.

    Yields:
        128 lines, then 512, 2048 and 4096, or fewer where they hold 2^20 characters. Where reading ends in an error,
        the lines before it are given first.
    """
    window: list[Line] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += len(line.text)
            if len(window) == window_size(number) or characters >= MOST_CHARACTERS or is_waiting():
                yield window
                window, characters, number = [], 0, number + 1
    except Exception:
        if window:
            yield window
        raise
    if window:
        yield window


class IncomingLines:
    """The lines of a stream as they come, from standard input say; [`is_waiting`] tells where they pause."""

    def __init__(self, stream: BinaryIO, name: str, report: Report):
        self._stream, self._lines_in_hand = stream, 0
        self._lines = lines_of(self._chunks(), name, report)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._lines_in_hand -= 1
        return line

    def is_waiting(self) -> bool:
        """Whether no whole line is there, and none begins to come within a moment."""
        if self._lines_in_hand > 0:
            return False
        try:
            return not select.select([self._stream], [], [], PAUSE)[0]
        except (OSError, ValueError, io.UnsupportedOperation):  # nothing that can be waited for
            return self._stream.isatty()

    def _chunks(self) -> Iterator[bytes]:
        while chunk := self._stream.read1(CHUNK):
            self._lines_in_hand += chunk.count(b"\n")
            yield chunk

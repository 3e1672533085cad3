"""Cuts lines into windows: large enough to fill batches, small enough that translations appear early.

The lines of a window are translated together, sorted by length. The size of a window depends only on the lines, never
on time: a run that resumes after a window makes the same windows as a run that never stopped. The exception is lines
that arrive one by one, from a terminal or another program: when they pause, the window ends.
"""

import io
import select
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

from ..data.sources.text_files import CHUNK, Report, lines_of
from ..pipeline.batches import window_size

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
        lines: read as needed.
        number: number of windows that came before, since the first ones are smaller.
        is_waiting: whether the next line has yet to arrive, so that the lines read so far form a window.

    Yields:
        128 lines, then 512, 2048 and 4096, or fewer if they hold 2^20 characters. If reading ends in an error, the
        lines before it are yielded first.
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
    """The lines of a stream as they arrive, such as standard input; [`is_waiting`] tells when they pause."""

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
        """Whether no whole line is available, and none begins to arrive within 50 ms."""
        if self._lines_in_hand > 0:
            return False
        try:
            return not select.select([self._stream], [], [], PAUSE)[0]
        except (OSError, ValueError, io.UnsupportedOperation):  # not a stream that can be waited for
            return self._stream.isatty()

    def _chunks(self) -> Iterator[bytes]:
        while chunk := self._stream.read1(CHUNK):
            self._lines_in_hand += chunk.count(b"\n")
            yield chunk

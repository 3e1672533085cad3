"""Seconds that pass while a run makes its steps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """A clock that stands still during pauses."""

    def __init__(self):
        self._paused = 0.0

    def __call__(self) -> float:
        """Seconds from some moment on, pauses left out."""
        return time.monotonic() - self._paused

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out the seconds that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._paused += time.monotonic() - began

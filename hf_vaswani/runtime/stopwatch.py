"""Measures the seconds that a run spends on its steps."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """A clock that stops during pauses."""

    def __init__(self):
        self._paused = 0.0

    def __call__(self) -> float:
        """Seconds since an arbitrary moment, without pauses."""
        return time.monotonic() - self._paused

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out the seconds that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._paused += time.monotonic() - began

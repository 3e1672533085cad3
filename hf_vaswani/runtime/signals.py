"""Records the signals that stop a run before its last step, so that all processes stop at the same step."""

import signal
import time
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


# A launcher may pass on a signal that has also arrived directly; a person presses Ctrl-C again only after some time.
ANOTHER_AFTER = 2.0


class StopSignals:
    """Records SIGTERM and Ctrl-C instead of ending the process, so that the run can save first.

    A context manager, which restores the previous handlers at its end. Ctrl-C more than two seconds after the first
    signal interrupts at once. Outside the main thread, where Python allows no handlers, nothing is changed.

    Args:
        at_once: whether the first signal interrupts as well, once it is recorded, and any more than two seconds later.

    Attributes:
        received: number of the first signal; 0 if there has been none.
    """

    def __init__(self, at_once: bool = False):
        self.received = 0
        self._at_once = at_once
        self._at = 0.0
        self._before = {}

    @property
    def name(self) -> str:
        """The signal's name in messages."""
        names = {signal.SIGINT: "Ctrl-C", 0: "a signal to another process"}
        return names.get(self.received) or signal.Signals(self.received).name

    def __enter__(self) -> "StopSignals":
        for number in SIGNALS:
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread
                return self
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received, self._at = number, time.monotonic()
            if self._at_once:
                raise KeyboardInterrupt
        elif (number == signal.SIGINT or self._at_once) and time.monotonic() - self._at > ANOTHER_AFTER:
            raise KeyboardInterrupt

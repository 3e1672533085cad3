"""Ctrl-C prints a line, not a traceback, and signals stop all processes of a run at the same step."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

CTRL_C = 130  # the exit status
SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Seconds: a launcher may pass on a signal that has also arrived directly; a person presses Ctrl-C again only later.
ANOTHER_AFTER = 2.0
PACKAGE = Path(__file__).resolve().parents[1]
SCRIPTS = PACKAGE.parent / "scripts"


def is_own_command() -> bool:
    """Whether this process runs a command of the package, rather than a program that imports it."""
    if sys.argv[:1] == ["-m"] and "-m" in sys.orig_argv:  # while Python looks up the module to run
        return sys.orig_argv[sys.orig_argv.index("-m") + 1] in ("hf_vaswani", "hf_vaswani.cli")
    program = Path(sys.argv[0]).resolve() if sys.argv and sys.argv[0] else Path()
    return program.stem == "hf-vaswani" or program.parent in (SCRIPTS, PACKAGE)


def is_first_process() -> bool:
    """Whether this process reports for all those that a launcher started on this machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def end_at_ctrl_c() -> None:
    """Have Ctrl-C end the process until [`interrupt_at_ctrl_c`], if it runs a command of the package."""
    if is_own_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def interrupt_at_ctrl_c() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    # An exception raised in the middle of an import may surface as a different one.
    if is_first_process():
        os.write(2, b"Interrupted.\n")
    os._exit(CTRL_C)


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

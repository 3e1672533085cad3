"""Makes Ctrl-C print a line, not a traceback, while a command of this package is being imported, for seconds."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

CTRL_C = 130
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def is_own_command() -> bool:
    """Whether this process runs a command of the package, rather than a program that imports it."""
    if sys.argv[:1] == ["-m"] and "-m" in sys.orig_argv:  # while Python finds the module that it is told to run
        return sys.orig_argv[sys.orig_argv.index("-m") + 1] in ("hf_vaswani", "hf_vaswani.cli")
    program = Path(sys.argv[0]).resolve() if sys.argv and sys.argv[0] else Path()
    return program.stem == "hf-vaswani" or program.parent == SCRIPTS


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

"""The command `hf-vaswani`: finds the sub-command and turns what went wrong into lines and an exit status."""

import argparse
import errno
import logging
import os
import sys
import time

from transformers.utils.logging import disable_progress_bar

from . import __version__
from .commands import (
    attention,
    average,
    card,
    corpus,
    curves,
    evaluate,
    export,
    importing,
    score,
    tokenizer,
    train,
    translate,
)
from .errors import InputError, TrainingError, TrainingInterrupted
from .interrupts import CTRL_C, interrupt_at_ctrl_c, is_first_process

COMMANDS = (train, tokenizer, translate, score, evaluate, importing, export, curves, attention, card, average, corpus)

USER_ERROR, TRAINING_ERROR = 2, 1
# Seconds until a launcher may see that a process has ended, and end the one that has something to say.
SAY_FIRST = 1.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status: 2, after a clear line a fault, where the input cannot be used."""
    interrupt_at_ctrl_c()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if not sys.stderr.isatty():
        disable_progress_bar()
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        if sys.stdout is not None:  # closed
            sys.stdout.flush()
    except (InputError, TrainingError) as error:
        if error.is_repeated:
            time.sleep(SAY_FIRST)
        else:
            print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return USER_ERROR if isinstance(error, InputError) else TRAINING_ERROR
    except TrainingInterrupted as stop:
        if not stop.is_repeated:
            print(stop, file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt as stop:
        if is_first_process():
            print(str(stop) or "Interrupted.", file=sys.stderr)
        return CTRL_C
    except BrokenPipeError:
        _drop_output()  # who reads it has read enough
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            print(f"error: {error.filename}: {error.strerror}. Choose a shorter one.", file=sys.stderr)
            return USER_ERROR
        if error.errno not in NO_ROOM:
            raise
        _drop_output()
        where = error.filename or "standard output"
        print(f"error: {where} cannot be written: {error.strerror}. Make room, or write elsewhere.", file=sys.stderr)
        return USER_ERROR
    return 0


def _drop_output() -> None:
    """What is still in the buffer of standard output has nowhere to go."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hf-vaswani", description="Train and use translation models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for command in COMMANDS:
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

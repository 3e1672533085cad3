"""The command `hf-vaswani`: finds the sub-command and turns what went wrong into lines and an exit status."""

import argparse
import errno
import logging
import os
import sys

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
from .paths import option_errors, os_error

COMMANDS = (train, tokenizer, translate, score, evaluate, importing, export, curves, attention, card, average, corpus)

USER_ERROR, TRAINING_ERROR, CTRL_C = 2, 1, 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit status: 2, after a clear line a fault, where the input cannot be used."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if not sys.stderr.isatty():
        disable_progress_bar()
    options = _parser().parse_args(arguments)
    try:
        if errors := option_errors(vars(options)):
            raise InputError.of(errors)
        options.run(options)
        if sys.stdout is not None:  # closed
            sys.stdout.flush()
    except (InputError, TrainingError) as error:
        if not error.is_repeated:
            print("\n".join(f"error: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return USER_ERROR if isinstance(error, InputError) else TRAINING_ERROR
    except TrainingInterrupted as stop:
        if not stop.is_repeated:
            print(stop, file=sys.stderr)
        return 128 + stop.signal
    except KeyboardInterrupt as stop:
        print(str(stop) or "Interrupted.", file=sys.stderr)
        return CTRL_C
    except BrokenPipeError:
        _drop_output()  # who reads it has read enough
    except OSError as error:
        if error.errno not in NO_ROOM:
            if (message := os_error(error)) is None:
                raise
            print(f"error: {message}", file=sys.stderr)
            return USER_ERROR
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

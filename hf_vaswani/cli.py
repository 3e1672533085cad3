"""The `hf-vaswani` command: runs a subcommand and turns errors into messages and an exit status."""

import argparse
import importlib
import logging
import os
import signal
import sys
import time

from . import __version__, load
from .commands.options import CommandParser, make_parser
from .commands.reports import accept_any_character
from .configuration.name_hints import OTHER_COMMANDS, hint
from .errors import DISK_FULL, InputError, TrainingError, TrainingInterrupted, is_out_of_memory
from .files import option_errors, os_error
from .runtime.signals import CTRL_C, interrupt_at_ctrl_c, is_first_process

# In the order of the help. Each is in a file of its name in `commands`, except for one that Python could not import.
COMMANDS = (
    "train", "verify", "recipes", "tokenizer", "translate", "app", "serve", "score", "evaluate", "calibrate",
    "import", "export", "curves", "attention", "beam-tree", "card", "push", "pull", "average", "corpus", "clean",
)  # fmt: skip
MODULES = {"import": "importing"}

USER_ERROR, TRAINING_ERROR = 2, 1
# Seconds that a process waits before it exits if another one reports its error: the launcher ends the others then.
REPORT_TIME = 1.0
MORE_MEMORY = "Close other programs, or use a machine with more memory."
# Loggers of what transformers imports whether or not it is used: torchao warns of CUDA libraries and Triton.
TALKATIVE = ("torchao", "torch.utils._pytree")


def main(arguments: list[str] | None = None, parser: CommandParser | None = None) -> int:
    """Run a command line and return its exit status, which is 2 if the input cannot be used; print one line per error.

    Args:
        parser: the parser of a script that is not a subcommand; it must set `run` and `needs_torch`.
    """
    status = 0
    accept_any_character()
    options = (parser or _parser(_first_word(arguments))).parse_args(arguments)
    if getattr(options, "reloads_at_hangup", False) and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can
    try:
        if errors := option_errors(vars(options)):
            raise InputError.of(errors)
        if options.needs_torch:
            load()
            _set_up_logging()
        interrupt_at_ctrl_c()
        status = options.run(options) or 0
        if sys.stdout is not None:  # `None` if closed
            sys.stdout.flush()
    except (InputError, TrainingError) as error:
        if error.is_repeated:
            time.sleep(REPORT_TIME)
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
        _discard_output()  # the reader has closed the pipe
    except BaseException as error:
        if (message := _explain(error, options)) is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        return TRAINING_ERROR if is_out_of_memory(error) else USER_ERROR
    return status


def _explain(error: BaseException, options: argparse.Namespace) -> str | None:
    """Say what the machine refused, memory or a file, and what to do; `None` for any other error."""
    if is_out_of_memory(error):
        return f"There is not enough memory. {getattr(options, 'saves_memory', MORE_MEMORY)}"
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        where = error.filename or ("standard output" if _is_output_full() else "a file")
        return f"{where} cannot be written: {error.strerror}. Free up space, or write elsewhere."
    return os_error(error) if isinstance(error, OSError) else None


def _is_output_full() -> bool:
    """Whether standard output cannot be written; if so, it is discarded."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return False
    except OSError:
        _discard_output()
        return True


def _discard_output() -> None:
    """Redirect standard output, with whatever is still buffered, to the null device."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_up_logging() -> None:
    # Not before the command line is parsed: help does not need transformers.
    from transformers.utils.logging import disable_progress_bar

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
    if not sys.stderr.isatty():
        disable_progress_bar()


class MainParser(CommandParser):
    """Parses the name of a subcommand and the options before it."""

    commands: dict[str, CommandParser]

    def parse_known_args(self, args=None, namespace=None):
        arguments = sys.argv[1:] if args is None else list(args)
        if not arguments:
            self.print_help(sys.stderr)
            self.exit(2)
        if arguments[0] == "help":
            arguments = [*arguments[1:2], "--help"]
        command = _first_word(arguments)
        if command is not None and command not in self.commands:
            meant = hint(command, {name: name for name in self.commands}, OTHER_COMMANDS) or f"see {self.prog} --help"
            self.error(f"{command!r} is not a command; {meant}")
        return super().parse_known_args(arguments, namespace)


def _first_word(arguments: list[str] | None) -> str | None:
    words = sys.argv[1:] if arguments is None else arguments
    return next((word for word in words if not word.startswith("-")), None)


def _parser(command: str | None = None) -> MainParser:
    """The parser of one subcommand, without importing the others, or of all if no command has that name."""
    parser = MainParser(
        prog="hf-vaswani",
        rest_is_free=True,
        usage="hf-vaswani COMMAND [options]",
        description="Train, use, evaluate and share translation models.",
        epilog="hf-vaswani COMMAND --help explains a command and its options.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}", help="show the version")
    commands = parser.add_subparsers(
        dest="command", required=True, title="commands", metavar="COMMAND", prog=parser.prog, parser_class=make_parser
    )
    parser.set_defaults(needs_torch=True)
    for name in (command,) if command in COMMANDS else COMMANDS:
        module = MODULES.get(name, name.replace("-", "_"))
        importlib.import_module(f".commands.{module}", __package__).add_parser(commands)
    parser.commands = commands.choices
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The parser of all commands, and the options that several of them share."""

import argparse
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from ..backends import BACKENDS
from ..configuration.name_hints import hint
from ..errors import InputError
from ..files import InputPath, OutputPath
from ..translator.options import MEANINGS, TYPES

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from ..text.languages import Languages

MODEL = "folder of a model, or its id on the Hub"
SECOND_MODEL = "a model that translates what MODEL writes: over a third language, where no model has the pair"
ENSEMBLE = "more models with the same vocabulary; their probabilities are averaged"
# How messages call the arguments of the pipeline that options stand for.
OPTION_NAMES = {
    **{name: f"--{meaning.command}" for name, meaning in MEANINGS.items() if meaning.command},
    'quantize="int8"': "--quantize int8",
    **{f'engine="{name}"': f"--engine {name}" for name in ("torch", *BACKENDS)},
    "epsilon_cutoff": "--mbr",
    "second_model": "--second_model",
}
# Earlier names of options, which are still understood.
EARLIER_NAMES = {"num_workers": ["processes"], "on_missing_term": ["on_unmet"]}
# Arguments of `add_argument` for an option whose value is a file.
INPUT_FILE = {"type": InputPath, "metavar": "FILE"}
INPUT_FILES = {**INPUT_FILE, "nargs": "+"}
OUTPUT_FILE = {"type": OutputPath, "metavar": "FILE"}


class CommandParser(argparse.ArgumentParser):
    """A parser that accepts `--n-best` for `--n_best`, and suggests what an unknown option may mean.

    Options cannot be abbreviated, because an abbreviation may stop being unique when options are added.

    Args:
        rest_is_free: whether what follows the first argument (a subcommand, or the keys of a recipe) is checked
            elsewhere.
    """

    def __init__(self, *args, rest_is_free: bool = False, **settings):
        settings = {"allow_abbrev": False, "formatter_class": _HelpFormatter} | settings
        super().__init__(*args, **settings)
        self.rest_is_free = rest_is_free

    def parse_known_args(self, args=None, namespace=None):
        """Like argparse's method, but report all unknown arguments as errors."""
        arguments = sys.argv[1:] if args is None else list(args)
        end = next((n for n, text in enumerate(arguments) if self._ends_options(text)), len(arguments))
        own = [self._as_declared(text) for text in arguments[:end]]
        if errors := [error for text in own if (error := self._option_error(text))]:
            self.error("\n".join(errors))
        namespace, left = super().parse_known_args(own + arguments[end:], namespace)
        if left:
            self.error("\n".join(f"unexpected argument {text!r}; see {self.prog} --help" for text in left))
        return namespace, left

    def error(self, message: str) -> NoReturn:
        """Exit with status 2, after the usage and one line per error."""
        self.print_usage(sys.stderr)
        self.exit(2, "".join(f"error: {line}\n" for line in message.splitlines()))

    def _ends_options(self, text: str) -> bool:
        return text == "--" or (self.rest_is_free and not text.startswith("-"))

    def _as_declared(self, text: str) -> str:
        """`--n-best=3` → `--n_best=3`, if there is such an option."""
        name, equals, value = text.partition("=")
        declared = name[:2] + name[2:].replace("-", "_")
        return declared + equals + value if declared in self._option_string_actions else text

    def _option_error(self, text: str) -> str | None:
        """The error for an argument that argparse takes for an option, although there is none of that name."""
        name = text.partition("=")[0]
        if name in self._option_string_actions or " " in name or not re.match("--?[A-Za-z]", name):
            return None
        bare = name.lstrip("-")
        for positional in (action for action in self._actions if not action.option_strings):
            if positional.dest.removesuffix("s") == bare.removesuffix("s"):
                meant = f"give {positional.metavar or positional.dest} first, without {name}"
                break
        else:
            known = {option[2:]: option for option in self._option_string_actions if option.startswith("--")}
            meant = hint(bare.replace("-", "_"), known) or f"see {self.prog} --help"
        return f"{name} is not an option of {self.prog}; {meant}"


class KeysParser(CommandParser):
    """Parses a recipe or run and the command's own options, between which there may be any other words.

    These are the keys of a recipe and their values, which are checked elsewhere.

    Args:
        missing: makes the error for words, without own options, that do not begin with a recipe; by default, it is
            argparse's.
    """

    def __init__(self, *args, missing: Callable[[list[str]], str] | None = None, **settings):
        super().__init__(*args, rest_is_free=True, **settings)
        self.missing = missing

    def parse_known_args(self, args=None, namespace=None):
        own, others = [], []
        rest = sys.argv[1:] if args is None else list(args)
        while rest:
            word = self._as_declared(rest.pop(0))
            option = self._option_string_actions.get(word.partition("=")[0])
            if isinstance(option, argparse._HelpAction):
                self.print_help()
                self.exit()
            elif option is None:
                others.append(word)
            elif "=" in word or option.nargs == 0:
                own.append(word)
            else:
                # An option without a value must not swallow the option that follows it.
                own.append(f"{word}={'' if not rest or rest[0].startswith('--') else rest.pop(0)}")
        if self.missing and (not others or others[0].startswith("-")):
            self.error(self.missing(others))
        return super().parse_known_args([*own, *others], namespace)


class _HelpFormatter(argparse.HelpFormatter):
    """Wide enough for the names of options, and narrow enough to read."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=30, width=help_width())
        self._action_max_length = 13  # argparse ignores the indentation of subcommand names


def help_width() -> int:
    """The width of help texts: the terminal's less two columns, and at most 100."""
    return min(shutil.get_terminal_size().columns - 2, 100)


def make_parser(parser: type[CommandParser] = CommandParser, **settings) -> CommandParser:
    """A `parser_class` for `add_subparsers` that lets a command choose its own class with `add_parser(parser=…)`."""
    return parser(**settings)


def note_file_name(text: str) -> None:
    """Say that a text is the name of a file, whose content may have been meant."""
    if os.path.isfile(text):
        print(f"note: --text is a sentence, and {text!r} is also the name of a file", file=sys.stderr)


def add_sentence_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of commands that draw how a model translates a sentence, except `--output`."""
    parser.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    parser.add_argument("--text", required=True, help="sentence to translate")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    add_beam_option(parser)
    add_language_options(parser)


def add_beam_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--num_beams",
        type=beam,
        metavar="N",
        help="number of beams; 1 is greedy search (default: from generation_config)",
    )


def add_ranking_options(parser: argparse._ActionsContainer) -> None:
    """Add the number of beams and what ranks their translations: the length penalty, and a reranker."""
    add_beam_option(parser)
    parser.add_argument(
        "--length_penalty",
        type=finite,
        metavar="X",
        help="exponent of the length penalty; a larger one favors longer output (default: from generation_config)",
    )
    parser.add_argument(
        "--rerank_with",
        type=InputPath,
        metavar="MODEL",
        help="a model of the opposite direction: it chooses, among the beam's translations, the one from which the "
        "source is most probable",
    )
    parser.add_argument(
        "--rerank_weight",
        type=finite,
        metavar="X",
        help="weight of the source's mean log-probability with --rerank_with (default: 0.2)",
    )


def reranking_errors(options: argparse.Namespace) -> list[str]:
    """Errors in the options of reranking."""
    errors = []
    if options.rerank_weight is not None and not options.rerank_with:
        errors.append("--rerank_weight needs --rerank_with, a model of the other direction.")
    if options.rerank_with and options.num_beams == 1:
        errors.append("--rerank_with chooses among the translations of a beam: --num_beams must be 2 or more.")
    return errors


def add_translation_options(parser: argparse._ActionsContainer, *names: str, **traits: object) -> None:
    """Add options of a translation, by their names in [`TranslationOptions`].

    Args:
        traits: arguments of `add_argument`, in place of those that are declared.
    """
    for name in names:
        meaning, kind = MEANINGS[name], TYPES.get(name)
        default = f" (default: {meaning.default})" if meaning.default else ""
        settings: dict[str, Any] = {"help": (meaning.help + default).replace("%", "%%")}
        if meaning.command and kind == "bool":  # what is to be written besides the translations
            settings["action"] = "store_true"
        elif kind == "bool":
            settings["action"] = argparse.BooleanOptionalAction
        elif meaning.choices:
            settings["choices"] = meaning.choices
        elif meaning.most:
            settings |= {"type": up_to(meaning.most, max(meaning.least, 1)), "metavar": "N"}
        flags = [f"--{meaning.command or name}", *(f"--{other}" for other in EARLIER_NAMES.get(name, ()))]
        parser.add_argument(*flags, **{**settings, **traits})


def translation_options(options: argparse.Namespace) -> dict[str, object]:
    """The options of a translation that were given, by their names in [`TranslationOptions`]."""
    given = {name: getattr(options, meaning.command or name, None) for name, meaning in MEANINGS.items()}
    return {
        name: value for name, value in given.items() if value is not None and (value or not MEANINGS[name].command)
    }


def add_speed_options(parser: argparse._ActionsContainer) -> None:
    add_translation_options(parser, "batch_size", "num_workers")
    add_engine_option(parser)
    parser.add_argument(
        "--quantize",
        choices=["int8"],
        help="compute with 8-bit weights, in CTranslate2 unless --engine onnx is given: faster, with nearly the same "
        "results",
    )


def add_ray_options(parser: argparse._ActionsContainer) -> None:
    """Add `--num_actors` and `--address`, for scripts that work on Ray."""
    parser.add_argument(
        "--num_actors",
        type=up_to(100_000),
        metavar="N",
        help="number of actors (default: one per GPU, or else per core)",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster; local: a new one on this machine (default: RAY_ADDRESS, or else the cluster "
        "of this machine, or a new one)",
    )


def add_engine_option(parser: argparse._ActionsContainer) -> None:
    """The option `--engine` of commands that translate."""
    parser.add_argument(
        "--engine",
        choices=["auto", "torch", *BACKENDS],
        help="what computes: PyTorch; CTranslate2, several times as fast on a CPU; or ONNX Runtime, for models of "
        "this package. The model is converted once (default: CTranslate2 where it gives the same translations and "
        "there is enough text)",
    )


def add_reference_option(parser: argparse._ActionsContainer, required: bool = False) -> None:
    parser.add_argument(
        "--reference",
        **INPUT_FILES,
        action="extend",
        required=required,
        help="reference translations; several files give several references per sentence",
    )


def add_language_options(parser: argparse._ActionsContainer) -> None:
    add_translation_options(parser, "src_lang", "tgt_lang", metavar="CODE")
    add_translation_options(parser, "zero_shot")


def search(options: argparse.Namespace) -> dict[str, int | float]:
    """The given settings of the search, as arguments of `model.generate()`."""
    return _without_none(num_beams=options.num_beams, length_penalty=getattr(options, "length_penalty", None))


def speed(options: argparse.Namespace) -> dict[str, int | str]:
    """The given speed options, as arguments of [`translate`]."""
    return _without_none(num_workers=options.num_workers, engine=options.engine, quantize=options.quantize)


def languages(options: argparse.Namespace) -> dict[str, str]:
    """The given languages, as arguments of the translation pipeline."""
    return _without_none(src_lang=options.source_language, tgt_lang=options.target_language)


def _without_none(**values):
    return {name: value for name, value in values.items() if value is not None}


def check_language_options(
    options: argparse.Namespace,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    takes_own_target: bool = True,
) -> "Languages":
    """The given languages as [`choose_languages`] returns them.

    Args:
        takes_own_target: whether the target language may be omitted if the model has a default.

    Raises:
        InputError: the model does not translate them, or needs one that is not given.
    """
    from ..text.languages import check_languages, choose_languages, has_own_target

    search = model.generation_config
    has_target = has_own_target(tokenizer, search.forced_bos_token_id, search.decoder_start_token_id)
    requested = options.source_language, options.target_language
    with option_names():
        chosen = choose_languages(model, tokenizer, requested, options.zero_shot)
        check_languages(tokenizer, *chosen, takes_own_target and has_target)
    return chosen


@contextmanager
def option_names() -> Iterator[None]:
    """Have errors of the translation pipeline name the command's options in place of its arguments."""
    try:
        yield
    except ValueError as error:
        raise InputError(with_option_names(str(error))) from None


def with_option_names(message: str) -> str:
    """A message of the translation pipeline on one line, with the command's options in place of its arguments."""
    for name, option in OPTION_NAMES.items():
        message = message.replace(name, option)
    return " ".join(message.split())


def up_to(most: int, least: int = 1) -> Callable[[str], int]:
    """An argparse type: a whole number from `least` to `most`, a limit so generous that only a typo exceeds it."""

    def count(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        if value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most:,}, got {text!r}")
        return value

    return count


# The same as `generation.settings.LARGEST_BEAM`, whose import would slow down every command.
beam = up_to(1000)
length = up_to(1_000_000)
batch = up_to(1_000_000_000)


def seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to {2**32 - 1}, got {text!r}")
    return int(text)


def finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}")
    return value


def share(text: str) -> float:
    if not 0 < (value := finite(text)) <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0, and at most 1, got {text!r}")
    return value


def temperature(text: str) -> float:
    """Outside these bounds, sampling is in effect greedy or uniform."""
    if not 1e-6 <= (value := finite(text)) <= 1e6:
        raise argparse.ArgumentTypeError(f"must be from 1e-06 to 1,000,000, got {text!r}")
    return value

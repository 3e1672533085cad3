"""Options and their types that several commands share."""

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ENSEMBLE = "further models of the same vocabulary: the mean of all distributions counts"
# Beyond these all tokens are as probable as each other, or one alone.
TEMPERATURES = 1e-6, 1e6


def add_search_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num_beams", type=beam, help="default: the model's own generation_config")
    parser.add_argument("--batch_size", type=batch, help="most sentences translated together")


def search(options: argparse.Namespace) -> dict[str, int]:
    return {"num_beams": options.num_beams} if options.num_beams else {}


def add_language_options(parser) -> None:
    """To a parser or a group of its options."""
    parser.add_argument("--source_language", help="code of the language, for multilingual models")
    parser.add_argument("--target_language", help="code of the language, for multilingual models")


def languages(options: argparse.Namespace) -> dict[str, str]:
    """The languages that were given, as the translation pipeline takes them."""
    given = {"src_lang": options.source_language, "tgt_lang": options.target_language}
    return {name: code for name, code in given.items() if code is not None}


def check_language_options(
    options: argparse.Namespace,
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    takes_own_target: bool = True,
) -> None:
    """Args:
        takes_own_target: the target language may be left out where the model has one of its own.

    Raises:
        InputError: a multilingual tokenizer does not know a language, or needs one that is not given.
    """
    from ..translation_inputs import check_languages

    has_own_target = takes_own_target and model.generation_config.forced_bos_token_id is not None
    try:
        check_languages(tokenizer, options.source_language, options.target_language, has_own_target)
    except ValueError as error:
        raise InputError(with_option_names(str(error))) from None


def with_option_names(message: str) -> str:
    """A message of the translation pipeline, in one line and with the names that its arguments have here."""
    message = message.replace("src_lang", "--source_language").replace("tgt_lang", "--target_language")
    return " ".join(message.split())


def up_to(most: int) -> Callable[[str], int]:
    """The type of an option: a whole number from 1 to `most`. Generous: a larger one is a slip."""

    def count(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = 0
        if value < 1:
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
        if value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most:,}, got {text!r}")
        return value

    return count


# Of a search, as of `search_settings.LARGEST_BEAM`, whose import would slow down every command.
beam = up_to(1000)
length = up_to(1_000_000)
# Of what is held in memory at once, as far as there is so much.
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


def temperature(text: str) -> float:
    value = finite(text)
    least, most = TEMPERATURES
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"must be from {least:g} to {most:,.0f}, got {text!r}")
    return value

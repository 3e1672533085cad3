"""Options and their types that several commands share."""

import argparse
import math
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ENSEMBLE = "further models of the same vocabulary: the mean of all distributions counts"


def add_search_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num_beams", type=at_least_one, help="default: the model's own generation_config")
    parser.add_argument("--batch_size", type=at_least_one, help="most sentences translated together")


def search(options: argparse.Namespace) -> dict[str, int]:
    return {"num_beams": options.num_beams} if options.num_beams else {}


def add_language_options(parser) -> None:
    """To a parser or a group of its options."""
    help = "code of the language, for multilingual models; a model of one pair refuses others"
    parser.add_argument("--source_language", help=help)
    parser.add_argument("--target_language", help=help)


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
        InputError: the model does not translate these languages, or needs one that is not given.
    """
    from ..translation_inputs import check_languages, check_pair, language_pairs

    has_own_target = takes_own_target and model.generation_config.forced_bos_token_id is not None
    asked = options.source_language, options.target_language
    try:
        check_pair(asked, language_pairs(model, tokenizer))
        check_languages(tokenizer, *asked, has_own_target)
    except ValueError as error:
        raise InputError(with_option_names(str(error))) from None


def with_option_names(message: str) -> str:
    """A message of the translation pipeline, in one line and with the names that its arguments have here."""
    message = message.replace("src_lang", "--source_language").replace("tgt_lang", "--target_language")
    return " ".join(message.split())


def at_least_one(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return value


def seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
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


def positive(text: str) -> float:
    value = finite(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value

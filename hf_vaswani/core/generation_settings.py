"""Checks the settings of a generation config, and of a `generation_config.json`.

transformers ignores a file that it cannot read, which means greedy search, and accepts settings of any type, which
then fail in the middle of a search or mean something else. The file travels with each checkpoint as remote code and
therefore imports nothing but torch and transformers.
"""

import json
import sys
from pathlib import Path
from typing import Any

from transformers import GenerationConfig
from transformers.utils import GENERATION_CONFIG_NAME, cached_file

LENGTH_PENALTY_TYPES = ("length", "gnmt")
# Generous: a search takes memory in proportion to its beam, and a model that never ends continues to the limit.
LARGEST_BEAM = 1000
LARGEST_OFFSET = 10_000
LARGEST_NUMBER = 2**31 - 1

LARGEST_PENALTY = 10  # beyond this, powers of lengths become infinite or 0 in fp32, and NaN compares with nothing

# Whole numbers, with their minimum and maximum.
WHOLE_NUMBERS = {
    "num_beams": (1, LARGEST_BEAM),
    "num_return_sequences": (1, LARGEST_BEAM),
    "max_length_offset": (0, LARGEST_OFFSET),
    "max_length": (1, LARGEST_NUMBER),
    "max_new_tokens": (1, LARGEST_NUMBER),
    "min_length": (0, LARGEST_NUMBER),
    "min_new_tokens": (0, LARGEST_NUMBER),
    "no_repeat_ngram_size": (0, LARGEST_NUMBER),
    "encoder_no_repeat_ngram_size": (0, LARGEST_NUMBER),
    "top_k": (0, LARGEST_NUMBER),
}
NUMBERS = (
    "temperature", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff",
    "repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "max_time",
)  # fmt: skip
SWITCHES = (
    "do_sample", "use_cache", "renormalize_logits", "remove_invalid_values", "return_dict_in_generate",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits",
)  # fmt: skip
TOKENS = ("pad_token_id", "bos_token_id", "forced_bos_token_id")
TOKEN_LISTS = (
    "eos_token_id", "decoder_start_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
)  # fmt: skip
CHOICES = {"early_stopping": (True, False, "never"), "length_penalty_type": LENGTH_PENALTY_TYPES}


def generation_config_in(path: str | Path) -> GenerationConfig | None:
    """The `generation_config.json` of a folder or a Hub id; `None` if there is none, or no connection.

    Raises:
        ValueError: as in [`check_generation_file`].
    """
    quiet = ("gated_repo", "missing_entries", "connection_errors")
    options = {f"_raise_exceptions_for_{problem}": False for problem in quiet}
    file = cached_file(str(path), GENERATION_CONFIG_NAME, **options)
    if file is None:
        return None
    check_generation_file(file)
    return GenerationConfig.from_pretrained(Path(file).parent)


def check_generation_file(path: str | Path, vocab_size: int | None = None) -> None:
    """Refuse a `generation_config.json` that is damaged or has invalid settings.

    Args:
        vocab_size: the number of target tokens, if known.

    Raises:
        ValueError: the file is damaged or invalid; the message lists all errors, one per line, with the file's name.
    """
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not JSON ({' '.join(str(error).split())})"
        raise ValueError(f"{path} cannot be read: {why}. {REPAIR}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} cannot be read: it contains {_shown(settings)} instead of settings. {REPAIR}")
    errors = setting_errors(settings, vocab_size)
    if not errors:
        try:
            GenerationConfig.from_dict(settings)
        except Exception as error:  # of many kinds: settings that contradict each other
            errors = [" ".join(str(error).split()).rstrip(".")]
    if errors:
        raise ValueError("\n".join(f"{path}: {error}. {REPAIR}" for error in errors))


REPAIR = "Copy or download it again, or correct the setting."


def setting_errors(settings: dict[str, Any], vocab_size: int | None = None) -> list[str]:
    """Error messages for invalid settings. A value of `None` means not set, and unknown settings are not checked."""
    errors = []
    for name, value in settings.items():
        wanted = None if value is None else _expected(name, value, vocab_size)
        if wanted:
            errors.append(f"{name} must be {wanted}, got {_shown(value)}")
    return errors


def _expected(name: str, value: Any, vocab_size: int | None) -> str | None:
    """What a setting must be, in words; `None` if its value is valid."""
    if name in WHOLE_NUMBERS:
        least, most = WHOLE_NUMBERS[name]
        if _is_whole(value) and least <= value <= most:
            return None
        is_bound = most < LARGEST_NUMBER or (_is_whole(value) and value > most)
        return f"a whole number from {least} to {most:,}" if is_bound else f"a whole number of at least {least}"
    if name == "length_penalty":
        is_within = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_PENALTY
        return None if is_within else f"a number from -{LARGEST_PENALTY} to {LARGEST_PENALTY}"
    if name in NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if is_number and abs(value) <= sys.float_info.max else "a number"
    if name in SWITCHES:
        return None if isinstance(value, bool) else "true or false"
    if name in CHOICES:
        is_one = any(type(value) is type(choice) and value == choice for choice in CHOICES[name])
        return None if is_one else f"one of {', '.join(json.dumps(choice) for choice in CHOICES[name])}"
    if name in TOKENS or name in TOKEN_LISTS:
        ids = value if name in TOKEN_LISTS and isinstance(value, list) else [value]
        is_known = all(_is_whole(i) and (vocab_size is None or 0 <= i < vocab_size) for i in ids)
        words = "token ids" if name in TOKEN_LISTS else "a token id"
        return None if is_known else words + (f" below {vocab_size}" if vocab_size is not None else "")
    if name == "bad_words_ids":
        are_lists = isinstance(value, list) and all(isinstance(ids, list) and ids for ids in value)
        return None if are_lists and all(_is_whole(i) for ids in value for i in ids) else "lists of token ids"
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


__all__ = ["check_generation_file", "setting_errors"]

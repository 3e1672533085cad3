"""Checks the settings of a generation config and of a `generation_config.json`, and resolves a call's settings.

transformers ignores a file that it cannot read, which means greedy search, and accepts settings of any type, which
then fail in the middle of a search or mean something else.
"""

import copy
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import Any

from torch import nn
from transformers import GenerationConfig, PreTrainedModel
from transformers.utils import GENERATION_CONFIG_NAME, cached_file

from ..core.generation_beam_search import LARGEST_PENALTY, LENGTH_PENALTY_TYPES, Scoring
from ..core.generation_vaswani import own_max_length
from ..text.inputs import LARGEST_NUMBER, check_number

# Generous: a search takes memory in proportion to its beam, and a model that never ends continues to the limit.
LARGEST_BEAM = 1000
LARGEST_OFFSET = 10_000
# Tokens after which an output ends if neither the call nor the model says so.
DEFAULT_MAX_NEW_TOKENS = 256

# With these arguments, `generate()` takes one text at a time.
ONE_BY_ONE = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "streamer", "decoder_input_ids")
# Objects of the caller that may have state.
WITH_STATE = ("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "custom_generate")
LENGTHS = ("max_new_tokens", "max_length")
# Attention to a longer source would fill the memory, whatever the model's positions.
LONGEST_SOURCE = 4096

OTHER_NAMES = {  # of arguments, in other toolkits
    **dict.fromkeys(("beam_size", "beam_width", "beams"), "num_beams"),
    **dict.fromkeys(("load_in_8bit", "load_in_4bit"), "quantize"),
}

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
    """The `generation_config.json` of a folder or a Hub id; `None` if it is missing, or without a connection.

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
        except Exception as error:  # of many kinds: conflicting settings
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


def _expected(name: str, value: object, vocab_size: int | None) -> str | None:
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


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


def suggest_argument(error: ValueError, known: Iterable[str]) -> str | None:
    """A suggestion, if an error of `generate()` is about an argument that resembles a known one."""
    for name in re.findall(r"'(\w+)'", str(error)) if "model_kwargs" in str(error) else []:
        close = get_close_matches(OTHER_NAMES.get(name, name), known, 1, cutoff=0.75)
        if close and close[0] != name:
            return f"{name} is not an argument of translation. Did you mean {close[0]}?"
    return None


def check_search(get: Callable[[str], Any]) -> None:
    """Refuse invalid numbers and rules among the arguments of a search, and end tokens that are not ids.

    Args:
        get: returns the value of an argument of `generate()` by its name, or `None`.
    """
    for name in ("num_beams", "num_return_sequences", "max_new_tokens", "max_length"):
        check_number(name, get(name))
    if (rule := get("early_stopping")) is not None and rule not in CHOICES["early_stopping"]:
        raise ValueError(f"early_stopping must be True, False or 'never', got {rule!r}.")
    given = get("eos_token_id")
    ids = given.tolist() if hasattr(given, "tolist") else given
    ids = ids if isinstance(ids, Sequence) and not isinstance(ids, str) else [ids]
    if given is not None and (not ids or any(isinstance(i, bool) or not isinstance(i, Integral) for i in ids)):
        raise ValueError(f"eos_token_id must be a token id or a list of at least one, got {given!r}.")


def position_limit(stack: nn.Module) -> int | None:
    """The size of the position table of an encoder or decoder; `None` if it has none, or one that grows."""
    positions = getattr(stack, "embed_positions", None)
    if isinstance(positions, nn.Embedding) and not hasattr(positions, "make_weight"):  # FSMT's grows
        return positions.num_embeddings - getattr(positions, "offset", 0)
    return None


class GenerateArguments:
    """Resolved arguments of `generate()`: from the call, else the task, else the generation configs.

    Args:
        arguments: arguments of the call.
        task: what the model's config holds for the task (T5); ignored if the call has a `generation_config`.

    Attributes:
        generate_kwargs: what to pass to `generate()`.

    Raises:
        ValueError: one of the numbers, switches or end tokens is invalid.
    """

    def __init__(self, model: PreTrainedModel, arguments: dict[str, Any], task: dict[str, Any]):
        config = arguments.get("generation_config")
        self.model = model
        self.generate_kwargs = dict(arguments) if config is not None else {**task, **arguments}
        self.configs = (config, model.generation_config)
        self._of_call = arguments
        check_search(self.get)
        # Those that come from a command line or a form; transformers would use "no" as true.
        if errors := setting_errors({name: value for name, value in arguments.items() if isinstance(value, str)}):
            raise ValueError(". ".join(errors))
        if self.length() is None and (length := self._default_length()):
            self.generate_kwargs["max_new_tokens"] = length

    def updated(self, arguments: dict[str, Any]) -> "GenerateArguments":
        """These arguments combined with a batch's own, which are not checked."""
        result = copy.copy(self)
        result.generate_kwargs = {**self.generate_kwargs, **arguments}
        return result

    def get(self, name: str, default: object = None) -> Any:
        """The value of an argument; `None` counts as not given."""
        values = (self.generate_kwargs.get(name), *(getattr(config, name, None) for config in self.configs))
        return next((value for value in values if value is not None), default)

    def eos_token_ids(self) -> list[int]:
        eos = self.get("eos_token_id", [])
        return [eos] if isinstance(eos, int) else list(eos)

    def rows(self) -> int:
        """The number of hypotheses that are followed at once for each text."""
        return max(self.get("num_beams", 1), self.get("num_return_sequences", 1))

    def scoring(self) -> Scoring:
        """How beam search would compare hypotheses of different lengths."""
        return Scoring(self.get("length_penalty", 1.0), self.get("length_penalty_type", "length"))

    def length(self) -> int | None:
        """The number of tokens at which outputs end; `None` if none is set, or the model has a rule of its own."""
        of_call, own = self.configs
        lengths = (
            self.get("max_new_tokens"),
            self.generate_kwargs.get("max_length"),
            getattr(of_call, "max_length", None),
            own_max_length(own) if self._length_follows_source() else own.max_length,
        )
        return next((length for length in lengths if length is not None), None)

    def length_is_of_call(self) -> bool:
        """Whether the call itself sets the length at which outputs end, rather than the model or its task."""
        lengths = [self._of_call.get(name) for name in LENGTHS]
        lengths += [getattr(self.configs[0], name, None) for name in LENGTHS]
        return any(length is not None for length in lengths)

    def _default_length(self) -> int | None:
        """The length to use if none was set; `None` if the model has a rule of its own."""
        if self._length_follows_source():
            return None
        positions = position_limit(self.model.get_decoder())
        return min(DEFAULT_MAX_NEW_TOKENS, positions - 1) if positions else DEFAULT_MAX_NEW_TOKENS

    def may_end_without_eos(self) -> bool:
        """Whether an output may end before the others without an end token, so that padding follows directly."""
        return self._length_follows_source() or any(self.get(name) for name in ("stop_strings", "stopping_criteria"))

    def takes_one_text_at_a_time(self) -> bool:
        return any(self.get(name) is not None for name in ONE_BY_ONE)

    def depends_on_order(self) -> bool:
        """Whether results may depend on what was translated before, since the caller's objects may have state."""
        return any(self.get(name) is not None for name in WITH_STATE) or self.takes_one_text_at_a_time()

    def hypotheses(self, n_best: int | None) -> int:
        """The number of hypotheses to return for each text.

        Args:
            n_best: the number requested from the pipeline, if any.

        Raises:
            ValueError: the search cannot return that many, or the number is invalid or given twice.
        """
        requested = self.get("num_return_sequences", 1)
        if n_best is None:
            name, number = "num_return_sequences", requested
        else:
            name, number = "n_best", n_best
            if self.generate_kwargs.get("num_return_sequences") not in (None, n_best):
                raise ValueError(
                    f"{name}={number} and num_return_sequences={requested} set the same thing: pass only one."
                )
        check_number(name, number)
        beams = self.get("num_beams", 1)
        draws = self.get("do_sample", False) and beams == 1
        if number > beams and not draws:
            raise ValueError(
                f"{name}={number} needs a beam of at least that size, but num_beams={beams}. Pass num_beams={number}, "
                "or do_sample=True with num_beams=1 to sample."
            )
        return number

    def _length_follows_source(self) -> bool:
        return getattr(self.model, "length_follows_source", False)


__all__ = ["GenerateArguments", "check_generation_file", "position_limit", "setting_errors"]

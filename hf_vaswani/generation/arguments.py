"""The arguments of a call to `generate()`, resolved before the call is made."""

import copy
from typing import Any

from transformers import PreTrainedModel

from ..core.generation_beam_search import Scoring
from ..core.generation_vaswani import own_max_length
from .model_checks import position_limit
from .settings import DEFAULT_MAX_NEW_TOKENS, check_number, check_search, setting_errors

# With these arguments, `generate()` takes one text at a time.
ONE_BY_ONE = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "streamer", "decoder_input_ids")
# Objects of the caller that may have state.
WITH_STATE = ("logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "custom_generate")
LENGTHS = ("max_new_tokens", "max_length")


class GenerateArguments:
    """Resolved arguments of `generate()`: those of the call, else of the task, else of the generation configs.

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

    def of_batch(self, arguments: dict[str, Any]) -> "GenerateArguments":
        """These arguments combined with a batch's own, which are not checked."""
        result = copy.copy(self)
        result.generate_kwargs = {**self.generate_kwargs, **arguments}
        return result

    def get(self, name: str, default: Any = None) -> Any:
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
            n_best: the number that the pipeline was asked for, if any.

        Raises:
            ValueError: the search cannot return that many, or the number is invalid or given twice.
        """
        asked = self.get("num_return_sequences", 1)
        if n_best is None:
            name, number = "num_return_sequences", asked
        else:
            name, number = "n_best", n_best
            if self.generate_kwargs.get("num_return_sequences") not in (None, n_best):
                raise ValueError(
                    f"{name}={number} and num_return_sequences={asked} set the same thing: pass only one."
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


__all__ = ["GenerateArguments"]

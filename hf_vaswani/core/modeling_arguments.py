"""Arguments of forward passes: the two names of the cache, and the refusal of arguments that no module would use.

transformers 5.24 renamed `past_key_values` to `cache`. The name here is `cache`; forward passes also take the old one,
and outputs have the one that the installed transformers knows. The file travels with each checkpoint as remote code
and therefore imports nothing but torch, transformers and its siblings.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

from transformers.modeling_outputs import Seq2SeqLMOutput

OLD_CACHE_NAME = "past_key_values"
# The cache's name in the outputs and in the arguments of `generate()` of the installed transformers.
CACHE_NAME = "cache" if "cache" in {field.name for field in fields(Seq2SeqLMOutput)} else OLD_CACHE_NAME

# What a forward pass may be given besides its own arguments: requests that transformers' decorators answer, what the
# Trainer adds, and what attention functions take.
PASSED_ON = {
    "cu_seq_lens_k",
    "cu_seq_lens_q",
    "is_causal",
    "max_length_k",
    "max_length_q",
    "num_items_in_batch",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "use_cache",
}


def accepts_past_key_values(forward: Callable) -> Callable:
    """Decorate a forward pass to take its `cache` under its old name, too.

    Raises:
        TypeError: both are given.
    """

    @wraps(forward)
    def wrapper(self, *args, **kwargs):
        if OLD_CACHE_NAME in kwargs:
            cache = kwargs.pop(OLD_CACHE_NAME)
            if cache is not None and kwargs.get("cache") is not None:
                raise TypeError(f"cache and {OLD_CACHE_NAME} are the same argument. Pass cache alone.")
            if cache is not None:
                kwargs["cache"] = cache
        return forward(self, *args, **kwargs)

    return wrapper


def refuse_unknown(arguments: dict[str, Any]) -> None:
    """Refuse arguments that a forward pass would ignore: one with state, such as a cache, would change the output.

    Args:
        arguments: what a forward pass was given besides its own arguments; those that are None do no harm.

    Raises:
        TypeError: some are unknown; the message names them.
    """
    unknown = [name for name, value in arguments.items() if value is not None and name not in PASSED_ON]
    if unknown:
        raise TypeError(
            f"The forward pass of a Vaswani model has no argument {', '.join(unknown)}. Leave it out; if transformers "
            "passes it, this version of hf_vaswani or of the checkpoint's code is older than transformers."
        )


__all__ = ["CACHE_NAME", "accepts_past_key_values", "refuse_unknown"]

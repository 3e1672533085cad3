"""The two names of the cache: `cache`, and `past_key_values` as it was called before transformers 5.24.

Forward passes here call it `cache` and also take the old name; outputs have the name that the installed transformers
knows.
"""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import wraps

import torch
from transformers.modeling_outputs import Seq2SeqLMOutput

OLD_NAME = "past_key_values"
# The name in the outputs and in the arguments of `generate()` of the installed transformers.
CACHE_NAME = "cache" if "cache" in {field.name for field in fields(Seq2SeqLMOutput)} else OLD_NAME


def accepts_past_key_values(forward: Callable) -> Callable:
    """Decorate a forward pass to take its `cache` under its old name, too, with the warning of transformers' models.

    Of two caches, one that is still empty is left out: `generate()` passes one besides PEFT's prefix.

    Raises:
        TypeError: two caches are given, neither of them empty.
    """

    @wraps(forward)
    def wrapper(self, *args, **kwargs):
        old, new = kwargs.pop(OLD_NAME, None), kwargs.get("cache")
        if old is not None and new is not None and new is not old:
            if old.get_seq_length() > 0 and new.get_seq_length() > 0:
                raise TypeError(f"cache and {OLD_NAME} are two names of one argument. Pass cache alone.")
            old = old if old.get_seq_length() > 0 else new
        if old is not None:
            kwargs["cache"] = old
            if CACHE_NAME != OLD_NAME and not torch.compiler.is_compiling():
                message = f"`{OLD_NAME}` is deprecated in `{type(self).__name__}.forward`. Use `cache` instead."
                warnings.warn(message, FutureWarning, stacklevel=2)
        return forward(self, *args, **kwargs)

    if CACHE_NAME == OLD_NAME:  # transformers reads the name from the signature, and Accelerate undoes decorators
        signature = inspect.signature(forward)
        parameters = [p.replace(name=OLD_NAME) if p.name == "cache" else p for p in signature.parameters.values()]
        wrapper.__signature__ = signature.replace(parameters=parameters)
        del wrapper.__wrapped__
    return wrapper


__all__ = ["CACHE_NAME", "accepts_past_key_values"]

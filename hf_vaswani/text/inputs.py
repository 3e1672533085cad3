"""Checks that what is given is text, in any of the forms that a translator takes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from .normalization import clean

SHOWN_ERRORS = 5
EXPECTED = "The translation pipeline takes a str or a list of str"


def check_text(name: str, value: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a str, got {type(value).__name__}: {_shown(value)}")


def check_many(name: str, value: Any, of: str = "str") -> None:
    """Refuse what cannot be iterated, a single text, which is iterable too, and a set, whose order is undefined."""
    if isinstance(value, (str, bytes, set, frozenset)) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of {of}, got {type(value).__name__}: {_shown(value)}")


def text_pairs(pairs: Iterable) -> Iterator[tuple[str, str]]:
    """Yield pairs of source and target lazily, each checked to be two texts and cleaned with [`clean`]."""
    for i, pair in enumerate(pairs):
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not (is_pair and all(isinstance(text, str) for text in pair)):
            raise ValueError(f"pairs must be (source, target), two str each, but pairs[{i}] is {_shown(pair)}.")
        yield clean(pair[0]), clean(pair[1])


def as_texts(inputs: Any) -> tuple[Iterable, bool]:
    """Inputs of the pipeline other than a single text → an iterable of texts, and whether to read it lazily.

    Raises:
        ValueError: the pipeline does not accept such inputs.
    """
    if isinstance(inputs, Dataset) and not isinstance(inputs, IterableDataset):
        return (inputs[i] for i in range(len(inputs))), True
    is_sequence = isinstance(inputs, Sequence) or (hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"))
    is_other = isinstance(inputs, (bytes, bytearray, Mapping, set, frozenset))  # sets have no order
    if is_other or not (is_sequence or isinstance(inputs, Iterable)):
        raise ValueError(f"{EXPECTED}, got {type(inputs).__name__}: {_shown(inputs)}")
    return inputs, not is_sequence


def not_texts(inputs: list, first: int = 0) -> list[int]:
    """Positions of inputs that are not texts, counted from `first`."""
    return [i for i, text in enumerate(inputs, first) if not isinstance(text, str)]


def not_texts_error(inputs: list, positions: list[int], first: int = 0) -> ValueError:
    errors = [f"inputs[{i}] is {type(inputs[i - first]).__name__}: {_shown(inputs[i - first])}" for i in positions]
    return ValueError(f"{EXPECTED}, but {listed(errors)}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def listed(errors: list[str]) -> str:
    rest = len(errors) - SHOWN_ERRORS
    return ", ".join(errors[:SHOWN_ERRORS]) + (f" and {rest} more" if rest > 0 else "")

"""Checks that what is given is text, in any of the forms that a translator takes, and in the right encoding."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .normalization import clean

SHOWN_ERRORS = 5
EXPECTED = "The translation pipeline takes a str or a list of str"
# The bytes 0x80 to 0xBF, with which a character in UTF-8 continues, as Latin-1 and Windows-1252 read them.
_CONTINUATION = f"[\x80-\xbf{bytes(range(0x80, 0xA0)).decode('cp1252', 'ignore')}]"
# A Western letter or punctuation mark, or two characters in a row of any script. "MANHÃ…" is Portuguese.
MOJIBAKE = re.compile(f"(?<![A-Z])[ÂÃ]{_CONTINUATION}|â[€‚\x80\x82]{_CONTINUATION}|([Â-ô]{_CONTINUATION}{{1,3}}){{2}}")


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
    from torch.utils.data import Dataset, IterableDataset

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


def looks_like_mojibake(text: str) -> bool:
    """Whether a text has characters in UTF-8 that were read byte by byte."""
    return MOJIBAKE.search(text) is not None


def mojibake_warning(name: str, texts: Sequence[str]) -> str | None:
    """A warning that counts such texts in a file, if there are any."""
    if not (count := sum(map(looks_like_mojibake, texts))):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} look like UTF-8 that was read as Latin-1, with Ã¼ in "
        "place of ü. Convert the file."
    )

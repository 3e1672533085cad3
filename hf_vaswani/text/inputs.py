"""Checks arguments: that texts are texts, and in the right encoding; numbers and switches."""

import re
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral

SHOWN_ERRORS = 5
LARGEST_NUMBER = 2**31 - 1
# The bytes 0x80 to 0xBF, with which a character in UTF-8 continues, as Latin-1 and Windows-1252 read them.
_CONTINUATION = f"[\x80-\xbf{bytes(range(0x80, 0xA0)).decode('cp1252', 'ignore')}]"
# A Western letter or punctuation mark, or two characters in a row of any script. "MANHÃ…" is Portuguese.
MOJIBAKE = f"(?<![A-Z])[ÂÃ]{_CONTINUATION}|â[€‚\x80\x82]{_CONTINUATION}|([Â-ô]{_CONTINUATION}{{1,3}}){{2}}"


def check_text(name: str, value: object) -> None:
    """Refuse anything but a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a str, got {type(value).__name__}: {shown(value)}")


def check_many(name: str, value: object, of: str = "str") -> None:
    """Refuse what cannot be iterated, a single text, which is iterable too, and a set, whose order is undefined."""
    if isinstance(value, (str, bytes, set, frozenset)) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of {of}, got {type(value).__name__}: {shown(value)}")


def check_number(name: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of 32 bits, at least `least`, or `None` for a number that is not given."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a tensor
        value = value.item()
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value is not None and value > LARGEST_NUMBER:
        raise ValueError(f"{name} must be at most {LARGEST_NUMBER:,}, got {value!r}.")


def check_switch(name: str, value: object) -> None:
    """Refuse anything but true, false, or `None` for a switch that is not given: any text would count as true."""
    if value not in (True, False, None):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def text_pairs(pairs: Iterable) -> Iterator[tuple[str, str]]:
    """Yield pairs of source and target lazily, each checked to be two texts and cleaned with [`clean`]."""
    from .normalization import clean  # what only checks arguments need not import it

    for i, pair in enumerate(pairs):
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not (is_pair and all(isinstance(text, str) for text in pair)):
            raise ValueError(f"pairs must be (source, target), two str each, but pairs[{i}] is {shown(pair)}.")
        yield clean(pair[0]), clean(pair[1])


def shown(value: object) -> str:
    """A value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def listed(errors: list[str]) -> str:
    rest = len(errors) - SHOWN_ERRORS
    return ", ".join(errors[:SHOWN_ERRORS]) + (f" and {rest} more" if rest > 0 else "")


def looks_like_mojibake(text: str) -> bool:
    """Whether a text has characters in UTF-8 that were read byte by byte."""
    return re.search(MOJIBAKE, text) is not None


def mojibake_warning(name: str, texts: Sequence[str]) -> str | None:
    """A warning that counts such texts in a file, if there are any."""
    if not (count := sum(map(looks_like_mojibake, texts))):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} look like UTF-8 that was read as Latin-1, with Ã¼ in "
        "place of ü. Convert the file."
    )

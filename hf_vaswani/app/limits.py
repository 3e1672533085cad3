"""How much the page accepts at once, and what it says if something cannot be done: a sentence, never a traceback."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, reason
from ..text.normalization import is_blank
from ..translator.lines import error_message

logger = logging.getLogger(__name__)

# In characters: of any text, of a text whose words are linked, and of a text that is drawn.
LONGEST_TEXT, LONGEST_LINKED_TEXT, LONGEST_FIGURE = 100_000, 20_000, 500
LARGEST_FILE = 10 * 1024 * 1024  # bytes
MOST_BEAMS = 10


def check_text(text: str | None, most: int = LONGEST_TEXT, name: str = "text", remedy: str = "Shorten it.") -> str:
    """Return a text that was entered on the page, unless it is empty or has more characters than `most`."""
    text = text or ""
    if is_blank(text):
        raise InputError(f"The {name} is empty.")
    if len(text) > most:
        raise InputError(f"The {name} has {len(text):,} characters, but at most {most:,} are allowed. {remedy}")
    return text


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn whatever the block raises into an `InputError`; unexpected errors are also logged in full."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None
    except MemoryError:
        raise InputError("There is not enough memory for this. Shorten the text, or request less.") from None
    except Exception as error:
        logger.exception("Error on the page")
        raise InputError(f"This cannot be done: {reason(error)}") from None


def untranslated(error: Exception) -> str:
    """The text shown in place of a missing translation."""
    return f"[not translated: {error_message(error)}]"

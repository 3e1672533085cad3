"""What the page says if something cannot be done: one readable sentence, never a traceback."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, reason
from ..translation.lines import error_message

logger = logging.getLogger(__name__)


@contextmanager
def explained() -> Iterator[None]:
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

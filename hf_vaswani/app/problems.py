"""What the page says where something cannot be done: one sentence for people, never a traceback."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, reason
from ..translation.lines import error_message

logger = logging.getLogger(__name__)


@contextmanager
def explained() -> Iterator[None]:
    """Have whatever the block raises as an `InputError`; what is no error of the input is logged in full."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(" ".join(str(error).split())) from None
    except MemoryError:
        raise InputError("There is not enough memory for this. Shorten the text, or ask for less.") from None
    except Exception as error:
        logger.exception("An error of the page")
        raise InputError(f"This cannot be done: {reason(error)}") from None


def untranslated(error: Exception) -> str:
    """What stands in place of a translation that there is not."""
    return f"[not translated: {error_message(error)}]"

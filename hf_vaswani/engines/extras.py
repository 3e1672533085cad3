"""Optional libraries, imported when they are needed."""

import importlib
from types import ModuleType

from ..errors import InputError


def import_extra(library: str, extra: str | None = None) -> ModuleType:
    """Import an optional library.

    Args:
        extra: this package's extra that installs the library; by default, the one of the same name.

    Raises:
        InputError: the library is not installed; the message gives the command that installs it.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InputError(
            f'{library} is not installed. Install it with: pip install "hf-vaswani[{extra or library}]"'
        ) from None

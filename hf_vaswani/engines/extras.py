"""Optional libraries, imported when they are needed."""

import importlib
from types import ModuleType

from ..errors import InputError, is_out_of_memory, reason


def import_extra(library: str, extra: str | None = None) -> ModuleType:
    """Import an optional library.

    Args:
        extra: this package's extra that installs the library; by default, the one of the same name.

    Raises:
        InputError: the library is not installed, or its installation is broken; the message gives the command that
            installs it.
        ImportError: there is not enough memory.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        if is_out_of_memory(error):
            raise
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == library
        what = "is not installed" if is_missing else f"cannot be imported ({reason(error)})"
        raise InputError(f'{library} {what}. Install it with: pip install "hf-vaswani[{extra or library}]"') from None

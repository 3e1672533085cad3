"""Optional libraries, imported when they are needed."""

import importlib
from types import ModuleType

from ..errors import InputError


def import_extra(library: str, extra: str | None = None) -> ModuleType:
    """An optional library.

    Args:
        extra: of this package's, that installs it; default: of the same name.

    Raises:
        InputError: where it is not installed, with the command that does it.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InputError(
            f'{library} is not installed. Install it with: pip install "hf-vaswani[{extra or library}]"'
        ) from None

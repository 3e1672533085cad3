"""Files of matplotlib figures, written without a display and without pyplot, which would keep each one in memory."""

import os
from pathlib import Path

from matplotlib.figure import Figure

from ..errors import InputError
from ..files import atomic_write, path_error

SUFFIXES = (".png", ".svg", ".pdf")
PIXELS_PER_INCH = 150


def figure_path_errors(path: Path) -> list[str]:
    """Why no figure can be written to a path, which is worth knowing before the work."""
    if error := path_error(path, is_output=True):
        return [error]
    errors = []
    if path.suffix.lower() not in SUFFIXES:
        errors.append(f"{path} is not the name of a figure. End it with one of {', '.join(SUFFIXES)}.")
    if not path.resolve().parent.is_dir():
        errors.append(f"{path} cannot be written: its folder does not exist. Make it first.")
    elif path.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        errors.append(f"{path} cannot be written. Name another file.")
    return errors


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the path's suffix. The old file stays until the new one is complete.

    Raises:
        InputError: where the path is not the name of a figure or cannot be written.
    """
    if errors := figure_path_errors(path):
        raise InputError.of(errors)
    try:
        with atomic_write(path) as part:
            figure.savefig(part, format=path.suffix[1:].lower())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Make room, or name another file.") from None

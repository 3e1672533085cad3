"""Saves matplotlib figures without a display, and without pyplot, which would keep them in memory."""

import io
import os
from pathlib import Path

from matplotlib.figure import Figure

from ..errors import InputError
from ..files import path_error, replace_files

SUFFIXES = (".png", ".svg", ".pdf")
PIXELS_PER_INCH = 150


def figure_path_errors(path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """Errors that say why a figure cannot be written to a path, to check before the work begins.

    Args:
        suffixes: the suffixes that the path may have.
    """
    if error := path_error(path, is_output=True):
        return [error]
    errors = []
    if path.suffix.lower() not in suffixes:
        errors.append(f"{path} is not the name of a figure: it must end with one of {', '.join(suffixes)}.")
    if not path.resolve().parent.is_dir():
        errors.append(f"{path} cannot be written: its folder does not exist. Create it first.")
    elif path.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        errors.append(f"{path} cannot be written. Choose another file.")
    return errors


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the path's suffix. The old file stays until the new one is complete.

    Raises:
        InputError: the path is not the name of a figure or cannot be written.
    """
    if errors := figure_path_errors(path):
        raise InputError.of(errors)
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:].lower())
    replace_files({path: content.getvalue()})

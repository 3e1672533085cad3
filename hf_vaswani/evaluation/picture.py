"""Pictures by matplotlib, without a display and without pyplot, which would keep each one in memory."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from ..paths import path_error
from ..whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
PIXELS_PER_INCH = 150

# The palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), which all kinds of colour vision tell apart; without
# its yellow, too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure, in inches, of 150 pixels each."""
    from matplotlib.figure import Figure  # takes half a second, which commands without a picture need not wait

    return Figure((width, height), dpi=PIXELS_PER_INCH, layout="constrained")


def picture_faults(path: Path) -> list[str]:
    """Why no picture can be written to a path, which is worth knowing before the work."""
    if error := path_error(path, is_output=True):
        return [error]
    faults = []
    if path.suffix.lower() not in SUFFIXES:
        faults.append(f"{path} has no name of a picture. End it with one of {', '.join(SUFFIXES)}.")
    if not path.resolve().parent.is_dir():
        faults.append(f"{path} cannot be written: its folder does not exist. Make it first.")
    elif path.is_dir() or not os.access(path.resolve().parent, os.W_OK):
        faults.append(f"{path} cannot be written. Name another file.")
    return faults


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the path's suffix. Who looks meanwhile sees the old picture or the new.

    Raises:
        InputError: where the path is none of a picture or cannot be written.
    """
    faults = picture_faults(path)
    if faults:
        raise InputError.of(faults)
    try:
        with whole_file(path) as part:
            figure.savefig(part, format=path.suffix[1:].lower())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}. Make room, or name another file.") from None

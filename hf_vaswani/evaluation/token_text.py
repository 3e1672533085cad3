"""Text in figures, of any script: fonts, reading order; and how figures are saved."""

import contextlib
import functools
import io
import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from matplotlib import font_manager, ft2font
from matplotlib.figure import Figure
from transformers.utils import logging

from ..errors import InputError
from ..files import path_error, replace_files
from ..text.token_spans import JOINERS

logger = logging.get_logger(__name__)

LONGEST_TOKEN = 16  # characters; longer ones are cut
UNUSABLE_FONTS = re.compile("emoji|last ?resort", re.IGNORECASE)  # bitmaps and boxes
RIGHT_TO_LEFT = ("R", "AL")  # of letters, by Unicode's bidirectional classes
_warned: set[str] = set()  # characters without a font that were reported
SUFFIXES = (".png", ".svg", ".pdf")
PIXELS_PER_INCH = 150


def is_right_to_left(tokens: Iterable[str]) -> bool:
    """Whether most letters belong to a right-to-left script."""
    directions = [unicodedata.bidirectional(character) for token in tokens for character in token]
    return sum(map(directions.count, RIGHT_TO_LEFT)) > directions.count("L")


def drawable(tokens: list[str]) -> tuple[list[str], list[str]]:
    """Tokens as matplotlib can draw them, and the font families that they need, the default one first.

    Characters without an installed font are replaced by their compatibility equivalents in Unicode, such as "■" for
    the joiner "￭" of word tokenizers, or else by their code points, `[4F60 597D]`, with a warning the first time.
    Tokens of more than 16 characters are cut and end with an ellipsis.
    """
    families, missing = font_families("".join(tokens))
    if missing:
        compatible = {ord(c): unicodedata.normalize("NFKC", c) for c in missing}
        tokens = [token.translate(compatible) for token in tokens]
        families, missing = font_families("".join(tokens))
    if new := sorted(missing - _warned):
        _warned.update(new)
        logger.warning(
            f"No installed font has {len(new)} of the characters ({' '.join(new[:5])}{' …' * (len(new) > 5)}): the "
            "figure shows their code points. Install a font that has them, such as one of "
            "https://fonts.google.com/noto."
        )
    if missing:
        run = re.compile(f"[{re.escape(''.join(missing))}]+")
        tokens = [run.sub(lambda m: f"[{' '.join(f'{ord(c):04X}' for c in m[0])}]", token) for token in tokens]
    cut = [t if len(t) <= LONGEST_TOKEN else f"{t[: LONGEST_TOKEN - 1]}…" for t in tokens]
    return [_in_visual_order(token) for token in cut], families


def font_families(text: str) -> tuple[list[str], set[str]]:
    """Installed font families that together cover a text, and the characters that no font has."""
    manager = font_manager.fontManager
    default = manager.findfont(font_manager.FontProperties())
    families, missing = ["sans-serif"], set(text) - set(JOINERS) - _characters(default)
    if missing:  # fonts installed since matplotlib last looked
        for path in sorted(set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}):
            with contextlib.suppress(Exception):  # files that FreeType cannot read raise many types
                manager.addfont(path)
    fonts = sorted(manager.ttflist, key=lambda font: font.name)
    # Upright sans-serif fonts of normal weight first.
    for font in sorted(fonts, key=lambda font: (font.style != "normal", font.weight != 400, "Sans" not in font.name)):
        if missing and not UNUSABLE_FONTS.search(font.name) and missing & _characters(font.fname):
            families.append(font.name)
            missing -= _characters(font.fname)
    return families, missing


@functools.cache
def _characters(path: str) -> frozenset[str]:
    """The characters of a font; empty if it cannot be read."""
    try:
        return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
    except Exception:
        return frozenset()


def _in_visual_order(text: str) -> str:
    """Right-to-left text, joined and reordered from left to right, as matplotlib before 3.11 needs it."""
    if hasattr(ft2font, "__libraqm_version__") or not {*RIGHT_TO_LEFT} & {*map(unicodedata.bidirectional, text)}:
        return text
    try:
        from arabic_reshaper import reshape
        from bidi.algorithm import get_display
    except ImportError:
        logger.warning_once(
            "This matplotlib draws right-to-left text from left to right, with separate letters. Install "
            "matplotlib 3.11 or later, or: pip install python-bidi arabic-reshaper"
        )
        return text
    return get_display(reshape(text))


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

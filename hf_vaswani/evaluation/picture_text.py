"""Tokens of any script as text that a picture can show: markers, fonts, reading order."""

import functools
import logging
import re
import unicodedata
from collections.abc import Iterable

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

logger = logging.getLogger(__name__)

WORD_START = "▁"
LONGEST_TOKEN = 16  # characters; what is longer is cut
JOINERS = "\u200c\u200d"  # invisible, but Persian and Indic letters take their forms from them
NO_FONTS = re.compile("emoji|last ?resort", re.IGNORECASE)  # of bitmaps; of boxes
_warned: set[str] = set()  # characters without a font, each of which is told once


def readable_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Iterable[str]) -> list[str]:
    """Tokens as text: bytes are letters again, where they make any, and what is invisible is escaped.

    A space at the beginning of a word is `▁`, as SentencePiece writes it, whatever the tokenizer does.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    is_byte_level = "ByteLevel" in f"{backend and backend.pre_tokenizer} {backend and backend.decoder}"
    special = set(tokenizer.all_special_tokens)
    return [_escaped(_from_bytes(t) if is_byte_level and t not in special else t) for t in tokens]


def _from_bytes(token: str) -> str:
    """A token of byte-level BPE, each of whose characters stands for a byte, as text."""
    numbers = {character: number for number, character in bytes_to_unicode().items()}
    if not all(character in numbers for character in token):
        return token
    data = bytes(numbers[character] for character in token)
    try:
        return data.decode().replace(" ", WORD_START)
    except UnicodeDecodeError:  # part of a character
        return "".join(f"<0x{number:02X}>" for number in data)


def _escaped(token: str) -> str:
    return "".join(c if c.isprintable() or c in JOINERS else c.encode("unicode_escape").decode() for c in token)


def is_right_to_left(tokens: Iterable[str]) -> bool:
    """Whether most letters are of a script that is written from right to left."""
    directions = [unicodedata.bidirectional(character) for token in tokens for character in token]
    return sum(d in ("R", "AL") for d in directions) > directions.count("L")


def drawable(tokens: list[str]) -> tuple[list[str], list[str]]:
    """Tokens as matplotlib can draw them, and the font families that they need, the usual one first.

    Characters for which no font is installed become those that Unicode has as compatible, as "■" for the "￭" that word
    tokenizers put where no space was, or else their code points, `[4F60 597D]`, with a warning the first time. Tokens
    of more than 16 characters are cut, and end with an ellipsis.
    """
    families, missing = font_families("".join(tokens))
    if missing:
        compatible = str.maketrans({c: unicodedata.normalize("NFKC", c) for c in missing})
        tokens = [token.translate(compatible) for token in tokens]
        families, missing = font_families("".join(tokens))
    if missing:
        _warn_of_missing(missing - _warned)
        run = re.compile(f"[{re.escape(''.join(missing))}]+")
        tokens = [run.sub(lambda m: f"[{' '.join(f'{ord(c):04X}' for c in m[0])}]", token) for token in tokens]
    cut = [t if len(t) <= LONGEST_TOKEN else f"{t[: LONGEST_TOKEN - 1]}…" for t in tokens]
    return [_in_visual_order(token) for token in cut], families


def _warn_of_missing(characters: set[str]) -> None:
    if not characters:
        return
    _warned.update(characters)
    some = " ".join(sorted(characters)[:5])
    logger.warning(
        "No installed font has %d of the characters (%s%s): the picture shows their code points. Install a font "
        "that has them, such as one of https://fonts.google.com/noto.",
        len(characters), some, " …" if len(characters) > 5 else "",
    )  # fmt: skip


def font_families(text: str) -> tuple[list[str], set[str]]:
    """Installed font families that together have all characters of a text, and the characters that none has."""
    from matplotlib import font_manager

    default = font_manager.findfont(font_manager.FontProperties())
    families, missing = ["sans-serif"], {c for c in text if c not in JOINERS} - _characters(default)
    if not missing:
        return families, missing
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):  # installed since matplotlib looked last
        try:
            font_manager.fontManager.addfont(path)
        except Exception as error:  # FreeType has many kinds for files that it cannot read
            logger.debug("%s cannot be read: %s", path, error)
    fonts = [font for font in font_manager.fontManager.ttflist if not NO_FONTS.search(font.name)]
    # Upright sans-serif letters of normal weight before others.
    for font in sorted(fonts, key=lambda f: (f.style != "normal", f.weight != 400, "Sans" not in f.name, f.name)):
        found = missing & _characters(font.fname)
        if found:
            families.append(font.name)
            missing -= found
        if not missing:
            break
    return families, missing


@functools.cache
def _characters(path: str) -> frozenset[str]:
    """The characters that a font has; none where it cannot be read."""
    from matplotlib.font_manager import get_font

    try:
        return frozenset(map(chr, get_font(path).get_charmap()))
    except Exception:
        return frozenset()


def _in_visual_order(text: str) -> str:
    """Text of a right-to-left script with its letters joined and from left to right, for a matplotlib before 3.11,
    which places characters one after the other.
    """
    if not _has_right_to_left(text) or _matplotlib_shapes():
        return text
    try:
        from arabic_reshaper import reshape
        from bidi.algorithm import get_display
    except ImportError:
        _warn_of_order()
        return text
    return get_display(reshape(text))


def _has_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def _matplotlib_shapes() -> bool:
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


@functools.cache
def _warn_of_order() -> None:
    logger.warning(
        "This matplotlib draws right-to-left text from left to right, with its letters not joined. Install matplotlib "
        "3.11 or later, or: pip install python-bidi arabic-reshaper"
    )

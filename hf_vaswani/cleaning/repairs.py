"""Repairs of texts: what was damaged on its way becomes what it was, before anything is left out."""

import html
import re
import unicodedata
from collections.abc import Callable, Collection

from ..text.inputs import looks_like_mojibake
from ..text.normalization import invisible_normalizer

ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
TAG = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|br|code|div|em|font|h[1-6]|hr|i|img|li|nobr|ol|p|pre|q|s|small|span|strong|sub|sup"
    r"|table|tbody|td|th|thead|tr|tt|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_visible = invisible_normalizer()


def _encoding(text: str) -> str:
    import ftfy

    return ftfy.fix_encoding(text) if looks_like_mojibake(text) else text


def _entities(text: str) -> str:
    # Some text was escaped twice, as in &amp;quot;
    for _ in range(2):
        text = html.unescape(text) if ENTITY.search(text) else text
    return text


# Name → what it does. They are made in this order.
REPAIRS: dict[str, Callable[[str], str]] = {
    "encoding": _encoding,
    "entities": _entities,
    "tags": lambda text: TAG.sub(" ", text) if "<" in text else text,
    "invisible": _visible.normalize_str,
    "unicode": lambda text: unicodedata.normalize("NFC", text),
}
# Made after these, as they depend on other texts of the same source, and on those that are spelled as wanted.
TOKENIZED, SPELLING = "tokenized", "spelling"
# Made if it is asked for, once the languages of the sides are known.
SIDES = "sides"
NAMES = (*REPAIRS, TOKENIZED, SPELLING)
SHOWN = {
    "encoding": "UTF-8 that was read in another encoding",
    "entities": "HTML entities",
    "tags": "HTML tags",
    "invisible": "control characters, invisible characters, and repeated spaces",
    "unicode": "decomposed letters (made NFC)",
    TOKENIZED: "tokenized text, with spaces before its marks or within words",
    SIDES: "sides that were in each other's language",
    SPELLING: "letters or apostrophes that the sample of the spelling writes otherwise",
}


def repaired(text: str, names: Collection[str] = REPAIRS.keys()) -> tuple[str, list[str]]:
    """A text after repairs, and the names of those that have changed it."""
    made = []
    for name in names:
        before, text = text, REPAIRS[name](text)
        if text != before:
            made.append(name)
    return text, made

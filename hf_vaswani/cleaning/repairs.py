"""Repairs of texts: what was damaged on its way becomes what it was, before anything is left out."""

import html
import re
import unicodedata
from collections.abc import Callable, Collection
from html.entities import html5

from ..text.normalization import invisible_normalizer

ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
# Tags within a line of text join what is around them, all others part it.
INLINE = "a|abbr|b|big|code|em|font|i|nobr|q|s|small|span|strong|sub|sup|tt|u"
PARTING = "blockquote|br|div|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul"
ATTRIBUTES = r"(?:\s[^<>]*=[^<>]*)?\s*/?"
TAG = re.compile(rf"</?(?:({INLINE})|{PARTING}){ATTRIBUTES}>", re.IGNORECASE)
_visible = invisible_normalizer()


def _encoding(text: str) -> str:
    import ftfy

    return ftfy.fix_encoding(text)


def _entities(text: str) -> str:
    # Some text was escaped twice, as in &amp;quot;
    for _ in range(2):
        text = ENTITY.sub(_character, text)
    return text


def _character(entity: re.Match) -> str:
    """What an entity stands for; itself if it is none, but an address has `&copy=1` or `&parameter;` in it."""
    return html.unescape(entity[0]) if entity[0][1] == "#" or entity[0][1:] in html5 else entity[0]


def _without_tags(text: str) -> str:
    return TAG.sub(lambda tag: "" if tag[1] else " ", text)


# Name → what it does. They are made in this order.
REPAIRS: dict[str, Callable[[str], str]] = {
    "encoding": _encoding,
    "entities": _entities,
    "tags": _without_tags,
    "invisible": _visible.normalize_str,
    "unicode": lambda text: unicodedata.normalize("NFC", text),
}
# Made after these, as they depend on other texts of the same source, and on those that are spelled as wanted.
TOKENIZED, SPELLING = "tokenized", "spelling"
# Made if it is asked for, once the languages of the sides are known.
SIDES = "sides"
NAMES = (*REPAIRS, TOKENIZED, SPELLING)
SHOWN = {
    "encoding": "text that was read in another encoding",
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

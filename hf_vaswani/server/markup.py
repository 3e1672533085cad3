"""Finds the text in HTML and XML. Everything else stays as it is, byte for byte."""

import html
import re
from collections.abc import Collection, Sequence
from html.parser import HTMLParser

# Elements of HTML whose text is not for readers.
UNTRANSLATED = ("script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-fA-F]+|\w+);")
XML_TAG = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<[?!/]?[A-Za-z_][^<>]*>|<\?.*?\?>", re.DOTALL)
TAG_NAME = re.compile(r"</?\s*([^\s/>]+)")


class Markup:
    """A document cut into text and markup.

    Args:
        content: HTML or XML, a whole document or a part of one.
        is_html: whether elements that HTML does not close, and those without text for readers, are known.
        ignored: names of elements whose text stays as it is.

    Attributes:
        texts: what is to be translated, with entities replaced by their characters and without outer whitespace.
    """

    def __init__(self, content: str, is_html: bool = True, ignored: Collection[str] = ()):
        self._pieces = _html_pieces(content) if is_html else _xml_pieces(content)
        self._numbers: list[int] = []
        self.texts: list[str] = []
        kept: list[str] = []  # elements around the current piece, from the outermost one that stays as it is
        skipped = {name.lower() for name in ignored} | (set(UNTRANSLATED) if is_html else set())
        for number, (piece, is_tag) in enumerate(self._pieces):
            if is_tag:
                _follow(piece, kept, skipped, is_html)
            elif not kept and any(map(str.isalnum, piece)):
                self._numbers.append(number)
                self.texts.append(" ".join(html.unescape(piece).split()))

    def fill(self, translations: Sequence[str]) -> str:
        """The document with translations, one for each of `texts`, in place of its text."""
        pieces = [piece for piece, _ in self._pieces]
        for number, translation in zip(self._numbers, translations):
            text = pieces[number]
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            pieces[number] = text[:start] + html.escape(translation, quote=False) + text[end:]
        return "".join(pieces)


def _follow(tag: str, kept: list[str], skipped: set[str], is_html: bool) -> None:
    """Keep track of the elements whose text stays as it is."""
    match = TAG_NAME.match(tag)
    if not match:  # a comment or a declaration
        return
    name = match[1].lower()
    if tag.startswith("</"):
        if name in kept:
            del kept[len(kept) - 1 - kept[::-1].index(name) :]
    elif tag.rstrip(">").endswith("/") or (is_html and name in VOID):
        return
    elif kept or name in skipped or _is_excluded(tag):
        kept.append(name)


def _is_excluded(tag: str) -> bool:
    attributes = tag.lower()
    return bool(re.search(r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*["'][^"']*\bnotranslate\b""", attributes))


class _Tags(HTMLParser):
    """Records where the markup of a document begins."""

    def __init__(self, content: str):
        super().__init__(convert_charrefs=False)
        self.starts = [0]
        self.offsets: list[tuple[int, bool]] = []
        for line in content.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.feed(content)
        self.close()

    def _note(self, is_tag: bool) -> None:
        line, column = self.getpos()
        self.offsets.append((self.starts[line - 1] + column, is_tag))

    def handle_starttag(self, tag, attrs):
        self._note(True)

    def handle_startendtag(self, tag, attrs):
        self._note(True)

    def handle_endtag(self, tag):
        self._note(True)

    def handle_comment(self, data):
        self._note(True)

    def handle_decl(self, decl):
        self._note(True)

    def unknown_decl(self, data):
        self._note(True)

    def handle_pi(self, data):
        self._note(True)

    def handle_data(self, data):
        self._note(False)

    def handle_entityref(self, name):
        self._note(False)

    def handle_charref(self, name):
        self._note(False)


def _html_pieces(content: str) -> list[tuple[str, bool]]:
    offsets = _Tags(content).offsets
    ends = [start for start, _ in offsets[1:]] + [len(content)]
    pieces: list[tuple[str, bool]] = [(content[: offsets[0][0]], True)] if offsets else []
    for (start, is_tag), end in zip(offsets, ends):
        if not is_tag and pieces and not pieces[-1][1]:  # text with entities is one piece
            pieces[-1] = pieces[-1][0] + content[start:end], False
        else:
            pieces.append((content[start:end], is_tag))
    return pieces or [(content, False)]


def _xml_pieces(content: str) -> list[tuple[str, bool]]:
    pieces, end = [], 0
    for match in XML_TAG.finditer(content):
        pieces += [(content[end : match.start()], False), (match.group(), True)]
        end = match.end()
    return [piece for piece in [*pieces, (content[end:], False)] if piece[0]]

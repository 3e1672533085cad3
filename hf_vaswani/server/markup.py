"""Finds the sentences in HTML and XML, and puts tags back where they were. All else stays as it is, byte for byte.

A tag within a sentence keeps its place by share of the words: after half of them, if half of the source's came before.
"""

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements of HTML whose text is not for readers.
UNTRANSLATED = ("script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "svg", "math")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
# Elements of HTML within a sentence.
INLINE = (
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "del", "dfn", "em", "font", "i", "img", "ins", "label",
    "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "wbr", *UNTRANSLATED[2:7],
)  # fmt: skip
XML_TAG = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<[?!/]?[A-Za-z_][^<>]*>|<\?.*?\?>", re.DOTALL)
TAG_NAME = re.compile(r"</?\s*([^\s/>]+)")


@dataclass(frozen=True)
class _Tag:
    """Markup within a sentence.

    Attributes:
        words: number of words before it.
        before, after: whether there is whitespace on that side of it.
        closes: whether it belongs to the words before it.
    """

    text: str
    words: int
    before: bool
    after: bool
    closes: bool


@dataclass
class _Sentence:
    """Pieces that are translated together."""

    pieces: list[tuple[str, bool]] = field(default_factory=list)  # each with whether it is a tag

    def source(self) -> tuple[str, list[_Tag]]:
        """The text without its tags, and the tags."""
        text, tags = "", []
        for number, (piece, is_tag) in enumerate(self.pieces):
            if not is_tag:
                text += html.unescape(piece)
                continue
            following = self.pieces[number + 1][0] if number + 1 < len(self.pieces) else ""
            before = not text or text[-1].isspace()
            closes = piece.startswith("</") and not before
            tags.append(_Tag(piece, len(text.split()), before, following[:1].isspace(), closes))
        return " ".join(text.split()), tags

    def fill(self, translation: str) -> str:
        """The translation with the tags in it."""
        text, tags = self.source()
        words, total = translation.split(), max(len(text.split()), 1)
        result, done = "", 0
        for tag in tags:
            place = round(tag.words * len(words) / total)
            result = _joined(result, words[done:place])
            done = max(done, place)
            is_glued = tag.closes or not result or result.endswith(">")
            result += tag.text if is_glued or not tag.before else f" {tag.text}"
            if tag.after and not tag.closes and done < len(words):
                result += " "
        return _joined(result, words[done:])


def _joined(start: str, words: Sequence[str]) -> str:
    """Append words, with a space unless an opening tag comes before them."""
    rest = html.escape(" ".join(words), quote=False)
    opens = re.search(r"<[^/!?][^<>]*[^/]>$|<\w>$", start)
    return start + (" " if start and rest and not start[-1].isspace() and not opens else "") + rest


class Markup:
    """A document cut into sentences and markup.

    Args:
        content: HTML or XML, a whole document or a part of one.
        is_html: whether the elements of HTML are known: which are within sentences, and which are not for readers.
        ignored: names of elements whose text stays as it is.
        splitting: names of elements that end a sentence, for XML.

    Attributes:
        texts: what is to be translated, without tags and outer whitespace, its entities replaced by characters.
    """

    def __init__(
        self, content: str, is_html: bool = True, ignored: Collection[str] = (), splitting: Collection[str] = ()
    ):
        pieces = _html_pieces(content) if is_html else _xml_pieces(content)
        skipped = {name.lower() for name in ignored} | (set(UNTRANSLATED) if is_html else set())
        ends = {name.lower() for name in splitting}
        self._parts: list[str | _Sentence] = []
        current: list[tuple[str, bool]] = []
        kept: list[str] = []  # elements around the current piece, from the outermost one that stays as it is
        for number, (piece, is_tag) in enumerate(pieces):
            was_kept = bool(kept)
            if is_tag:
                _follow(piece, kept, skipped, is_html)
            if was_kept or kept:
                # An element that stays as it is, with all that is in it, is a single tag.
                if was_kept and current and current[-1][1]:
                    current[-1] = current[-1][0] + piece, True
                else:
                    current.append((piece, True))
            elif is_tag and _ends_sentence(pieces, number, is_html, ends):
                self._finish(current)
                self._parts.append(piece)
                current = []
            else:
                current.append((piece, is_tag))
        self._finish(current)
        self.texts = [part.source()[0] for part in self._parts if isinstance(part, _Sentence)]

    def _finish(self, pieces: list[tuple[str, bool]]) -> None:
        """Add pieces: as a sentence those between the first and the last text, the others as they are."""
        filled = [
            n for n, (piece, is_tag) in enumerate(pieces) if not is_tag and any(map(str.isalnum, html.unescape(piece)))
        ]
        if not filled:
            self._parts += [piece for piece, _ in pieces]
            return
        # Tags around a whole sentence stay outside of it.
        first, last = filled[0], filled[-1]
        start, end = pieces[first][0], pieces[last][0]
        lead, tail = start[: len(start) - len(start.lstrip())], end[len(end.rstrip()) :]
        sentence = [*pieces[first : last + 1]]
        sentence[0] = sentence[0][0][len(lead) :], False
        sentence[-1] = sentence[-1][0][: len(sentence[-1][0]) - len(tail)], False
        self._parts += [piece for piece, _ in pieces[:first]]
        self._parts += [lead, _Sentence(sentence), tail]
        self._parts += [piece for piece, _ in pieces[last + 1 :]]

    def fill(self, translations: Sequence[str]) -> str:
        """The document with translations, one for each of `texts`, in place of its sentences."""
        rest = iter(translations)
        return "".join(part.fill(next(rest)) if isinstance(part, _Sentence) else part for part in self._parts)


def _ends_sentence(pieces: list[tuple[str, bool]], number: int, is_html: bool, splitting: set[str]) -> bool:
    """Whether the text before a tag and that after it are different sentences."""
    tag = pieces[number][0]
    match = TAG_NAME.match(tag)
    if not match:  # a comment or a declaration
        return not is_html and tag.startswith("<?")
    name = match[1].lower()
    if is_html:
        return name not in INLINE
    if name in splitting:
        return True
    # An element that begins on a line of its own, or right where another one ends, is a part of its own.
    before = next((piece for piece, _ in reversed(pieces[:number]) if piece.strip()), "")
    after = next((piece for piece, _ in pieces[number + 1 :] if piece.strip()), "")
    blank = pieces[number - 1][0] if number and not pieces[number - 1][1] else ""
    if tag.startswith("</"):
        return after.startswith("</") or (after.startswith("<") and "\n" in (pieces[number + 1][0]))
    return (before.startswith("<") and not before.startswith("</")) or (before.startswith("</") and "\n" in blank)


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

    def _note_tag(self, *_) -> None:
        self._note(True)

    def _note_text(self, *_) -> None:
        self._note(False)

    handle_starttag = handle_startendtag = handle_endtag = handle_comment = _note_tag
    handle_decl = unknown_decl = handle_pi = _note_tag
    handle_data = handle_entityref = handle_charref = _note_text


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

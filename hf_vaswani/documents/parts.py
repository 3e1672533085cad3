"""A document as parts that stay as they are, and sentences between them."""

import re
import unicodedata
from collections.abc import Callable, Sequence

from .escaping import MARKUP, Escaping
from .tag_placement import Kind, Piece, Sentence, Tag, Text, Translations, match_pairs

# Marks before and after words that belong to their sentence.
OPENING_MARKS = re.compile(r"\s*[\"'“”„‘‚«»(\[¿¡]+")
CLOSING_MARKS = re.compile(r"[.,;:!?…\"'“”‘’«»)\]。！？]+")


class Parts:
    """Parts of a document: what stays as it is, sentences, and parts with parts of their own.

    Args:
        finish: applied to what was filled.

    Attributes:
        texts: what is to be translated.
        has_tags: for each text whether there are tags in it, so that an alignment makes a difference.
    """

    def __init__(self, parts: "Sequence[str | Sentence | Parts]", finish: Callable[[str], str] = str):
        self._parts, self._finish = parts, finish
        self.texts = [text for part in parts if not isinstance(part, str) for text in part.texts]
        self.has_tags = [has_tags for part in parts if not isinstance(part, str) for has_tags in part.has_tags]

    def fill(self, translations: Translations) -> str:
        """The document with translations, one for each of `texts`, in place of its texts."""
        filled = "".join(part if isinstance(part, str) else part.fill(translations) for part in self._parts)
        return self._finish(filled) if self.texts else filled


class Builder:
    """Collects the parts of a document from its beginning to its end.

    Args:
        is_ordered: as in [`Sentence`].
    """

    def __init__(self, escaping: Escaping, is_ordered: bool = False):
        self._escaping, self._is_ordered = escaping, is_ordered
        self._parts: list[str | Sentence | Parts] = []
        self._pieces: list[Piece] = []

    def text(self, raw: str) -> None:
        """Add text of the current sentence; escapes with an unknown meaning, and of signs, are tags in it."""
        done = 0
        for match in self._escaping.escape.finditer(raw):
            character = self._escaping.decode(match[0])
            if character == match[0] or (self._escaping is MARKUP and _is_sign(character, raw, match.span())):
                self._add_text(raw[done : match.start()])
                self.tag(match[0])
                done = match.end()
        self._add_text(raw[done:])

    def _add_text(self, raw: str) -> None:
        if raw:
            self.piece(Text(raw, self._escaping.read(raw)))

    def tag(self, raw: str | Parts, kind: Kind = Kind.ALONE, name: str = "", changed: str = "") -> None:
        """Add markup within the current sentence; takes the arguments of [`Tag`]."""
        self.piece(Tag(raw, kind, name, changed))

    def piece(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def keep(self, part: str | Parts = "") -> None:
        """End the current sentence, and add something that is not part of any."""
        pieces, self._pieces = self._pieces, []
        first, last = _inner(pieces)
        if first < last:
            before, inner, after = pieces[:first], pieces[first:last], pieces[last:]
            lead, inner = _split_space(inner, self._escaping)
            self._parts += [piece.raw for piece in before]
            self._parts += [lead[0], Sentence(inner, self._escaping, self._is_ordered), lead[1]]
            self._parts += [piece.raw for piece in after]
        else:
            self._parts += [piece.raw for piece in pieces]
        if part:
            self._parts.append(part)

    def build(self, finish: Callable[[str], str] = str) -> Parts:
        """All parts so far."""
        self.keep()
        return Parts(self._parts, finish)


def _is_sign(character: str, raw: str, place: tuple[int, int]) -> bool:
    """Whether an entity in a text is a sign with a space next to it, as in "5 &lt; 6", which needs no translation.

    Many models do not know such signs, and lose them. "&" may become a word, and "&lt;" may begin one.
    """
    if not character or unicodedata.category(character[0])[0] != "S":
        return False
    sides = raw[max(place[0] - 1, 0) : place[0]], raw[place[1] : place[1] + 1]
    is_free = [not side or side.isspace() for side in sides]
    return all(is_free) if character in "<>" else any(is_free)


def has_words(text: str) -> bool:
    """Whether there is anything to translate."""
    return any(map(str.isalpha, text))


def _inner(pieces: Sequence[Piece]) -> tuple[int, int]:
    """The range of pieces from the first to the last one with words, extended to marks and to whole pairs of tags."""
    filled = [n for n, piece in enumerate(pieces) if isinstance(piece, Text) and has_words(piece.text)]
    if not filled:
        return 0, 0
    first, last = filled[0], filled[-1]
    for number in range(first - 1, -1, -1):
        if isinstance(piece := pieces[number], Text):
            first = number if OPENING_MARKS.fullmatch(piece.text) else first
            break
    for number in range(last + 1, len(pieces)):
        if isinstance(piece := pieces[number], Text):
            last = number if CLOSING_MARKS.match(piece.text) else last
            break
    # From the innermost pair to the outermost one: a range that has grown may cut another pair.
    for opening, closing in sorted(match_pairs(pieces).items(), key=lambda pair: pair[1] - pair[0]):
        is_cut = opening < first <= closing <= last or first <= opening <= last < closing
        if is_cut or (pieces[closing].changed and opening < first and last < closing):
            first, last = min(first, opening), max(last, closing)
    return first, last + 1


def _split_space(pieces: list[Piece], escaping: Escaping) -> tuple[tuple[str, str], list[Piece]]:
    """Whitespace at both ends, and the pieces without it."""
    lead = tail = ""
    if isinstance(pieces[0], Text):
        raw = pieces[0].raw
        lead = raw[: len(raw) - len(raw.lstrip())]
        pieces = [_text(raw[len(lead) :], escaping, pieces[0]), *pieces[1:]]
    if isinstance(pieces[-1], Text):
        raw = pieces[-1].raw
        tail = raw[len(raw.rstrip()) :]
        pieces = [*pieces[:-1], _text(raw[: len(raw) - len(tail)], escaping, pieces[-1])]
    return (lead, tail), pieces


def _text(raw: str, escaping: Escaping, before: Text) -> Text:
    return before if raw == before.raw else Text(raw, escaping.read(raw))

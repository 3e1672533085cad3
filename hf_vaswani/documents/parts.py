"""A document as parts that stay as they are, and sentences between them."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from ..text.keep_patterns import KINDS
from .escaping import MARKUP, Escaping
from .tag_placement import Kind, Piece, Sentence, Tag, Text, Translations, match_pairs

# Marks before and after words that belong to their sentence.
OPENING_MARKS = re.compile(r"\s*[\"'`“”„‘‚«»(\[¿¡]+")
LEADING_SPACE = re.compile(r"\s*(?:[.,;:!?]+\s+)?")
BRACKETS = ("()", "[]", "“”", "«»")
# Around a placeholder, with nothing else inside; quotation marks, unless they belong to what is before or after them.
EMPTY_PAIR = re.compile(r"\(\)|\[\]|(?<![^\s(\[])(?:''|\"\")(?!\w)")
MARKS, MOST_PAIRS = re.compile(r"[.,;:!?…]+"), 2
ADDRESS = re.compile("|".join((KINDS["url"], KINDS["email"])))
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
        self.escaping, self._is_ordered = escaping, is_ordered
        self._parts: list[str | Sentence | Parts] = []
        self._pieces: list[str | Piece] = []

    def text(self, raw: str) -> None:
        """Add text of the current sentence; escapes with an unknown meaning, and of signs, are tags in it."""
        if raw:
            self._pieces.append(raw)

    def tag(self, raw: str | Parts, kind: Kind = Kind.ALONE, name: str = "", changed: str = "") -> None:
        """Add markup within the current sentence; takes the arguments of [`Tag`]."""
        self.piece(Tag(raw, kind, name, changed))

    def piece(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def keep(self, part: str | Parts = "") -> None:
        """End the current sentence, and add something that is not part of any."""
        pieces, self._pieces = list(_divided(self._pieces, self.escaping)), []
        if not self._is_ordered:
            pieces = list(with_marks(pieces, self.escaping))
        first, last = _inner(pieces)
        if first < last:
            before, inner, after = pieces[:first], pieces[first:last], pieces[last:]
            lead, inner = _split_space(inner, self.escaping)
            self._parts += [piece.raw for piece in before]
            self._parts += [lead[0], Sentence(inner, self.escaping, self._is_ordered), lead[1]]
            self._parts += [piece.raw for piece in after]
        else:
            self._parts += [piece.raw for piece in pieces]
        if part:
            self._parts.append(part)

    def build(self, finish: Callable[[str], str] = str) -> Parts:
        """All parts so far."""
        self.keep()
        return Parts(self._parts, finish)


def _divided(pieces: Sequence[str | Piece], escaping: Escaping) -> Iterator[Piece]:
    """The pieces of a sentence, with its text in `str` divided at those escapes that are tags."""
    texts = [piece if isinstance(piece, str) else piece.text if isinstance(piece, Text) else "" for piece in pieces]
    whole, start = "".join(texts), 0
    for piece, text in zip(pieces, texts):
        if not isinstance(piece, str):
            yield piece
        else:
            done = 0
            for match in escaping.escape.finditer(piece):
                character, place = escaping.decode(match[0]), (start + match.start(), start + match.end())
                if character == match[0] or (escaping is MARKUP and _is_sign(character, whole, place)):
                    if done < match.start():
                        yield _text(piece[done : match.start()], escaping)
                    yield Tag(match[0])
                    done = match.end()
            if done < len(piece):
                yield _text(piece[done:], escaping)
        start += len(text)


def with_marks(pieces: Sequence[Piece], escaping: Escaping) -> list[Piece]:
    """The pieces, with marks around single tags as a part of them that mean nothing without them.

    These are a pair with nothing else inside, as in "({name})", and a mark after another, as in "It is: {name}, then".
    """
    found: list[Piece] = []
    first = 0  # of the single tags at the end of what was found
    for piece in pieces:
        before = found[first - 1] if first else None
        if isinstance(piece, Text) and first < len(found) and isinstance(before, Text):
            left, right = _marks_around(before.text, piece.text)
            if right:
                start = escaping.read_places(before.raw)[1][len(before.text) - left]
                end = escaping.read_places(piece.raw)[1][right]
                inside = [before.raw[start:], *(tag.raw for tag in found[first:]), piece.raw[:end]]
                is_text = all(isinstance(one, str) for one in inside)
                tag = Tag("".join(inside) if is_text else Parts(inside))
                found[first - 1 :] = [*([_cut(before, slice(start), escaping)] if start else []), tag]
                piece = _cut(piece, slice(end, None), escaping)
                first = len(found) - 1
        found += [piece] if not isinstance(piece, Text) or piece.raw or piece.text else []
        if not isinstance(piece, Tag) or piece.kind is not Kind.ALONE or piece.changed:
            first = len(found)
    return found


def _marks_around(before: str, after: str) -> tuple[int, int]:
    """How many characters at the end of a text and at the start of the next one belong to what is between them."""
    first, last, count = before[-MOST_PAIRS - 1 :], after[: MOST_PAIRS + 1], 0
    while count < min(MOST_PAIRS, len(first)):
        if not EMPTY_PAIR.match(first[: len(first) - count] + last[count:], len(first) - count - 1):
            break
        count += 1
    outside = before[: len(before) - count]
    mark = MARKS.match(after, count) if MARKS.fullmatch(outside.rstrip()[-1:]) and outside[-1].isspace() else None
    return count, mark.end() if mark else count


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
    """Whether there is anything to translate, besides web and mail addresses."""
    return any(map(str.isalpha, ADDRESS.sub("", text)))


def _inner(pieces: Sequence[Piece]) -> tuple[int, int]:
    """The range of pieces with words and numbers, extended to marks and to whole pairs of tags and brackets."""
    texts = {n: piece.text for n, piece in enumerate(pieces) if isinstance(piece, Text) and piece.text.strip()}
    if not has_words("".join(texts.values())):
        return 0, 0
    filled = [n for n, text in texts.items() if any(c.isalnum() or unicodedata.category(c) == "Sc" for c in text)]
    first, last = filled[0], filled[-1]
    before, after = [n for n in texts if n < first], [n for n in texts if n > last]
    first = before[-1] if before and OPENING_MARKS.fullmatch(texts[before[-1]]) else first
    last = after[0] if after and CLOSING_MARKS.match(texts[after[0]]) else last
    for opening, closing in BRACKETS:
        inside = "".join(text for n, text in texts.items() if first <= n <= last)
        missing = inside.count(opening) - inside.count(closing)
        if missing > 0:
            last = next((n for n in after if n > last and closing in texts[n]), last)
        elif missing < 0:
            first = next((n for n in reversed(before) if n < first and opening in texts[n]), first)
    if first and isinstance(piece := pieces[first - 1], Text) and piece.is_access_mark:
        first -= 1
    # From the innermost pair to the outermost one: a range that has grown may cut another pair.
    for opening, closing in sorted(match_pairs(pieces).items(), key=lambda pair: pair[1] - pair[0]):
        is_cut = opening < first <= closing <= last or first <= opening <= last < closing
        if is_cut or (pieces[closing].changed and opening < first and last < closing):
            first, last = min(first, opening), max(last, closing)
    return first, last + 1


def _split_space(pieces: list[Piece], escaping: Escaping) -> tuple[tuple[str, str], list[Piece]]:
    """Whitespace at both ends, with a mark of what is before, as in "{name}: text", and the pieces without it."""
    lead = tail = ""
    if isinstance(pieces[0], Text):
        text, places = escaping.read_places(pieces[0].raw)
        start = places[LEADING_SPACE.match(text).end()]
        lead, pieces = pieces[0].raw[:start], [_cut(pieces[0], slice(start, None), escaping), *pieces[1:]]
    if isinstance(pieces[-1], Text):
        text, places = escaping.read_places(pieces[-1].raw)
        end = places[len(text.rstrip())]
        tail, pieces = pieces[-1].raw[end:], [*pieces[:-1], _cut(pieces[-1], slice(end), escaping)]
    return (lead, tail), pieces


def _cut(piece: Text, part: slice, escaping: Escaping) -> Text:
    raw = piece.raw[part]
    return piece if raw == piece.raw else _text(raw, escaping)


def _text(raw: str, escaping: Escaping) -> Text:
    return Text(raw, escaping.read(raw))

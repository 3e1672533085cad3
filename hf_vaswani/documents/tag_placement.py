"""A text with markup inside: the text alone is translated, then the markup is put where it belongs.

A pair of tags goes around the translations of the words that it encloses, any other tag after the translation of the
word before it: by a word alignment where there is one, else around the same words where both texts have them, such as
names, else by share of the words, sentence by sentence. Pairs stay nested, and each tag comes once.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Protocol

from ..core.sentence_splitting import split_sentences
from ..text.keep_patterns import find_kept, kind_patterns
from ..text.words import SPACELESS, Span, word_spans
from .escaping import Escaping

# Pairs of a source and a target word, by their numbers in `word_spans` of both texts.
Alignment = Collection[tuple[int, int]]
# The translations of texts in their order, each with its alignment.
Translations = Iterator[tuple[str, Alignment | None]]

SPACES, NO_SPACE = re.compile(r"[ \t\r\n\f]+"), re.compile(r"[^ \t\r\n\f]")
# Marks around what is between spaces.
OPENING, CLOSING = "\"'“„‘‚«¿¡", ".,;:!?…\"'“”‘’»"
CLOSING_MARK = re.compile(r"[.,;:!?…)\]}，。、；：！？）」』】]")
OPENING_BRACKET = re.compile(r"[(\[{]")
LINE_END = re.compile(rf"\s|[{SPACELESS}]")  # where a line may end, within or next to what is between two words
LINE_BREAK = re.compile(r"\s+|\\N")
LETTER = re.compile(r"\w")
WITH_SPACES = re.compile(rf"[^\W{SPACELESS}]")  # letters and digits of scripts with spaces between words
DEEPEST = 64  # pairs in pairs
MOST_WORK = 50_000  # tags times words of a text, beyond which tags keep their share of the words
SHARE_WEIGHT = 0.3  # of a word's place in its sentence, where links say 1: many are wrong in a weak model
NO_WORD = 1000  # what a pair costs that has no words left
SWAP_GAIN = 1.5  # the evidence that tags need to leave the source's order: more than one linked word


class InnerTexts(Protocol):
    """Texts within a tag, such as a footnote's."""

    texts: list[str]
    has_tags: list[bool]

    def fill(self, translations: Translations) -> str: ...


class Kind(Enum):
    """What a tag does: opens or closes a pair, stands alone, or takes the place of a space."""

    OPEN, CLOSE, ALONE, BREAK = range(4)


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """Text of the original, and what it means.

    Attributes:
        is_access_mark: it marks the next letter as a key to press, as in `_Open`, and is no text.
    """

    raw: str
    text: str
    is_access_mark: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Tag:
    """Markup within a text.

    Attributes:
        raw: as it is in the original, or what has further texts inside.
        name: what the tags of a pair have in common.
        changed: what it is instead where the text has changed, if that is not the same.
    """

    raw: str | InnerTexts
    kind: Kind = Kind.ALONE
    name: str = ""
    changed: str = ""


Piece = Text | Tag


@dataclass(eq=False, slots=True)
class _Node:
    """A tag that stands alone, or a pair with what is inside."""

    tag: "_Placed"
    closing: "_Placed | None" = None
    children: "list[_Node]" = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class _Placed:
    """A tag, where it is in the text, and whether there is whitespace right before and after it.

    Attributes:
        left, right: the characters before and after it, and after other tags next to it; "" at an end.
    """

    tag: Tag
    offset: int
    before: bool = False
    after: bool = False
    left: str = ""
    right: str = ""

    def is_apart_before(self, last: str) -> bool:
        """Whether there is a space before it, after some character of the translation."""
        is_attached = LETTER.match(self.left) or CLOSING_MARK.match(self.left)
        return not is_attached and bool(WITH_SPACES.match(last) or CLOSING_MARK.match(last))

    def is_apart_from(self, single: "_Placed") -> bool:
        """Whether there is a space between another tag that stands alone and it."""
        return self.offset != single.offset and not (LETTER.match(single.right) or LETTER.match(self.left))

    def is_apart_after(self, following: str) -> bool:
        """Whether there is a space after it, before some character of the translation."""
        is_attached = LETTER.match(self.right) or following == self.right
        return not is_attached and bool(WITH_SPACES.match(following) or OPENING_BRACKET.match(following))


NO_TAGS = _Node(_Placed(Tag(""), 0))


class Sentence:
    """Pieces that are translated together.

    Args:
        is_ordered: the order of tags must stay, since one is not complete without the others, and they show nothing.

    Attributes:
        text: what is to be translated; runs of whitespace are single spaces.
    """

    def __init__(self, pieces: Sequence[Piece], escaping: Escaping, is_ordered: bool = False):
        self.pieces, is_whole = _simplified(pieces)
        self._escaping = escaping
        self.text, self._tags = _without_tags(self.pieces)
        self._root = NO_TAGS
        if self._tags:
            self._root = _Node(_Placed(Tag(""), 0))
            _nest(self._tags, self._root)
        self._has_runs, self._is_ordered = is_ordered, is_ordered or not is_whole
        mark = next((n for n, piece in enumerate(pieces) if isinstance(piece, Text) and piece.is_access_mark), None)
        # The mark of an access key, and the letter after it.
        self._access_key = None if mark is None else (pieces[mark].raw, pieces[mark + 1].text[:1])

    @property
    def texts(self) -> list[str]:
        """The text, and those inside of tags."""
        return [self.text, *(text for inner in self._inner_texts() for text in inner.texts)]

    @property
    def has_tags(self) -> list[bool]:
        """For each of the texts whether an alignment would make a difference."""
        return [bool(self._tags), *(has_tags for inner in self._inner_texts() for has_tags in inner.has_tags)]

    def _inner_texts(self) -> Iterator[InnerTexts]:
        return (piece.raw for piece in self.pieces if isinstance(piece, Tag) and not isinstance(piece.raw, str))

    def _write(self, text: str, start: int, end: int) -> str:
        """Part of a translation as the format writes it, with the mark of an access key."""
        place = self._access_place(text)
        if place is None or not start <= place < end:
            return text[start:end].translate(self._table)
        parts = text[start:place].translate(self._table), text[place:end].translate(self._table)
        return self._access_key[0].join(parts)

    def _access_place(self, text: str) -> int | None:
        """Where the mark of an access key goes: before its letter, best at the start of a word, or any letter."""
        if self._access_key is None:
            return None
        letter = re.escape(self._access_key[1])
        patterns = (rf"(?<![^\W_]){letter}", letter, r"[^\W_]")
        found = next(filter(None, (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)), None)
        return found.start() if found else 0

    @cached_property
    def _table(self) -> dict[int, str]:
        return self._escaping.table([piece.raw for piece in self.pieces if isinstance(piece, Text)])

    def fill(self, translations: Translations) -> str:
        """The translation with the tags in it, as the format writes it; text without one, or the same, stays."""
        translation, alignment = next(translations)
        raw = {piece: piece.raw if isinstance(piece.raw, str) else piece.raw.fill(translations)
               for piece in self.pieces}  # fmt: skip
        if not translation.strip() or SPACES.sub(" ", translation).strip(" ") == self.text:
            return "".join(raw.values())
        if not self._tags:
            return self._write(translation, 0, len(translation))
        raw |= {piece: piece.changed for piece in self.pieces if isinstance(piece, Tag) and piece.changed}
        return self._join(translation, _arranged(self, translation, alignment), raw)

    def _join(self, translation: str, tags: list[tuple[_Placed, int]], raw: dict[Piece, str]) -> str:
        result: list[str] = []  # none of which is empty
        done, is_space_due, last = 0, False, ""  # the last character if it is not of a tag
        single: _Placed | None = None  # the tag that stands alone, with no more than closing ones after it
        line_break = ""  # which waits for what is on the next line, as no line may be empty

        def is_apart() -> bool:
            """Whether there is a space before the next character of the translation, after the tags so far."""
            following = translation[done : done + 1]
            if is_space_due and not following.isspace():
                mark = self.text[single.offset : single.offset + 2].strip()[:1] if single else ""
                if following == mark or not CLOSING_MARK.match(following):
                    return True
            return single is not None and not self._has_runs and single.is_apart_after(following)

        def add(end: int) -> None:
            nonlocal done, is_space_due, last, single
            if done < end:
                add_break()
                result.extend([" "] if is_apart() else [])
                result.append(self._write(translation, done, end))
                is_space_due, single, last = False, None, translation[end - 1]
            done = max(done, end)

        def add_break() -> None:
            nonlocal line_break
            result.extend([line_break] if line_break and result else [])
            line_break = ""

        for placed, offset in tags:
            kind, offset = placed.tag.kind, max(offset, done)
            # Whitespace stays on the side of a tag where it was; without a side, it is outside of a pair.
            if kind is Kind.BREAK or (placed.before and kind is not Kind.OPEN):
                while translation.startswith(" ", offset):
                    offset += 1
            elif kind is Kind.OPEN and placed.after and not placed.before:
                while offset > done and translation[offset - 1] == " ":
                    offset -= 1
            add(offset)
            if kind is Kind.BREAK:
                while result and not result[-1].strip(" "):
                    result.pop()
                result[-1:] = [one.rstrip(" ") for one in result[-1:]]
                is_space_due, single, last = False, None, ""
                if raw[placed.tag].isspace():
                    line_break = raw[placed.tag]
                else:
                    result += [" "] if placed.before and result else []
                    result.append(raw[placed.tag])
                continue
            if kind is Kind.CLOSE:  # the space before the single tag in front of it has been used
                is_space_due |= single is not None and placed.after
                if placed.before and placed.offset == len(self.text) and done == len(translation):
                    result.append(" ")
            else:
                add_break()
                if kind is Kind.ALONE:
                    is_due = placed.before and not OPENING_BRACKET.match(last)
                    if not self._has_runs:
                        is_due |= placed.is_apart_before(last) or (single is not None and placed.is_apart_from(single))
                else:
                    is_due = is_apart() and (placed.after or not placed.right.isspace())
                if (is_space_due or is_due) and result and not result[-1][-1].isspace():
                    result.append(" ")
                is_space_due = placed.after and (kind is Kind.ALONE or placed.offset == offset == 0)
                single = placed if kind is Kind.ALONE else None
                last = ""
            result += [raw[placed.tag]] if raw[placed.tag] else []
        add(len(translation))
        return "".join(result)


def _without_tags(pieces: Sequence[Piece]) -> tuple[str, list[_Placed]]:
    """The text of pieces, and the tags with their places in it."""
    parts: list[str] = []
    length, is_space_due = 0, False  # a space is added as soon as something follows it
    tags, was_spaced = [], False
    lefts, rights = _characters_before(pieces, -1), _characters_before(pieces[::-1], 0)[::-1]
    for number, piece in enumerate(pieces):
        if isinstance(piece, Text):
            more = SPACES.sub(" ", piece.text)
            if was_spaced and CLOSING_MARK.match(more):  # no space where there was "Hello {name}!"
                is_space_due = False
            was_spaced = was_spaced and not more
            content = more.strip(" ")
            is_space_due |= more.startswith(" ")
            if content:
                parts.append(f" {content}" if is_space_due and length else content)
                length += len(parts[-1])
                is_space_due = more.endswith(" ")
            continue
        is_space_due |= piece.kind is Kind.BREAK
        is_spaced, is_followed = (_touches_space(pieces, number, step) for step in (-1, 1))
        tags.append(_Placed(piece, length, is_spaced, is_followed, lefts[number], rights[number]))
        was_spaced |= piece.kind is Kind.ALONE and is_spaced
    return "".join(parts), tags


def _touches_space(pieces: Sequence[Piece], number: int, step: int) -> bool:
    """Whether the text right before (-1) or after (1) a tag has a space there."""
    neighbor = pieces[number + step] if 0 <= number + step < len(pieces) else None
    return isinstance(neighbor, Text) and bool(SPACES.match(neighbor.text[-1:] if step < 0 else neighbor.text[:1]))


def _characters_before(pieces: Sequence[Piece], end: int) -> list[str]:
    """For each piece, the character at the end (-1) or start (0) of the text that is last before it."""
    characters = [""]
    for piece in pieces:
        text = piece.text if isinstance(piece, Text) else " " if piece.kind is Kind.BREAK else ""
        characters.append(text[end] if text else characters[-1])
    return characters[:-1]


def _simplified(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], bool]:
    """The pieces, with pairs around no text and unpaired tags as single ones, and whether none is unpaired."""
    pairs = match_pairs(pieces)
    paired = {*pairs, *pairs.values()}
    simple: list[Piece] = []
    is_whole, number = True, 0
    while number < len(pieces):
        piece, end = pieces[number], pairs.get(number, number)
        inside = pieces[number : end + 1] if end > number and _is_simple(pieces[number + 1]) else []
        if inside and all(map(_is_simple, inside)):
            has_space = any(one.text if isinstance(one, Text) else one.kind is Kind.BREAK for one in inside)
            has_space = has_space and not (_touches_space(pieces, number, -1) or _touches_space(pieces, end, 1))
            piece = Tag("".join(one.raw for one in inside), Kind.BREAK if has_space else Kind.ALONE)
            number = end
        elif isinstance(piece, Tag) and piece.kind in (Kind.OPEN, Kind.CLOSE) and number not in paired:
            piece, is_whole = replace(piece, kind=Kind.ALONE), False
        simple.append(piece)
        number += 1
    return simple, is_whole


def _is_simple(piece: Piece) -> bool:
    """Whether it is a tag with nothing to translate, or spaces."""
    if isinstance(piece, Text):
        return not piece.text.strip() and not piece.is_access_mark
    return isinstance(piece.raw, str) and not piece.changed


def _nest(tags: Sequence[_Placed], root: _Node) -> None:
    """Arrange tags as a tree."""
    pairs = match_pairs([placed.tag for placed in tags])
    path, ends = [root], [-1]
    for number, placed in enumerate(tags):
        if number == ends[-1]:
            path.pop().closing = placed
            ends.pop()
            continue
        node = _Node(placed)
        path[-1].children.append(node)
        if number in pairs:
            path.append(node)
            ends.append(pairs[number])


def match_pairs(pieces: Sequence[Piece]) -> dict[int, int]:
    """The number of each opening tag that has a closing one, with the number of that; pairs are nested."""
    pairs: dict[int, int] = {}
    path: list[tuple[int, str]] = []
    open_names: Counter[str] = Counter()
    for number, piece in enumerate(pieces):
        if not isinstance(piece, Tag):
            continue
        if piece.kind is Kind.OPEN and len(path) < DEEPEST:
            path.append((number, piece.name))
            open_names[piece.name] += 1
        elif piece.kind is Kind.CLOSE and open_names[piece.name]:
            opening, name = path.pop()
            while name != piece.name:
                open_names[name] -= 1
                opening, name = path.pop()
            open_names[name] -= 1
            pairs[opening] = number
    return pairs


class _Words:
    """The words of a text; marks count only where they are outside of all words.

    Args:
        whole: parts of the text that are words, whatever they are made of, from left to right.

    Attributes:
        marks: where each character is that is not a space.
        spans: the spans of words with letters or digits, and of whole parts.
        numbers: the number in `spans` of each word of `word_spans` that is one of them, or part of one.
    """

    def __init__(self, text: str, whole: Sequence[Span]):
        self.text = text
        self.marks = [match.start() for match in NO_SPACE.finditer(text)]
        self.spans, self.numbers = [], {}
        at = 0
        for number, (start, end) in enumerate(word_spans(text)):
            while at < len(whole) and whole[at][1] <= start:
                at += 1
            is_part = at < len(whole) and whole[at][0] < end
            if is_part:
                start, end = min(start, whole[at][0]), max(end, whole[at][1])
            if self.spans and start < self.spans[-1][1]:
                self.spans[-1] = self.spans[-1][0], max(end, self.spans[-1][1])
            elif is_part or text[start].isalnum():
                self.spans.append((start, end))
            else:
                continue
            self.numbers[number] = len(self.spans) - 1
        self.starts, self.ends = [start for start, _ in self.spans], [end for _, end in self.spans]

    def gap(self, place: int) -> Span:
        """Start and end of what is between two words."""
        start = self.ends[place - 1] if place else 0
        return start, self.starts[place] if place < len(self.spans) else len(self.text)

    def marks_between(self, start: int, end: int) -> range:
        """The numbers in `marks` of those in a part of the text."""
        return range(bisect_left(self.marks, start), bisect_left(self.marks, end))

    def sentence_ends(self) -> list[int]:
        """The number of words up to the end of each sentence."""
        ends, at = [0], 0
        for sentence in split_sentences(self.text):
            at += len(sentence)
            ends.append(bisect_right(self.ends, at))
        return ends


def _arranged(sentence: Sentence, translation: str, alignment: Alignment | None) -> list[tuple[_Placed, int]]:
    """The tags in the order of the translation, each with its place there."""
    texts = sentence.text, translation
    source, target = map(_Words, texts, _whole_parts(sentence, translation))
    is_large = len(sentence._tags) * len(target.spans) > MOST_WORK
    first, last = (source.starts[0], source.ends[-1]) if source.spans else (0, 0)
    breaks = [one for one in sentence._tags if one.tag.kind is Kind.BREAK and first < one.offset < last]
    projection = _Projection(source, target, alignment or (), is_large, breaks)
    ordered: list[tuple[_Placed, int]] = []

    def place(children: list[_Node], low: int, high: int) -> None:
        ranges: list[tuple[_Node, Span]] = []
        for node in children:
            first = last = bisect_right(source.ends, node.tag.offset)
            if node.closing:
                last = max(first, bisect_right(source.starts, node.closing.offset - 1))
            ranges.append((node, (first, last)))
        for node, (start, end) in projection.places(ranges, low, high, sentence._is_ordered):
            ordered.append((node.tag, _offset(source, target, node.tag, start)))
            if node.closing:
                place(node.children, start, end)
                ordered.append((node.closing, _offset(source, target, node.closing, end)))

    place(sentence._root.children, 0, len(target.spans))
    return ordered


def _whole_parts(sentence: Sentence, translation: str) -> list[list[Span]]:
    """Addresses, placeholders and the like that both texts have, into which no tag may go: their places in each."""
    texts, places = (sentence.text, translation), {placed.offset for placed in sentence._tags}
    found = [_runs(text) for text in texts]
    broken = {sentence.text[start:end] for start, end in found[0] if not places.isdisjoint(range(start + 1, end))}
    source, target = ({text[start:end] for start, end in spans} for text, spans in zip(texts, found))
    common = (source & target) - broken
    whole: list[list[Span]] = [[], []]
    for own, text, spans in zip(whole, texts, found):
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            if text[start:end] in common and (not own or own[-1][1] <= start):
                own.append((start, end))
    return whole


def _runs(text: str) -> list[Span]:
    """Addresses, placeholders and the like, and what is of several words without a space."""
    spans = find_kept(text, kind_patterns())
    for match in re.finditer(r"\S+", text):
        run = match[0].rstrip(CLOSING)
        start = match.start() + len(run) - len(run.lstrip(OPENING))
        is_word = any(map(str.isalnum, run))
        if is_word and len(word_spans(text[start : match.start() + len(run)])) > 1:
            spans.append((start, match.start() + len(run)))
    return spans


class _Projection:
    """The evidence for each place in the target, for a range of source words: links, equal words, and shares.

    Args:
        alignment: links, which may be wrong here and there.
        is_large: tags keep their share of the words.
        breaks: tags that take the place of a space between words.
    """

    def __init__(
        self, source: _Words, target: _Words, alignment: Alignment, is_large: bool, breaks: Sequence[_Placed]
    ):
        self.length, self._is_large = len(target.spans), is_large
        self._same = _same_words(source, target)
        self._links: list[set[int]] = [set() for _ in target.spans]  # of each target word
        for one, other in alignment:
            if one in source.numbers and other in target.numbers:
                self._links[target.numbers[other]].add(source.numbers[one])
        if alignment:
            self._links = [links - self._same.keys() for links in self._links]
            for one, other in self._same.items():
                self._links[other] = {one}
        self._xs, self._ys = source.sentence_ends(), target.sentence_ends()
        if len(self._xs) != len(self._ys):
            self._xs, self._ys = [0, len(source.spans)], [0, self.length]
        self._breaks = dict(self._break_places(source, target, breaks)) if breaks else {}

    def _break_places(
        self, source: _Words, target: _Words, breaks: Sequence[_Placed]
    ) -> Iterator[tuple[_Placed, int]]:
        """Where breaks go: each with words before and after it as far as they suffice, line breaks by their share."""
        gaps = [target.gap(number) for number in range(1, self.length)]
        free = [n for n, (start, end) in enumerate(gaps, 1) if LINE_END.search(target.text, start - 1, end + 1)]
        first = 0  # of the free places that are left
        for left, placed in zip(range(len(breaks) - 1, -1, -1), breaks):
            last = min(max(len(free) - left, first + 1), len(free))
            place = bisect_right(source.ends, placed.offset)
            has_share = self._is_large or LINE_BREAK.fullmatch(placed.tag.raw)
            best = self._share(place) if has_share else self._gap(place, placed)
            at = bisect_left(free, best, first, last)
            near = range(max(at - 1, first), min(at + 1, last))
            nearest = min(near, key=lambda number: abs(free[number] - best), default=None)
            yield placed, self.length if nearest is None else free[nearest]
            first = len(free) if nearest is None else nearest + 1

    def places(
        self, ranges: "list[tuple[_Node, Span]]", low: int, high: int, is_ordered: bool
    ) -> "list[tuple[_Node, Span]]":
        """Where in the target the tags around ranges of source words go, from left to right, none within another."""
        if self._is_large:
            places = []
            for node, (first, last) in ranges:
                low = min(max(self._breaks.get(node.tag, self._share(first)), low), high)
                places.append((node, (low, low := min(max(self._share(last), low), high))))
            return places
        items = [
            (node, self._of_words(first, last) if first < last else self._of_gap(first, node.tag), first < last)
            for node, (first, last) in ranges
        ]
        best = _best_places([item[1:] for item in items], low, high)
        if not is_ordered and len(items) > 1:
            moved = sorted(items, key=lambda item: _best_places([item[1:]], low, high)[0][0])
            others = _best_places([item[1:] for item in moved], low, high)
            # Translations rarely change the order of tags; links that are wrong do.
            if _gain(moved, others) > _gain(items, best) + SWAP_GAIN:
                items, best = moved, others
        return [(node, place) for (node, _, _), place in zip(items, best)]

    def _of_words(self, first: int, last: int) -> list[float]:
        """For each target word, from -1 to 1, the evidence that it translates one of these source words."""
        inside = range(first, last)
        found = sorted(self._same[number] for number in inside if number in self._same)
        if found and len(found) == last - first == found[-1] - found[0] + 1:
            start, end = found[0], found[-1] + 1
        else:
            start, end = self._share(first), self._share(last)
            if start == end:  # too few words for all
                start, end = (start, end + 1) if end < self.length else (max(start - 1, 0), end)
        shares = [1.0 if start <= number < end else -1.0 for number in range(self.length)]
        if not any(one in inside for links in self._links for one in links):
            return shares
        # A word that is linked to both sides counts as inside, one without links as outside; both next to nothing.
        linked = (sum(one in inside for one in links) / len(links) if links else 0.45 for links in self._links)
        return [(2 * one - 1 or 0.1) + SHARE_WEIGHT * share for one, share in zip(linked, shares)]

    def _of_gap(self, place: int, tag: _Placed) -> list[float]:
        """For each place between target words, the evidence that it is the one before this source word."""
        if tag in self._breaks:
            return [-abs(number - self._breaks[tag]) for number in range(self.length + 1)]
        best = self._gap(place, tag)
        return [-abs(number - best) / (self.length + 1) for number in range(self.length + 1)]

    def _gap(self, place: int, tag: _Placed) -> int:
        """The place between target words for a tag that stands before this source word."""
        before = [place - 1 in links for links in self._links]
        after = [place in links for links in self._links]
        is_attached = LETTER.match(tag.right) and not LETTER.match(tag.left)  # to the word after it
        if any(before) and not (is_attached and any(after)):
            return self.length - before[::-1].index(True)
        return after.index(True) if any(after) else self._share(place)

    def _share(self, place: int) -> int:
        """The place that has as large a share of its sentence before it."""
        xs, ys = self._xs, self._ys
        part = min(max(bisect_right(xs, place) - 1, 0), len(xs) - 2)
        length = xs[part + 1] - xs[part]
        return ys[part] + int((place - xs[part]) / length * (ys[part + 1] - ys[part]) + 0.5) if length else ys[part]


def _gain(items: "Sequence[tuple[_Node, Sequence[float], bool]]", places: Sequence[Span]) -> float:
    """The sum of gains of items at places, as in [`_best_places`]."""
    gains = (
        gains[start] if not is_range else sum(gains[start:end]) if start < end else -NO_WORD
        for (_, gains, is_range), (start, end) in zip(items, places)
    )
    return sum(gains)


def _best_places(items: Sequence[tuple[Sequence[float], bool]], low: int, high: int) -> list[Span]:
    """Places for items from left to right, none within another, with the largest sum of gains.

    Args:
        items: for a range of words, the gain of each word, and `True`; for a gap between words, the gain of each
            place.
        low, high: where the places begin and end.
    """
    best = [0.0] * (high - low + 1)  # of all items so far up to each place
    choices: list[list[Span]] = []
    for gains, is_range in items:
        before, best, chosen = best, [], []
        inside, start = -math.inf, low  # the range that ends here
        for place in range(low, high + 1):
            if not is_range:
                value, span = before[place - low] + gains[place], (place, place)
            else:
                value, span = before[place - low] - NO_WORD, (place, place)
                if place > low:
                    if before[place - 1 - low] >= inside:
                        inside, start = before[place - 1 - low], place - 1
                    inside += gains[place - 1]
                    if inside > value:
                        value, span = inside, (start, place)
            if best and best[-1] >= value:
                value, span = best[-1], chosen[-1]
            best.append(value)
            chosen.append(span)
        choices.append(chosen)
    places, place = [], high
    for chosen in reversed(choices):
        places.append(chosen[place - low])
        place = places[-1][0]
    return places[::-1]


def _same_words(source: _Words, target: _Words) -> dict[int, int]:
    """The numbers of words that both texts have once, such as names, in the source and in the target."""
    one, other = ([words.text[start:end] for start, end in words.spans] for words in (source, target))
    counts, others = Counter(one), Counter(other)
    numbers = {word: number for number, word in enumerate(other)}
    return {n: numbers[word] for n, word in enumerate(one) if counts[word] == others[word] == 1}


def _offset(source: _Words, target: _Words, placed: _Placed, place: int) -> int:
    """Where between two target words a tag goes: past as many marks as in the source."""
    is_opening = placed.tag.kind is Kind.OPEN
    start, end = source.gap(bisect_right(source.ends, placed.offset))
    first, last = target.gap(place)
    marks = target.marks_between(first, last)
    if is_opening and last < len(target.text):
        inside = min(len(source.marks_between(placed.offset, end)), len(marks))
        return target.marks[marks[-inside]] if inside else last
    if placed.tag.kind is Kind.BREAK and place in (0, len(target.spans)):  # no line has only marks
        return len(target.text) if place else 0
    outside = min(len(source.marks_between(start, placed.offset)), len(marks))
    if outside and not is_opening and not source.marks_between(placed.offset, end):
        outside = len(marks)  # all of them
    if is_opening:
        return target.marks[marks[outside]] if outside < len(marks) else last
    offset = target.marks[marks[outside - 1]] + 1 if outside else first
    if placed.tag.kind is Kind.BREAK:  # not between a word and a mark
        offset = next((at for at in range(offset, last) if target.text[at].isspace()), last)
    return offset

"""Files of word processors and presentations: zip archives of XML, of which only the text of paragraphs changes.

Runs of a paragraph, such as bold words, are tags within its text. In Microsoft's formats a run is never inside of
another: the markup between two texts closes one and opens the next, so that its order stays. The format that most of
the text has counts as plain, and others travel with their words.
"""

import copy
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence

from ..errors import InputError, reason
from .encoding import decode
from .markup import Token, check_xml, xml_tokens
from .parts import Builder, Parts
from .sentences import Kind, Translations
from .spelling import MARKUP

MOST_BYTES, MOST_RATIO, SMALL = 512 * 1024 * 1024, 250, 8 * 1024 * 1024
OLD_BINARY = b"\xd0\xcf\x11\xe0"  # also of files with a password
WORD = r'xmlns(?::(\w+))?="http://[^"]*/wordprocessingml/(?:2006/)?main"'
DRAWING = r'xmlns(?::(\w+))?="http://[^"]*/drawingml/(?:2006/)?main"'
# The parts of each format with text, and one that every file has.
PARTS = {
    "docx": r"word/(document|(header|footer)\d*|footnotes|endnotes|(diagrams|charts)/[^/]+)\.xml",
    "pptx": r"ppt/(slides/slide\d+|notesSlides/notesSlide\d+|(diagrams|charts)/[^/]+)\.xml",
    "odt": r"(content|styles)\.xml",  # styles have headers and footers
    "odp": r"content\.xml",
}
MAIN = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml"}
# Fields whose result is text of their own; the results of others are made by the program.
TEXT_FIELD = re.compile(r"\b(HYPERLINK|TOC)\b")
BREAKS = ("br", "cr", "tab", "ptab")
# Elements of OpenDocument around text; others within a paragraph are made by the program.
AROUND_TEXT = ("text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base", "text:bookmark-ref")
ODF_BREAKS = ("text:tab", "text:line-break")
# How a run looks: the tags that say so.
Look = tuple[str, ...]
ODF_PARAGRAPHS, ODF_DELETED = ("text:p", "text:h"), "text:tracked-changes"


def read_office(kind: str, content: bytes) -> tuple[list[Parts], Callable[[Translations], bytes]]:
    """The parts of an office file with text, and what writes it with translations.

    Args:
        kind: docx, pptx, odt, or odp.

    Raises:
        InputError: it is not such a file, it has a password, it is larger inside than can be read, or its XML is
            damaged.
    """
    contents, comment = _unpack(kind, content)
    read = _read_odf if kind in ("odt", "odp") else _read_ooxml
    wanted, main = PARTS[kind], MAIN.get(kind, "content.xml")
    if not any(member.filename == main for member in contents):
        raise InputError(f"It is not {kind}: it lacks {main}. Choose another format.")
    parts: dict[str, tuple[Parts, Callable[[str], bytes]]] = {}
    for member, xml in contents.items():
        if re.fullmatch(wanted, member.filename):
            text, encode = decode(xml, "xml")
            check_xml(text, f"{member.filename}: ")
            parts[member.filename] = read(text), encode

    def write(translations: Translations) -> bytes:
        filled = {name: encode(found.fill(translations)) for name, (found, encode) in parts.items()}
        new = {member: filled.get(member.filename, old) for member, old in contents.items()}
        if new == contents:
            return content
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as target:
            target.comment = comment
            for member, data in new.items():
                entry = copy.copy(member)
                target.writestr(entry, data)
                entry.external_attr = member.external_attr  # which writing replaces if it is 0
        return buffer.getvalue()

    return [found for found, _ in parts.values()], write


def _unpack(kind: str, content: bytes) -> tuple[dict[zipfile.ZipInfo, bytes], bytes]:
    """The members of an archive with what they contain, and its comment."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            _check_size(members)
            return {member: archive.read(member) for member in members}, archive.comment
    except InputError:
        raise
    except Exception as error:  # of many types, if it is damaged
        if content.startswith(OLD_BINARY):
            raise InputError(f"It has a password, or an older format. Save it as {kind} without a password.") from None
        raise InputError(f"It is not {kind}, or damaged ({reason(error)}). Save it again.") from None


def _check_size(members: Sequence[zipfile.ZipInfo]) -> None:
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise InputError(f"Unpacked, it has {total >> 20:,} MB, but at most {MOST_BYTES >> 20} MB are read. Split it.")
    for member in members:
        if member.flag_bits & 1:
            raise InputError(f"{member.filename} in it has a password. Save the file without one.")
        if member.file_size > max(SMALL, MOST_RATIO * member.compress_size):
            ratio = member.file_size // max(member.compress_size, 1)
            raise InputError(
                f"{member.filename} in it is {ratio} times as large unpacked, and not read: such files are made to "
                "fill the memory. Save the document again with the program that made it."
            )


class _Paragraphs:
    """The paragraphs of a part, and paragraphs inside of these, such as those of text boxes and notes."""

    def __init__(self, text: str):
        self.tokens = xml_tokens(text)
        self.ends: dict[int, int] = {}
        path: list[int] = []
        for number, token in enumerate(self.tokens):
            if token.kind is Kind.OPEN:
                path.append(number)
            elif token.kind is Kind.CLOSE:
                self.ends[path.pop()] = number

    def is_paragraph(self, token: Token) -> bool:
        raise NotImplementedError

    def read_paragraph(self, start: int, end: int) -> Parts:
        raise NotImplementedError

    def raw(self, start: int, end: int) -> str:
        return "".join(token.raw for token in self.tokens[start:end])

    def read(self, start: int, end: int) -> Parts:
        """All paragraphs in a range of tokens, and what is between them."""
        parts: list[str | Parts] = []
        number = start
        while number < end:
            token = self.tokens[number]
            parts.append(token.raw)
            number += 1
            if token.kind is Kind.OPEN and self.is_paragraph(token):
                close = self.ends[number - 1]
                parts.append(self.read_paragraph(number, close))
                number = close
            elif token.kind is Kind.OPEN and token.name == ODF_DELETED:
                close = self.ends[number - 1]
                parts.append(self.raw(number, close))
                number = close
        return Parts(parts)

    def has_paragraph(self, start: int, end: int) -> bool:
        return any(token.kind is Kind.OPEN and self.is_paragraph(token) for token in self.tokens[start:end])


class _Ooxml(_Paragraphs):
    """A part with WordprocessingML or DrawingML, by the prefix of its elements."""

    def __init__(self, text: str, prefix: str, is_word: bool):
        super().__init__(text)
        self.prefix, self.is_word = f"{prefix}:" if prefix else "", is_word

    def local(self, token: Token) -> str:
        """The name of an element of the namespace."""
        return token.name.removeprefix(self.prefix) if token.name.startswith(self.prefix) else ""

    def is_paragraph(self, token: Token) -> bool:
        return self.local(token) == "p"

    def read_paragraph(self, start: int, end: int) -> Parts:
        found, rest = self._texts(start, end)
        sizes: Counter[Look] = Counter()
        for _, text, look in found:
            sizes[look] += len(text.strip())
        plain = sizes.most_common(1)[0][0] if sizes else ()
        builder, is_special = Builder(MARKUP, is_ordered=True), False

        def mark(kind: Kind) -> None:
            """One end of a special text where no markup is between it and another text."""
            if is_special:
                builder.tag("", kind, "run")

        for number, (markup, text, look) in enumerate(found):
            was_special, raw = is_special, self._part(markup)
            if number == 0 or self._has_break(markup):
                mark(Kind.CLOSE)
                builder.keep(raw)
                is_special = look != plain
                mark(Kind.OPEN)
            else:
                is_special = look != plain
                kind = Kind.ALONE if is_special == was_special else Kind.OPEN if is_special else Kind.CLOSE
                builder.tag(raw, kind, "run" if kind is not Kind.ALONE else "")
            builder.text(text)
        mark(Kind.CLOSE)
        builder.keep(self._part(rest))
        original, tag = self.raw(start, end), f"<{self.prefix}t>"
        spaced = re.compile(rf"{tag}(?=\s|[^<]*\s<)")

        def keep_spaces(filled: str) -> str:
            """Word drops spaces at the ends of a text without this attribute."""
            is_kept = not self.is_word or filled == original
            return filled if is_kept else spaced.sub(f'{tag[:-1]} xml:space="preserve">', filled)

        return builder.build(keep_spaces)

    def _texts(self, start: int, end: int) -> "tuple[list[tuple[list[Token | Parts], str, Look]], list[Token | Parts]]":
        """The texts of a paragraph, each with the markup before it and the look of its run; and what is at the end."""
        found: list[tuple[list[Token | Parts], str, Look]] = []
        markup: list[Token | Parts] = []
        field_ends = self._field_ends(start, end)
        number, look, path = start, (), []
        while number < end:
            token, name = self.tokens[number], self.local(self.tokens[number])
            close = self.ends.get(number, number)
            markup.append(token)
            number += 1
            if token.kind is Kind.OPEN and name == "p":
                markup.append(self.read_paragraph(number, close))
                number = close
            elif token.kind is Kind.OPEN and name in ("fldSimple", "fld") and not TEXT_FIELD.search(token.raw):
                markup += self.tokens[number:close]
                number = close
            elif number - 1 in field_ends:
                last = field_ends[number - 1]
                markup += self.tokens[number:last]
                number = last
            elif token.kind is Kind.OPEN and name == "t":
                found.append((markup, self.raw(number, close), look))
                markup, number = [], close
            elif name == "r" and token.kind is Kind.OPEN:
                look = self._look(number, path)
            elif token.kind is Kind.OPEN and name in ("hyperlink", "ins", "sdt"):
                path.append(token.raw)
            elif token.kind is Kind.CLOSE and name in ("hyperlink", "ins", "sdt") and path:
                path.pop()
        return found, markup

    def _look(self, number: int, path: Sequence[str]) -> Look:
        """How a run looks, of which a number is that of the token after its beginning."""
        if self.local(self.tokens[number]) != "rPr":
            return tuple(path)
        close = self.ends.get(number, number)
        ignored = ("lang", "noProof", "proofErr", "rPr")
        inner = [t.raw for t in self.tokens[number:close] if self.local(t) not in ignored]
        # Attributes of slides that say nothing of the look.
        attributes = re.sub(r'\s(?:lang|altLang|dirty|err|smtClean|noProof)="[^"]*"', "", self.tokens[number].raw)
        return (*path, attributes.rstrip("/>"), *inner)

    def _field_ends(self, start: int, end: int) -> dict[int, int]:
        """Where the fields of a paragraph begin whose result the program makes, and the number after their last token."""
        ends: dict[int, int] = {}
        path: list[tuple[int, list[str], bool]] = []  # open fields: begin, instruction, whether the result is text
        for number in range(start, end):
            token = self.tokens[number]
            if token.kind is None and path:
                path[-1][1].append(token.raw)
            elif self.local(token) != "fldChar" or token.kind is Kind.CLOSE:
                continue
            elif '"begin"' in token.raw:
                path.append((number, [], False))
            elif '"separate"' in token.raw and path:
                begin, instruction, _ = path.pop()
                path.append((begin, [], bool(TEXT_FIELD.search("".join(instruction)))))
            elif '"end"' in token.raw and path:
                begin, _, is_text = path.pop()
                if not is_text:
                    ends[begin] = number + 1
        return ends

    def _has_break(self, markup: "Sequence[Token | Parts]") -> bool:
        return any(isinstance(one, Token) and self.local(one) in BREAKS for one in markup)

    def _part(self, markup: "Sequence[Token | Parts]") -> str | Parts:
        parts = [one.raw if isinstance(one, Token) else one for one in markup]
        return "".join(parts) if all(isinstance(one, str) for one in parts) else Parts(parts)


def _read_ooxml(text: str) -> Parts:
    match = re.search(WORD, text) or re.search(DRAWING, text)
    if match is None:
        return Parts([text])
    reader = _Ooxml(text, match[1] or "", match.re.pattern == WORD)
    return reader.read(0, len(reader.tokens))


class _OpenDocument(_Paragraphs):
    """A part of an OpenDocument file."""

    def is_paragraph(self, token: Token) -> bool:
        return token.name in ODF_PARAGRAPHS

    def read_paragraph(self, start: int, end: int) -> Parts:
        builder = Builder(MARKUP)
        number = start
        while number < end:
            token = self.tokens[number]
            close = self.ends.get(number, number)
            number += 1
            if token.kind is None:
                builder.text(token.raw)
            elif token.name in ODF_BREAKS or self.is_paragraph(token):
                builder.keep(token.raw)
            elif token.name in AROUND_TEXT or token.kind is not Kind.OPEN:
                builder.tag(token.raw, token.kind, token.name)
            else:
                builder.tag(self.read(number - 1, close + 1))
                number = close + 1
        return builder.build()


def _read_odf(text: str) -> Parts:
    reader = _OpenDocument(text)
    return reader.read(0, len(reader.tokens))

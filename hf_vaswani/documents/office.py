"""Files of word processors and presentations: zip archives of XML, in which only the text of paragraphs changes.

Runs of a paragraph, such as bold words, are tags within its text. In Microsoft's formats a run is never inside of
another: the markup between two texts closes one and opens the next, so that its order stays. The format that most of
the text has counts as plain, and others travel with their words.
"""

import copy
import io
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import InputError, reason
from .encoding import decode
from .escaping import MARKUP, NEVER, QUOTED
from .limits import MOST_UNPACKED, MOST_XML, check_marks, count_marks
from .markup import Token, check_xml, xml_tokens
from .parts import Builder, Parts
from .strings import add_message
from .tag_placement import Kind, Text, Translations

MOST_RATIO, SMALL = 250, 8 * 1024 * 1024
OLD_BINARY = b"\xd0\xcf\x11\xe0"  # also of files with a password
WORD = r'xmlns(?::(\w+))?="http://[^"]*/wordprocessingml/(?:2006/)?main"'
SHEET = r'xmlns(?::(\w+))?="http://[^"]*/spreadsheetml/(?:2006/)?main"'
DRAWING = r'xmlns(?::(\w+))?="http://[^"]*/drawingml/(?:2006/)?main"'
CHART = r'xmlns(?::(\w+))?="http://[^"]*/drawingml/(?:2006/)?chart"'
ODF_PARTS = r"((Object[^/]*/)*content|styles)\.xml"  # objects are charts, styles have headers and footers
# The parts of each format with text, and one that every file has.
PARTS = {
    "docx": r"word/(document|(header|footer)\d*|footnotes|endnotes|(diagrams|charts)/[^/]+)\.xml",
    "pptx": r"ppt/((slides/slide|notesSlides/notesSlide|(slide|notes|handout)Masters/\w+Master"
    r"|slideLayouts/slideLayout)\d+|(diagrams|charts)/[^/]+)\.xml",
    "odt": ODF_PARTS,
    "odp": ODF_PARTS,
    "xlsx": r"xl/(sharedStrings|(drawings|diagrams|charts)/[^/]+)\.xml",
    "ods": ODF_PARTS,
}
MAIN = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}
# The types of these parts, by which those with other names are found, and of the main one.
TYPES = {
    "docx": r"application/vnd\.\S*word\S*\.(main|header|footer|footnotes|endnotes)\+xml",
    "pptx": r"application/vnd\.\S*presentationml\.(slide|notesSlide|(slide|notes|handout)Master|slideLayout)\+xml",
    "xlsx": r"application/vnd\.\S*spreadsheetml\.sharedStrings\+xml",
}
MAIN_TYPES = {
    "docx": r"application/vnd\.\S*word\S*\.main\+xml",
    "pptx": r"application/vnd\.\S*(presentationml|powerpoint)\S*\.main\+xml",
    "xlsx": r"application/vnd\.\S*(spreadsheetml|excel)\S*\.main\+xml",
}
# What files in OpenDocument's formats, and some others, say of themselves in their first part.
MIMETYPES = {
    "odt": b"application/vnd.oasis.opendocument.text",
    "odp": b"application/vnd.oasis.opendocument.presentation",
    "ods": b"application/vnd.oasis.opendocument.spreadsheet",
    "odg": b"application/vnd.oasis.opendocument.graphics",
    "epub": b"application/epub+zip",
}
# Few sheets have texts of their own, which one part usually has for all of them.
SHEETS, TABLES = re.compile(r"xl/worksheets/[^/]+\.xml"), re.compile(r"xl/tables/[^/]+\.xml")
OWN_TEXT = re.compile(rb'\st="inlineStr"|\st="str"[^<>]*>\s*<(?:\w+:)?v>')
TEXT_CELL = re.compile(r'\st="str"')
CONTENT_TYPES, MANIFEST = "[Content_Types].xml", "META-INF/manifest.xml"
# Fields whose result is text of their own; the results of others are made by the program.
TEXT_FIELD = re.compile(r"\b(HYPERLINK|TOC)\b")
BREAKS, HYPHEN = ("br", "cr", "tab", "ptab"), "noBreakHyphen"
DEEPEST = 30  # paragraphs in paragraphs
# Parts with prompts, and the shapes that these are in.
TEMPLATE = re.compile(r"<(p:(?:sld|notes|handout)Master|p:sldLayout|office:document-styles)\s")
SHAPES = ("p:sp", "draw:frame")
NUMBERS = "numCache"  # of a chart
FILE_NAME = re.compile(r"^[A-Za-z]:\\|\.(?:bmp|emf|gif|jpe?g|pdf|png|svg|tiff?|wmf)$", re.IGNORECASE)
DESCRIBED, DESCRIPTION = (
    ("docPr", "cNvPr"),
    re.compile(r'\sdescr="([^"]+)"'),
)  # pictures, for those who do not see them
NO_TEXT_CELL = re.compile(r'\s(?:table:formula=|office:value-type="(?!string"))')
COLUMN, LINES = re.compile(r'<(?:\w+:)?tableColumn\s[^<>]*?\bname="([^"]*)"'), re.compile(r"\n+|[^\n]+")
# What is around text that no longer stands there, or stands above other text.
HIDDEN = ("moveFrom", "rt", "rPh")
# Elements of OpenDocument around text; others within a paragraph are made by the program.
AROUND_TEXT = ("text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base", "text:bookmark-ref")
ODF_BREAKS, ODF_SPACE = ("text:tab", "text:line-break"), "text:s"
# How a run looks: a number for the elements around it, and its own tags that say so.
Look = tuple[int | str, ...]
# Paragraphs, and the titles and descriptions of pictures.
ODF_PARAGRAPHS, ODF_DELETED = ("text:p", "text:h", "svg:title", "svg:desc"), "text:tracked-changes"


def read_office(kind: str, content: bytes) -> tuple[list[Parts], Callable[[Translations], bytes]]:
    """The parts of an office file with text, and what writes it with translations.

    Args:
        kind: one of `OFFICE`.

    Raises:
        InputError: it is not such a file, it has a password, it is larger inside than can be read, or its XML is
            damaged.
    """
    members, comment, contents, column_names = _unpack(kind, content)
    read = _read_odf if kind in ("odt", "odp", "ods") else partial(_read_ooxml, column_names=column_names)
    texts = {member: decode(xml, "xml") for member, xml in contents.items()}
    check_marks(sum(count_marks(kind, text) for text, _ in texts.values()))
    parts: dict[zipfile.ZipInfo, tuple[Parts, Callable[[str], bytes]]] = {}
    for member, (text, encode) in texts.items():
        check_xml(text, f"{member.filename}: ")
        parts[member] = read(text), encode

    def write(translations: Translations) -> bytes:
        filled = {member: encode(found.fill(translations)) for member, (found, encode) in parts.items()}
        if filled == contents:
            return content
        buffer = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(buffer, "w") as target:
            target.comment = comment
            for member in members:
                entry = copy.copy(member)
                if member in filled or member.is_dir():
                    target.writestr(entry, filled.get(member, b""))
                else:
                    with source.open(member) as old, target.open(entry, "w") as new:
                        shutil.copyfileobj(old, new)
                entry.external_attr = member.external_attr  # which writing replaces if it is 0
        return buffer.getvalue()

    return [found for found, _ in parts.values()], write


def _unpack(
    kind: str, content: bytes
) -> tuple[list[zipfile.ZipInfo], bytes, dict[zipfile.ZipInfo, bytes], frozenset[str]]:
    """The members of an archive, its comment, what the members contain that are read, and the names of columns."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members, types = archive.infolist(), _types(archive)
            found, main = _kind(archive, types), MAIN.get(kind, "content.xml")
            if found not in (None, kind):
                raise InputError(f"It is {found}, not {kind}. Choose another format or file.")
            if main not in archive.namelist() and (found is None or kind not in MAIN):
                raise InputError(f"It is not {kind}: it lacks {main}. Choose another format or file.")
            wanted = [
                member
                for member in members
                if re.fullmatch(PARTS[kind], member.filename)
                or re.fullmatch(TYPES.get(kind, NEVER), types.get(member.filename, ""))
            ]
            tables = [member for member in members if TABLES.fullmatch(member.filename)]
            sheets = [
                member for member in members if SHEETS.fullmatch(member.filename) and _is_small(member, MOST_XML)
            ]
            _check_size(members, [*wanted, *tables])
            if kind == "xlsx":
                wanted += [member for member in sheets if OWN_TEXT.search(archive.read(member))]
                _check_size(members, wanted)
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} does not have its checksum")
            names = (
                name for table in tables for name in COLUMN.findall(archive.read(table).decode("utf-8", "replace"))
            )
            contents = {member: archive.read(member) for member in wanted}
            return members, archive.comment, contents, frozenset(map(MARKUP.read, names))
    except InputError:
        raise
    except Exception as error:  # of many types, if it is damaged
        if content.startswith(OLD_BINARY):
            raise InputError(f"It has a password, or an older format. Save it as {kind} without a password.") from None
        is_said = isinstance(error, zipfile.BadZipFile | NotImplementedError)
        what = reason(error) if is_said else "what is in it cannot be unpacked"
        raise InputError(f"It is not {kind}, or damaged ({what}). Save it again.") from None


def _kind(archive: zipfile.ZipFile, types: dict[str, str]) -> str | None:
    """The kind of an office file or the like by its content, or `None`."""
    members = {member.filename: member for member in archive.infolist()}
    is_named = "mimetype" in members and _is_small(members["mimetype"])
    mimetype = archive.read("mimetype") if is_named else b""
    for kind, start in MIMETYPES.items():
        if mimetype.startswith(start):
            return kind
    for kind, main in MAIN.items():
        if main in members or any(re.fullmatch(MAIN_TYPES[kind], types.get(name, "")) for name in members):
            return kind
    return None


def _types(archive: zipfile.ZipFile) -> dict[str, str]:
    """The types of the parts of a file in one of Microsoft's formats.

    Raises:
        InputError: it is a file in OpenDocument's format with a password.
    """
    members = {member.filename: member for member in archive.infolist() if _is_small(member)}
    if MANIFEST in members and b"encryption-data" in archive.read(MANIFEST):
        raise InputError("It has a password. Save it without one.")
    listed = archive.read(CONTENT_TYPES).decode("utf-8", "replace") if CONTENT_TYPES in members else ""
    tags = re.findall(r"<Override\s[^<>]*>", listed)
    found = ((re.search(r'PartName="/([^"]*)"', tag), re.search(r'ContentType="([^"]*)"', tag)) for tag in tags)
    return {name[1]: kind[1] for name, kind in found if name and kind}


def _is_small(member: zipfile.ZipInfo, most: int = SMALL) -> bool:
    return member.file_size <= most and not member.flag_bits & 1


def _check_size(members: Sequence[zipfile.ZipInfo], wanted: Sequence[zipfile.ZipInfo]) -> None:
    for those, what, most in ((members, "it", MOST_UNPACKED), (wanted, "its text", MOST_XML)):
        total = sum(member.file_size for member in those)
        if total > most:
            raise InputError(
                f"Unpacked, {what} has {total >> 20:,} MB, but at most {most >> 20} MB are read. Split it."
            )
    for member in members:
        if member.flag_bits & 1:
            raise InputError(f"{member.filename} in it has a password. Save the file without one.")
    for member in wanted:
        if member.file_size > max(SMALL, MOST_RATIO * member.compress_size):
            ratio = member.file_size // max(member.compress_size, 1)
            raise InputError(
                f"{member.filename} in it is {ratio} times as large unpacked, and not read: such files are made to "
                "fill the memory. Save the document again with the program that made it."
            )


class _Paragraphs:
    """The paragraphs of a part, and paragraphs inside them, such as in text boxes and notes."""

    def __init__(self, text: str):
        self.tokens, self.depth = xml_tokens(text), 0
        self.is_template = bool(TEMPLATE.search(text))
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
        """One paragraph, and those inside of it.

        Raises:
            InputError: they are nested too deeply.
        """
        self.depth += 1
        if self.depth > DEEPEST:
            raise InputError(f"More than {DEEPEST} paragraphs are inside of each other. Simplify it.")
        parts = self.read_content(start, end)
        self.depth -= 1
        return parts

    def read_content(self, start: int, end: int) -> Parts:
        raise NotImplementedError

    def raw(self, start: int, end: int) -> str:
        return "".join(token.raw for token in self.tokens[start:end])

    def read(self, start: int, end: int) -> Parts:
        """All paragraphs in a range of tokens, and what is between them."""
        parts: list[str | Parts] = []
        number = start
        while number < end:
            token = self.tokens[number]
            parts.append(self.part(token))
            number += 1
            if token.kind is Kind.OPEN and self.is_paragraph(token):
                close = self.ends[number - 1]
                parts.append(self.read_paragraph(number, close))
                number = close
            elif token.kind is Kind.OPEN and (token.name == ODF_DELETED or self.is_generated(number - 1)):
                close = self.ends[number - 1]
                parts.append(self.raw(number, close))
                number = close
        return Parts(parts)

    def part(self, token: Token) -> str | Parts:
        """A token, with the description of a picture."""
        found = DESCRIPTION.search(token.raw) if token.name.endswith(DESCRIBED) else None
        if not found or FILE_NAME.search(found[1]):
            return token.raw
        builder = Builder(QUOTED['"'])
        add_message(builder, found[1])
        return Parts([token.raw[: found.start(1)], builder.build(), token.raw[found.end(1) :]])

    def is_generated(self, number: int) -> bool:
        """Whether it is what no one reads: a value that is no text, or a shape of a master that shows on no slide."""
        if self.tokens[number].name.endswith(NUMBERS):
            return True
        if self.tokens[number].name == "table:table-cell":
            return bool(NO_TEXT_CELL.search(self.tokens[number].raw))
        if not self.is_template or self.tokens[number].name not in SHAPES:
            return False
        shape = self.tokens[number : self.ends[number]]
        return any(token.name == "p:ph" or "presentation:class=" in token.raw for token in shape)

    def has_paragraph(self, start: int, end: int) -> bool:
        return any(token.kind is Kind.OPEN and self.is_paragraph(token) for token in self.tokens[start:end])


class _Ooxml(_Paragraphs):
    """A part with WordprocessingML, SpreadsheetML, or DrawingML, by the prefix of its elements.

    Args:
        fixed: texts that stay.
    """

    def __init__(self, text: str, prefix: str, namespace: str, fixed: frozenset[str] = frozenset()):
        super().__init__(text)
        self.prefix, self.keeps_space = f"{prefix}:" if prefix else "", namespace != DRAWING
        chart = re.search(CHART, text)  # whose names are points of a cache
        other = f"{chart[1]}:" if chart and chart[1] else ""
        self.prefixes = sorted({self.prefix, other} if chart else {self.prefix}, key=len, reverse=True)
        self.paragraphs = ("si", "is") if namespace == SHEET else ("p", "pt") if chart else ("p",)
        self.texts = ("t", "v") if chart or namespace == SHEET else ("t",)
        self.has_line_breaks, self.fixed = namespace == SHEET, fixed

    def local(self, token: Token) -> str:
        """The name of an element of the namespace, or of charts."""
        for prefix in self.prefixes:
            if token.name.startswith(prefix):
                return token.name[len(prefix) :]
        return ""

    def is_paragraph(self, token: Token) -> bool:
        name = self.local(token)
        return name in self.paragraphs or (name == "c" and self.has_line_breaks and bool(TEXT_CELL.search(token.raw)))

    def read_content(self, start: int, end: int) -> Parts:
        found, rest = self._texts(start, end)
        if any(self.local(token) == "f" for token in self.tokens[start : start + 1]):  # a result
            return Parts([self.raw(start, end)])
        if self.fixed and MARKUP.read("".join(text for _, text, _ in found)) in self.fixed:
            return Parts([self.raw(start, end)])
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
                hyphens = [one for one in markup if isinstance(one, Token) and self.local(one) == HYPHEN]
                hyphens = hyphens if isinstance(raw, str) else []
                if hyphens:
                    builder.piece(Text("", "-" * len(hyphens)))
                changed = "".join(one.raw for one in markup if one not in hyphens) if hyphens else ""
                is_special = look != plain
                kind = Kind.ALONE if is_special == was_special else Kind.OPEN if is_special else Kind.CLOSE
                builder.tag(raw, kind, "run" if kind is not Kind.ALONE else "", changed)
            for line in LINES.findall(text) if self.has_line_breaks else [text]:
                if line.startswith("\n"):
                    mark(Kind.CLOSE)
                    builder.keep(line)
                    mark(Kind.OPEN)
                else:
                    builder.text(line)
        mark(Kind.CLOSE)
        builder.keep(self._part(rest))
        original, tag = self.raw(start, end), f"<{self.prefix}t>"
        spaced = re.compile(rf"{tag}(?=\s|[^<]*\s<)")

        def keep_spaces(filled: str) -> str:
            """Word drops spaces at the ends of a text without this attribute."""
            is_kept = not self.keeps_space or filled == original
            return filled if is_kept else spaced.sub(f'{tag[:-1]} xml:space="preserve">', filled)

        return builder.build(keep_spaces)

    def _texts(
        self, start: int, end: int
    ) -> "tuple[list[tuple[list[Token | Parts], str, Look]], list[Token | Parts]]":
        """The texts of a paragraph, each with the markup before it and the look of its run; and what is at the end."""
        found: list[tuple[list[Token | Parts], str, Look]] = []
        markup: list[Token | Parts] = []
        field_ends = self._field_ends(start, end)
        number, look = start, ()
        path: list[int] = [
            0
        ]  # of open elements that change the look, each as a number that stands for all of the path
        paths: dict[tuple[int, str], int] = {}
        while number < end:
            token, name = self.tokens[number], self.local(self.tokens[number])
            close = self.ends.get(number, number)
            markup.append(token)
            number += 1
            if token.kind is Kind.OPEN and self.is_paragraph(token):
                markup.append(self.read_paragraph(number, close))
                number = close
            elif token.kind is Kind.OPEN and self._is_hidden(token):
                markup += self.tokens[number:close]
                number = close
            elif number - 1 in field_ends:
                last = field_ends[number - 1]
                markup += self.tokens[number:last]
                number = last
            elif token.kind is Kind.OPEN and name in self.texts:
                found.append((markup, self.raw(number, close), look))
                markup, number = [], close
            elif name == "r" and token.kind is Kind.OPEN:
                look = (path[-1], *self._look(number))
            elif token.kind is Kind.OPEN and name in ("hyperlink", "ins", "sdt"):
                path.append(paths.setdefault((path[-1], token.raw), len(paths) + 1))
            elif token.kind is Kind.CLOSE and name in ("hyperlink", "ins", "sdt") and len(path) > 1:
                path.pop()
        return found, markup

    def _is_hidden(self, token: Token) -> bool:
        name = self.local(token)
        return name in HIDDEN or (name in ("fldSimple", "fld") and not TEXT_FIELD.search(token.raw))

    def _look(self, number: int) -> list[str]:
        """How a run looks, given the number of the token after its beginning."""
        if self.local(self.tokens[number]) != "rPr":
            return []
        close = self.ends.get(number, number)
        ignored = ("lang", "noProof", "proofErr", "rPr")
        inner = [t.raw for t in self.tokens[number:close] if self.local(t) not in ignored]
        # Attributes of slides that say nothing of the look.
        attributes = re.sub(r'\s(?:lang|altLang|dirty|err|smtClean|noProof)="[^"]*"', "", self.tokens[number].raw)
        return [attributes.rstrip("/>"), *inner]

    def _field_ends(self, start: int, end: int) -> dict[int, int]:
        """Where the fields of a paragraph begin whose result the program makes, and where each ends."""
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
        parts = [self.part(one) if isinstance(one, Token) else one for one in markup]
        return "".join(parts) if all(isinstance(one, str) for one in parts) else Parts(parts)


def _read_ooxml(text: str, column_names: frozenset[str]) -> Parts:
    match = re.search(WORD, text) or re.search(SHEET, text) or re.search(DRAWING, text)
    if match is None:
        return Parts([text])
    reader = _Ooxml(text, match[1] or "", match.re.pattern, column_names)
    return reader.read(0, len(reader.tokens))


class _OpenDocument(_Paragraphs):
    """A part of an OpenDocument file."""

    def is_paragraph(self, token: Token) -> bool:
        return token.name in ODF_PARAGRAPHS

    def read_content(self, start: int, end: int) -> Parts:
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
            elif token.name == ODF_SPACE:
                builder.tag(self.raw(number - 1, close + 1 if close >= number else number), Kind.BREAK)
                number = max(number, close + 1)
            elif token.name in AROUND_TEXT or token.kind is not Kind.OPEN:
                builder.tag(token.raw, token.kind, token.name)
            else:
                builder.tag(self.read(number - 1, close + 1))
                number = close + 1
        return builder.build()


def _read_odf(text: str) -> Parts:
    reader = _OpenDocument(text)
    return reader.read(0, len(reader.tokens))

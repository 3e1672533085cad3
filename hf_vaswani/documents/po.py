"""Catalogs of gettext: messages without a translation get one; comments, flags, and other translations stay."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import InputError
from .escaping import Escaping
from .parts import Builder, Parts
from .strings import add_message

LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
KEYWORD = re.compile(r"\s*(?:#~\|?\s*|#\|\s*)?(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)\s*(?=\")")
STRING = re.compile(r"\s*\"((?:[^\"\\\n]|\\.)*)\"\s*$")
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
PO = Escaping(
    re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|.)"),
    lambda escape: LETTERS.get(escape[1], escape if escape[1].isalnum() else escape[1]),
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"},
)


@dataclass
class _Field:
    """`msgid` and the like: its strings as they are in the file, and their lines."""

    keyword: str
    start: int
    lines: list[str] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)

    @property
    def raw(self) -> str:
        return "".join(self.strings)


def read_po(content: str) -> Parts:
    """A `.po` or `.pot` file. The first form of a plural comes from `msgid`, the others from `msgid_plural`.

    Raises:
        InputError: a line is not what gettext reads; the message names it.
    """
    parts: list[str | Parts] = []
    fields = list(_fields(content))
    done = 0
    source: dict[str, _Field] = {}
    forms: set[str] = set()  # of the message
    for number, one in enumerate(fields):
        if not one.keyword.startswith("msgstr"):
            source = {one.keyword: one} if one.keyword in ("msgctxt", "msgid") and "msgid" in source else source
            source[one.keyword], forms = one, set()
            continue
        if one.keyword in forms:
            line = content.count("\n", 0, one.start) + 1
            raise InputError(f"Line {line}: the message has a second {one.keyword}. Remove one of them.")
        forms.add(one.keyword)
        is_single = not any(other.keyword == "msgstr[1]" for other in fields[number : number + 2])
        plural = source.get("msgid_plural")
        of = plural if plural and (one.keyword != "msgstr[0]" or is_single) else source.get("msgid")
        if of is None or not of.raw or one.raw:
            continue
        parts += [content[done : one.start], _message(one, of)]
        done = one.start + len("".join(one.lines))
    return Parts([*parts, content[done:]])


def _message(empty: _Field, source: _Field) -> Parts:
    """A `msgstr` with the translation of a `msgid`, in as many strings."""
    builder = Builder(PO)
    add_message(builder, source.raw, marks_within="_&~")
    first = empty.lines[0]
    start, (line_end, separator) = (
        first[: first.index('"')],
        (line[len(line.rstrip()) :] for line in (first, source.lines[0])),
    )

    def finish(filled: str) -> str:
        lines = [filled]
        if len(source.strings) > 1:
            lines = ["", *re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\[^n])+$", filled)]
        return start + separator.join(f'"{line}"' for line in lines) + line_end

    parts = builder.build(finish)
    return parts if parts.texts else Parts(["".join(empty.lines)])


def _fields(content: str) -> Iterator[_Field]:
    """The fields of all entries that are not obsolete."""
    current: _Field | None = None
    start = 0
    for number, match in enumerate(LINE.finditer(content), 1):
        line, start = match[0], match.start()
        is_comment = line.lstrip().startswith("#")
        keyword = None if is_comment else KEYWORD.match(line)
        if keyword:
            if current:
                yield current
            current = _Field(keyword[1], start)
        if is_comment or not line.strip():
            if current:
                yield current
            current = None
            continue
        string = STRING.match(line, keyword.end() if keyword else 0)
        if string is None or current is None:
            raise InputError(f"Line {number}: {line.strip()[:60]} is not a line of a PO file. Correct it.")
        current.lines.append(line)
        current.strings.append(string[1])
    if current:
        yield current

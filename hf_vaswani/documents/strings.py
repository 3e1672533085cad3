"""Files of a program's messages: the values of JSON and of Java's properties, with their placeholders."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from ..errors import InputError
from .escaping import JSON, Escaping, json_escape
from .markup import add_tag
from .parts import Builder, Parts

# What programs replace, or must find again: addresses, `{{name}}` and `$t(key)` of i18next, `%{name}`, `${name}`,
# `{name}` and `{0, number}` of ICU, `%s`, `%1$s`, `%(name)s`, `%@`, entities.
KEPT = (
    r"(?P<tag></?[A-Za-z0-9][^<>]*>)|https?://[^\s<>\"\\]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w"
    r"|\{\{[^{}]*\}\}|\$t\([^()]*\)|[$%#]?\{[^{}]*\}|\[\[[^\[\]]*\]\]|&#?\w+;"
    r"|%(?:\d{1,3}\$)?(?:\([^()]*\))?[-+0#]{0,5}\d{0,9}(?:\.\d{1,9})?(?:hh|ll|[hlLqjzt])?[diouxXeEfFgGcCsSpaA@](?![a-zA-Z])"
    r"|%%"
)
# The parts of ICU's choices: `{count, plural, one {`, `} other {`, and `}}`; in them, "#" is the number.
CHOICE = r"(?P<choice>\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,[^{}]*\{)"
NEXT = r"(?P<next>\}\s*[=\w]+\s*\{)|(?P<end>\}\s*\})"
OUTSIDE, INSIDE = re.compile(rf"{CHOICE}|{KEPT}"), re.compile(rf"{CHOICE}|{NEXT}|{KEPT}|#")
JSON_TOKEN = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|[{}\[\]]')
# Not the end of an escaped backslash, as in `C:\\new`.
LINE_BREAK = re.compile(r"(?P<breaks>(?:\\n|\\r)+)|\\[^nr]")
PROPERTY = re.compile(
    r"^(?P<start>[ \t\f]*(?![#!\s])(?:[^=:\s\\]|\\(?:\r\n|[\s\S]))+[ \t\f]*(?:[=:][ \t\f]*)?)"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*)",
    re.MULTILINE,
)
# In a message with arguments, Java reads two apostrophes as one.
ARGUMENT = re.compile(r"\{\d[^{}]*\}")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def add_message(builder: Builder, raw: str) -> None:
    r"""Add a message with its placeholders, as it is in the file; `\n` separates its sentences."""
    done = 0
    for line in LINE_BREAK.finditer(raw):
        if line["breaks"]:
            _add_line(builder, raw[done : line.start()])
            builder.keep(line[0])
            done = line.end()
    _add_line(builder, raw[done:])
    builder.keep()


def _add_line(builder: Builder, raw: str) -> None:
    done = depth = 0
    while token := (INSIDE if depth else OUTSIDE).search(raw, done):
        builder.text(raw[done : token.start()])
        done = token.end()
        kind = token.lastgroup
        if kind in ("choice", "next", "end"):
            builder.keep(token[0])
            depth += {"choice": 1, "next": 0, "end": -1}[kind]
        elif kind == "tag":
            add_tag(builder, token[0])
        else:
            builder.tag(token[0])
    builder.text(raw[done:])


def read_json(content: str) -> Parts:
    """The texts in a JSON file; keys, and what describes a message under a key that begins with `@`, stay.

    Raises:
        InputError: it is not JSON.
    """
    try:
        json.loads(content)
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        raise InputError(f"Line {line}, column {column}: {getattr(error, 'msg', error)}. Correct it.") from None
    escaping = replace(JSON, unwritable=json_escape) if content.isascii() and r"\u" in content else JSON
    builder, done = Builder(escaping), 0
    for raw, start, end in _json_values(content):
        builder.keep(content[done:start])
        add_message(builder, raw)
        done = end
    builder.keep(content[done:])
    return builder.build()


def _json_values(content: str) -> Iterator[tuple[str, int, int]]:
    """The values that are strings, each with its start and end."""
    depth, skipped = 0, None
    for token in JSON_TOKEN.finditer(content):
        if token["string"] is None:
            depth += 1 if token[0] in "{[" else -1
        elif token["key"]:
            if skipped is None or depth <= skipped:
                skipped = depth if token["string"].startswith("@") else None
        elif skipped is None:
            yield token["string"], token.start() + 1, token.end() - 1


def read_properties(content: str) -> Parts:
    """A file of Java's properties."""
    escaping = Escaping(
        re.compile(r"\\u[0-9a-fA-F]{4}|\\(?:\r\n|[\r\n])[ \t\f]*|\\[\s\S]"),
        _property_decode,
        {"\\": "\\\\", "\n": "\\n", "\t": "\\t"},
        unwritable=json_escape if content.isascii() else None,
    )
    message = replace(
        escaping,
        escape=re.compile(rf"''|{escaping.escape.pattern}"),
        decode=lambda escape: "'" if escape == "''" else _property_decode(escape),
        always={**escaping.always, "'": "''"},
    )
    parts: list[str | Parts] = []
    done = 0
    for match in PROPERTY.finditer(content):
        builder = Builder(message if ARGUMENT.search(match["value"]) else escaping)
        add_message(builder, match["value"])
        parts += [content[done : match.start("value")], builder.build()]
        done = match.end()
    return Parts([*parts, content[done:]])


def _property_decode(escape: str) -> str:
    if escape.startswith(r"\u"):
        return JSON.decode(escape)
    return "" if escape[1] in "\r\n" else _LETTERS.get(escape[1], escape[1])

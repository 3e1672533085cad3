"""Files of a program's messages: values of JSON, Java's properties, and Apple's strings, with their placeholders."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from ..errors import InputError
from ..text.keep_patterns import CONVERSION, FORMAT, KINDS, PRINTED, PRINTED_BEFORE_LETTERS
from ..text.words import Span
from .escaping import JSON, Escaping, json_escape
from .markup import ADDRESS, TAG_NAME, add_tag
from .parts import Builder, Parts
from .tag_placement import Kind, Text

# What programs replace, or must find again. Each pattern begins only where a run of what it repeats begins.
KEPT = "|".join((
    KINDS["url"], ADDRESS, KINDS["email"],
    # Roles and literals of reStructuredText; the text in "`text <target>`_" is translated.
    r"(?<![\w:+.-]):[a-z][\w:+.-]*:`[^`<>]*`", r"``[^`]+``",
    r"(?P<opening>(?:(?<![\w:+.-]):[a-z][\w:+.-]*:)?`(?=[^`<>]*<[^<>`]+>`))", r"(?P<closing> ?<[^<>`]+>`_{0,2})",
    # `<b>`, `<0>`, `&lt;b&gt;`, `&nbsp;`, `[[wiki]]`.
    r"(?P<tag></?(?:[A-Za-z][^<>]*|\d+ ?/?)>)", r"&lt;(?P<escaped_tag>/?[A-Za-z](?:(?!&[lg]t;)[^<>])*)&gt;",
    r"&#?\w+;", r"\[\[[^\[\]]*\]\]",
    # `$t(key)`, `$(ARG1)`, `$name`, `$name$`, `$1`, but not the amount $10.
    r"\$t\([^()]*\)", r"\$\([^()\s]*\)", r"\$[A-Za-z_]\w*\$?", r"\$\d(?![\d.,]*\d)",
    r"%(?:\d{1,3}\$)?#@\w+@", *PRINTED, rf"%(?:\([^()]*\)|<)?{FORMAT}{CONVERSION}(?![a-zA-Z])",
    # `% d`, `%<PRId64>`, `%Y`, `%-d`, `%H%M`, `%%`, `%name%`, `%NAME`.
    r"(?<!\d)(?<!\d )% [dixXfgG](?![\w'’])", r"%<\w+>", r"(?<![\d%])(?:%[-_0^#EO]?[A-Za-z]){1,9}(?![A-Za-z%])", "%%",
    r"%[A-Za-z_](?:\w{3,}%(?![A-Z]{2})|\w{0,2}%(?![\w%@(.]))", r"%[A-Z][A-Z_]{2,}(?!\w)",
    PRINTED_BEFORE_LETTERS,
    # `%1`, `%L1`, `%1%`.
    r"(?<!_)%L?\d{1,2}(?:%(?!\d))?(?![\da-fA-F=<>!])",
    # `@name`, `__name__`, and escaped line breaks of what a program puts the message into, such as a script.
    r"(?<![\w@.])@[A-Za-z_]\w*(?:[.-]\w+)*", r"(?<!\w)__[A-Za-z]\w*__(?!\w)", r"(?<=\s)\\[nrt](?![a-z])",
))  # fmt: skip
TOKEN = re.compile(rf"{KEPT}|(?P<breaks>(?:[\n\r\t]|(?<!\s)\\[nrt](?![a-z]))+)|[$%#@]?(?P<brace>\{{)|(?P<number>#)")
# The beginning of ICU's choices and of their messages; in those of a plural, "#" is the number.
CHOICE = re.compile(r"\{\s*[\w.]+\s*,\s*(?P<kind>plural|selectordinal|select|choice)\s*,\s*(?:offset:\d+)?")
BRANCH, LIMIT = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{"), re.compile(r"\s*-?[\d.∞]+\s*[#<≤]")
BRACE, TAG = re.compile(r"[{}]"), re.compile(r"(?:<|&lt;)(/?)([A-Za-z]\w*)")
GLUE = re.compile(r"[!-~]{1,3}")  # between two placeholders, as in `{width}x{height}`
# A unit right after a placeholder, which goes where that goes.
UNIT = re.compile(r"(?:px|pts?|em|[kKMGT]i?[Bb]|[µnm]?s|[cmk]?m|h|x)(?![^\W_])|%(?![\w%({\[$@])")
# Values that are no text: dates, colors, hashes, constants, names in programs, paths, addresses.
CODE = re.compile(
    r"\d[\d:.TZ+-]*|#[0-9a-fA-F]{3,8}|(?=\D*\d)(?:[0-9a-f]{8,}|[0-9A-F]{8,}|[0-9a-fA-F]{4,}(?:-[0-9a-fA-F]{4,})+)"
    r"|true|false|null|undefined|[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+"
    r"|[A-Za-z_$][\w$-]+(?:[.:/][\w$-]+)*\.[A-Za-z_$][\w$-]+|(?:\.{0,2}|~|[A-Za-z]:)[/\\][\w.$@~/\\-]+"
    r"|[a-z][a-z0-9+.-]*://\S+|[@?][\w:+]+/[\w.]+|(?:application|audio|font|image|text|video)/[\w.+-]+",
    re.ASCII,
)
# In such a value, as in `{name}.csv` and `${build.dir}/classes`.
VARIABLE, FOLDER = (
    re.compile(r"[$#%]?\{[^{}\s]*\}|%\(\w+\)[sd]|%(?:\d\$)?[sd@]|%\d(?![\da-fA-F])"),
    re.compile(r"\$\{\w+[.-][^{}\s]*\}/"),
)
# Marks of access keys, and what is before them at the start of a word.
ACCESS_MARKS, BEFORE_MARK = "_&~", re.compile(r"[\s(\[\"'“„«>]")
FIRST_LETTERS = re.compile(r"[^\W\d_]+$")  # of a word, before the mark of its access key
# Keys of messages, and of what describes them, of browsers' extensions, FormatJS, Transifex, and Lokalise.
DESCRIBED = {
    "message": ("description", "placeholders", "hash"),
    "defaultMessage": ("id", "description", "file", "start", "end", "line", "col"),
    "string": ("developer_comment", "context", "character_limit"),
    "translation": ("notes", "context", "limit"),
}
JSON_TOKEN = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?|[{}\[\]]')
PROPERTY = re.compile(
    r"^(?P<start>[ \t\f]*(?![#!\s])(?:[^=:\s\\]|\\(?:\r\n|[\s\S]))+[ \t\f]*(?:[=:][ \t\f]*)?)"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*)",
    re.MULTILINE,
)
# In a message with arguments, Java reads two apostrophes as one; a single one quotes, or is not for Java.
ARGUMENT, QUOTE = re.compile(r"\{\d[^{}]*\}"), re.compile(r"(?<!')'(?:'')*(?!')")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def add_message(builder: Builder, raw: str, has_breaks: bool = True, marks_within: str = "&~") -> None:
    """Add a whole message as it is in the file, with its placeholders; takes the arguments of [`add_text`]."""
    value = builder.escaping.read(raw).strip()
    if CODE.fullmatch(("/" if FOLDER.match(value) else "") + VARIABLE.sub("Ab", value)):
        builder.tag(raw)
    else:
        add_text(builder, raw, has_breaks, marks_within)


def add_text(builder: Builder, raw: str, has_breaks: bool = True, marks_within: str = "&~") -> None:
    """Add a message, or a part of one, with its placeholders; escaped line breaks and tabs separate its sentences.

    Args:
        has_breaks: whether line breaks and tabs that are not escaped do so, too.
        marks_within: marks of access keys within words; `_` is one only in gettext's files.
    """
    text, places = builder.escaping.read_places(raw)
    closings, access_mark, paired = _match_braces(text), _access_mark(text, marks_within), _paired_tags(text)

    def part(start: int, end: int) -> str:
        return raw[places[start] : places[end]]

    def add_plain(start: int, end: int) -> None:
        if access_mark is not None and start <= access_mark < end - 1:
            builder.text(part(start, access_mark))
            builder.piece(Text(part(access_mark, access_mark + 1), "", is_access_mark=True))
            start = access_mark + 1
        builder.text(part(start, end))

    def add(start: int, end: int, is_plural: bool = False) -> None:
        done, is_placeholder = start, False  # whether one ends there
        while token := TOKEN.search(text, start, end):
            first, start, kind = token.start(), token.end(), token.lastgroup
            if kind == "brace":
                closing = closings.get(start - 1, end)
                if closing >= end:
                    continue
                brace, start = start - 1, closing + 1
                messages, is_choice_plural = _choice(text, brace, closing, closings)
                if messages:
                    add_plain(done, first)
                    for message in messages:
                        builder.keep(part(first, message[0]))
                        add(*message, is_plural or is_choice_plural)
                        first = message[1]
                    builder.keep(part(first, start))
                    done, is_placeholder = start, False
                    continue
            elif (kind == "breaks" and not has_breaks and part(first, start).isspace()) or (
                kind == "number" and not is_plural
            ):
                continue
            was_placeholder, is_placeholder = is_placeholder, kind in (None, "brace")
            if is_placeholder and text[first] in "%$#@{" and (unit := UNIT.match(text, start, end)):
                start = unit.end()
            if was_placeholder and is_placeholder and GLUE.fullmatch(text, done, first):
                builder.tag(part(done, first))
            else:
                add_plain(done, first)
            if kind == "breaks":
                builder.keep(part(first, start))
            elif kind in ("tag", "escaped_tag"):
                tag = token["tag"] or f"<{token['escaped_tag']}>"
                is_mention = TAG_NAME.match(tag)[1].lower() not in paired and text[first - 1 : first].isspace()
                add_tag(builder, part(first, start), tag, is_mention)
            else:
                kinds = {"opening": Kind.OPEN, "closing": Kind.CLOSE}
                builder.tag(part(first, start), kinds.get(kind, Kind.ALONE), "`")
            done = start
        add_plain(done, end)

    add(0, len(text))


def _match_braces(text: str) -> dict[int, int]:
    """Where the brace is that closes each opening one."""
    closings: dict[int, int] = {}
    path: list[int] = []
    for brace in BRACE.finditer(text):
        if brace[0] == "{":
            path.append(brace.start())
        elif path:
            closings[path.pop()] = brace.start()
    return closings


def _paired_tags(text: str) -> set[str]:
    """The names of elements that have an opening and a closing tag."""
    names: tuple[set[str], set[str]] = set(), set()
    for tag in TAG.finditer(text):
        names[bool(tag[1])].add(tag[2].lower())
    return names[0] & names[1]


def _choice(text: str, start: int, end: int, closings: dict[int, int]) -> tuple[list[Span], bool]:
    """Where the messages are of a choice between two braces, if it is one, and whether it is a plural."""
    head = CHOICE.match(text, start, end)
    if not head:
        return [], False
    messages: list[Span] = []
    at, is_format = head.end(), head["kind"] == "choice"
    while branch := (LIMIT if is_format else BRANCH).match(text, at, end):
        first = last = branch.end()
        if is_format:
            while last < end and text[last] != "|":
                last = closings.get(last, last) + 1
        else:
            last = closings.get(first - 1, end)
        messages.append((first, min(last, end)))
        at = last + 1
    return (messages, head["kind"] != "select") if not text[at:end].strip() else ([], False)


def _access_mark(text: str, marks_within: str) -> int | None:
    """Where the mark of an access key is, as in `_Open`, `E&xit`, and `Save ~As`."""
    for mark in ACCESS_MARKS:
        place = text.find(mark) if text.count(mark) == 1 else -1
        if place < 0 or not text[place + 1 : place + 2].isalpha() or re.match(r"&\w+;", text[place : place + 40]):
            continue
        before = FIRST_LETTERS.search(text, max(place - 40, 0), place)
        if before is None:
            is_mark = not place or BEFORE_MARK.match(text, place - 1)
        else:
            is_mark = mark in marks_within and before[0].istitle() and text[place + 1].islower()
        if is_mark:
            return place
    return None


def read_json(content: str) -> Parts:
    """The texts in a JSON file; keys, and what describes a message under a key that begins with `@`, stay.

    Raises:
        InputError: it is not JSON.
    """
    try:
        values = json.loads(content)
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        raise InputError(f"Line {line}, column {column}: {getattr(error, 'msg', error)}. Correct it.") from None
    escaping = replace(JSON, unwritable=json_escape) if content.isascii() and r"\u" in content else JSON
    builder, done = Builder(escaping), 0
    for raw, start, end in _json_values(content, _message_key(values)):
        builder.keep(content[done:start])
        add_message(builder, raw)
        done = end
    builder.keep(content[done:])
    return builder.build()


def _message_key(values: object) -> str | None:
    """The key of the messages, if each of them is in an object with what describes it."""
    entries = list(values.values() if isinstance(values, dict) else values if isinstance(values, list) else [])
    for key, others in DESCRIBED.items():
        if entries and all(
            isinstance(entry, dict) and isinstance(entry.get(key), str) and entry.keys() <= {key, *others}
            for entry in entries
        ):
            return key
    return None


def _json_values(content: str, message_key: str | None) -> Iterator[tuple[str, int, int]]:
    """The values that are strings, each with its start and end."""
    depth, skipped = 0, None  # within what is under a key with "@": its depth
    key = ""
    for token in JSON_TOKEN.finditer(content):
        if token["string"] is None:
            depth += 1 if token[0] in "{[" else -1
            skipped = skipped if skipped is not None and depth >= skipped else None
        elif token["key"]:
            key = token["string"]
            if skipped is None or depth <= skipped:
                skipped = depth if token["string"].startswith("@") else None
        elif skipped is None and (message_key is None or (depth == 2 and key == message_key)):
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
        is_message = ARGUMENT.search(match["value"]) and not QUOTE.search(match["value"])
        builder = Builder(message if is_message else escaping)
        add_message(builder, match["value"])
        parts += [content[done : match.start("value")], builder.build()]
        done = match.end()
    return Parts([*parts, content[done:]])


def _apple_decode(escape: str) -> str:
    if escape[1] in "uU":
        return JSON.decode(rf"\u{escape[2:]}")
    return _LETTERS.get(escape[1], escape[1])


APPLE = Escaping(
    re.compile(r"\\[uU][0-9a-fA-F]{4}|\\[^uU]", re.DOTALL),
    _apple_decode,
    {'"': '\\"', "\\": "\\\\"},
    {"\n": "\\n", "\t": "\\t"},
)
APPLE_ENTRY = re.compile(
    r"\s+|/\*[\s\S]*?\*/|//[^\n]*|(?:\"(?:[^\"\\]|\\[\s\S])*\"|[\w.-]+)"
    r"(?:\s*=\s*(?:\"(?P<value>(?:[^\"\\]|\\[\s\S])*)\"|[\w.-]+))?\s*;"
)


def read_strings(content: str) -> Parts:
    """A file of texts for Apple's systems, `"key" = "value";`.

    Raises:
        InputError: a line is not what is in such files; the message names it.
    """
    parts: list[str | Parts] = []
    done = at = 0
    while at < len(content):
        entry = APPLE_ENTRY.match(content, at)
        if not entry:
            line = content.count("\n", 0, at) + 1
            text = content[at : at + 60].split("\n")[0]
            raise InputError(f'Line {line}: {text} is neither a comment nor "key" = "value";. Correct it.')
        if entry["value"]:
            builder = Builder(APPLE)
            add_message(builder, entry["value"])
            parts += [content[done : entry.start("value")], builder.build()]
            done = entry.end("value")
        at = entry.end()
    return Parts([*parts, content[done:]])


def _property_decode(escape: str) -> str:
    if escape.startswith(r"\u"):
        return JSON.decode(escape)
    return "" if escape[1] in "\r\n" else _LETTERS.get(escape[1], escape[1])

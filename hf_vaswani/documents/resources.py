"""Files of a program's texts in XML: the string resources of Android, .NET's resx, and Apple's property lists."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from .escaping import ENTITY, JSON, MARKUP, PLAIN, Escaping
from .markup import CDATA, Token, add_tag, check_xml, join_kept, read_cdata, read_xml_tokens, xml_tokens
from .parts import Builder, Parts
from .strings import add_message, add_text, read_strings
from .tag_placement import Kind

LETTERS = {"n": "\n", "t": "\t"}
NOT_TRANSLATED = re.compile(r"""\stranslatable\s*=\s*["']false["']""")
PLACEHOLDERS = frozenset(("xliff:g",))  # elements around what is not translated
# Objects, and properties of forms that are no text.
NO_TEXT = re.compile(r"""\s(?:type|mimetype)\s*=|\sname\s*=\s*["'](?:>>|&gt;&gt;)""")
# Keys of a property list whose values are no text.
KEY_TOKENS = 4  # of a key before a value
TYPE_KEYS = ("NSStringFormatSpecTypeKey", "NSStringFormatValueTypeKey")
QUOTED_TEXT = re.compile(r'(\s*")([\s\S]*)((?<!\\)"\s*)')


def _android_decode(escape: str) -> str:
    if escape == '"':
        return escape
    if escape.startswith("&"):
        return MARKUP.decode(escape)
    return JSON.decode(escape) if escape[1] == "u" else LETTERS.get(escape[1], escape[1])


IN_QUOTES = Escaping(
    re.compile(rf"\\u[0-9a-fA-F]{{4}}|\\[^u<&]|{ENTITY}|\""),  # a bare quotation mark is not shown
    _android_decode,
    {"&": "&amp;", "<": "&lt;", "\\": "\\\\", '"': '\\"'},
    {">": "&gt;", "\n": "\\n"},
)
ANDROID = replace(IN_QUOTES, always={**IN_QUOTES.always, "'": "\\'"})
IN_CDATA = replace(
    ANDROID,
    escape=re.compile(r"\\u[0-9a-fA-F]{4}|\\[^u]|\""),
    always={sign: f"\\{sign}" for sign in "\\\"'"},
    usually={"\n": "\\n"},
)


def read_xml(content: str) -> Parts:
    """XML: Android's string resources, XHTML, or any other document.

    Raises:
        InputError: it is not well-formed, or declares entities that could be attacks.
    """
    check_xml(content)
    tokens = xml_tokens(content)
    if next((token.name for token in tokens if token.name), "") == "resources":
        return _read_elements(tokens, _is_android_text, _read_android)
    return read_xml_tokens(tokens)


def read_resx(content: str) -> Parts:
    """.NET's resx.

    Raises:
        InputError: it is not well-formed.
    """
    check_xml(content)
    return _read_elements(xml_tokens(content), _is_resx_text, lambda tokens: _read_text(tokens, MARKUP, PLAIN, True))


def read_plist(content: str) -> Parts:
    """Apple's forms of a plural, and other texts of a property list in XML.

    Raises:
        InputError: it is not well-formed.
    """
    check_xml(content)
    return _read_elements(xml_tokens(content), _is_plist_text, lambda tokens: _read_text(tokens, MARKUP, PLAIN, True))


def read_apple(content: str) -> Parts:
    """Apple's strings, as `"key" = "value";` or as a property list in XML; errors as in both."""
    return read_plist(content) if content.lstrip().startswith("<") else read_strings(content)


def _is_plist_text(path: Sequence[Token], before: Sequence[Token]) -> bool:
    return path[-1].name == "string" and not any(token.raw in TYPE_KEYS for token in before)


def _is_android_text(path: Sequence[Token], before: Sequence[Token]) -> bool:
    names = [token.name for token in path[1:]]
    is_text = names in (["string"], ["plurals", "item"], ["string-array", "item"])
    return is_text and not any(NOT_TRANSLATED.search(token.raw) for token in path)


def _is_resx_text(path: Sequence[Token], before: Sequence[Token]) -> bool:
    return [token.name for token in path[1:]] == ["data", "value"] and not NO_TEXT.search(path[1].raw)


def _read_elements(
    tokens: Sequence[Token],
    is_text: Callable[[Sequence[Token], Sequence[Token]], bool],
    read: Callable[[Sequence[Token]], Parts],
) -> Parts:
    """A document of which the content of certain elements is translated.

    Args:
        is_text: whether an element is one of them, given the path to it, and the few tokens before it.
    """
    parts: list[str | Parts] = []
    path: list[Token] = []
    start = depth = 0  # of the content that is read
    for number, token in enumerate(tokens):
        if token.kind is Kind.CLOSE:
            if len(path) == depth:
                parts.append(read(tokens[start:number]))
                depth = 0
            path.pop()
        if not depth:
            parts.append(token.raw)
        if token.kind is Kind.OPEN:
            path.append(token)
            if not depth and is_text(path, tokens[max(number - KEY_TOKENS, 0) : number]):
                start, depth = number + 1, len(path)
    return Parts(parts)


def _read_android(tokens: Sequence[Token]) -> Parts:
    """A text, of which one in quotation marks needs no escaped apostrophes."""
    raw = "".join(token.raw for token in tokens)
    if quoted := QUOTED_TEXT.fullmatch(raw):
        return Parts([quoted[1], _read_text(xml_tokens(quoted[2]), IN_QUOTES, IN_CDATA, False), quoted[3]])
    return _read_text(tokens, ANDROID, IN_CDATA, False)


def _read_text(tokens: Sequence[Token], escaping: Escaping, in_cdata: Escaping, has_breaks: bool) -> Parts:
    """The content of an element, with tags in it."""
    builder = Builder(escaping)
    for token in join_kept(tokens, PLACEHOLDERS):
        if token.raw.startswith(CDATA):
            builder.keep(read_cdata(token.raw, add_text, escaping, in_cdata))
        elif token.kind is not None and token.name and token.name not in PLACEHOLDERS:
            add_tag(builder, token.raw)
        elif token.kind is not None:
            builder.tag(token.raw)
        elif len(tokens) == 1:
            add_message(builder, token.raw, has_breaks)
        else:
            add_text(builder, token.raw, has_breaks)
    return builder.build()

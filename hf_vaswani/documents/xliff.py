"""XLIFF 1.2 and 2, and TMX: segments without a translation get one, and their state; other translations stay."""

import re
from collections.abc import Sequence
from functools import partial

from ..errors import InputError
from .escaping import MARKUP
from .markup import CDATA, EXCLUDED, Token, cdata_text, check_xml, join_kept, read_cdata, xml_tokens
from .parts import Builder, Parts
from .strings import add_text
from .tag_placement import Kind

# Inline elements with code of the original inside, and those that open or close a pair, with what they have in common.
NATIVE = frozenset(("ph", "it", "bpt", "ept", "ut"))
OPENING = {"bpt": ("rid", "id", "i"), "bx": ("rid", "id"), "sc": ("id",), "sm": ("id",)}
CLOSING = {"ept": ("rid", "id", "i"), "ex": ("rid", "id"), "ec": ("startRef",), "em": ("startRef",)}
PAIRED = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}
# States of a target that is not a translation yet if it repeats the source.
OPEN_STATES = ("new", "needs-translation", "initial")
# Those in which it stays even if it is empty, and attributes of units, also of Trados, memoQ, and Phrase, that say so.
FINAL_STATES = ("final", "signed-off")
DONE = re.compile(
    r"""\s(?:[\w.-]+:)?(?:(?:approved|locked|confirmed)\s*=\s*["'](?:yes|true|locked|[1-9])["']"""
    r"""|conf\s*=\s*["'](?:Translated|Approved\w*)["'])"""
)
STATES = "seg-defs"  # in the files of Trados: the state of each segment
NEW_LANGUAGE = 'xml:lang="\ufdd0"'  # of a translation in TMX, until it is known
ROOT = re.compile(r"<(?:[\w.-]+:)?xliff\s[^<>]*>")
LINE_FEED = re.compile(
    r"""\sctype\s*=\s*["'](?:x-)?lb["']|\s(?:equiv(?:-text)?|disp)\s*=\s*["'](?:&lt;|<)br\b|>&lt;br\b""", re.IGNORECASE
)


def read_xliff(content: str) -> Parts:
    """XLIFF 1.0 to 1.2, and 2.0 to 2.2.

    Raises:
        InputError: it is not well-formed, or something else; the message names line and column.
    """
    check_xml(content)
    tokens = list(xml_tokens(content))
    root = next((token for token in tokens if token.name), Token(""))
    if _name(root) != "xliff":
        raise InputError(f"Line 1: the root element is {root.name or 'missing'}, not xliff. Choose another format.")
    is_new = _attribute(root, "version").startswith("2")
    unit = "segment" if is_new else "trans-unit"
    parts: list[str | Parts] = []
    path = [(False, False)]  # of the open elements: whether they are not translated, and whether line breaks count
    number = 0
    while number < len(tokens):
        token = tokens[number]
        if token.kind is Kind.OPEN:
            path.append((_is_done(token, path[-1][0]), _keeps_space(token, path[-1][1])))
        elif token.kind is Kind.CLOSE:
            path.pop()
        if token.kind is Kind.OPEN and _name(token) == unit and not path[-1][0]:
            end = _end(tokens, number)
            parts.append(_read_unit(tokens[number : end + 1], is_new, path[-1][1]))
            number = end + 1
            path.pop()
            continue
        parts.append(token.raw)
        number += 1
    return Parts(parts)


def read_tmx(content: str) -> Parts:
    """A translation memory: a unit with only a text in the source language gets a translation.

    Raises:
        InputError: it is not well-formed, or something else; the message names line and column.
    """
    check_xml(content)
    tokens = xml_tokens(content)
    root = next((token for token in tokens if token.name), Token(""))
    if _name(root) != "tmx":
        raise InputError(f"Line 1: the root element is {root.name or 'missing'}, not tmx. Choose another format.")
    header = next((token for token in tokens if _name(token) == "header"), root)
    parts: list[str | Parts] = []
    number = 0
    while number < len(tokens):
        token, end = tokens[number], number
        if token.kind is Kind.OPEN and _name(token) == "tu":
            end = _end(tokens, number)
            language = _attribute(token, "srclang") or _attribute(header, "srclang")
            parts.append(_read_pair(tokens[number : end + 1], language))
        else:
            parts.append(token.raw)
        number = end + 1
    return Parts(parts)


def _read_pair(tokens: Sequence[Token], language: str) -> Parts:
    """A unit of a translation memory, with a translation if it has none."""
    raws = [token.raw for token in tokens]
    texts = [n for n, token in enumerate(tokens) if token.kind is Kind.OPEN and _name(token) == "tuv"]
    segments = [n for n, token in enumerate(tokens) if token.kind is Kind.OPEN and _name(token) == "seg"]
    if len(texts) != 1 or len(segments) != 1:
        return Parts(raws)
    start, segment = texts[0], segments[0]
    own = _attribute(tokens[start], "xml:lang") or _attribute(tokens[start], "lang")
    if language not in ("", "*all*") and own.lower() != language.lower():
        return Parts(raws)
    last, end = _end(tokens, segment), _end(tokens, start) + 1
    translation = _read_text(tokens[segment + 1 : last], False)
    if not translation.texts:
        return Parts(raws)
    space = [raws[start - 1]] if raws[start - 1].isspace() else []
    opening = f"<tuv {NEW_LANGUAGE}><seg>"
    return Parts([*raws[:end], *space, opening, translation, "</seg></tuv>", *raws[end:]])


def with_language(content: str, code: str | None) -> str:
    """TMX that names the language of its new translations."""
    return content.replace(NEW_LANGUAGE, f'xml:lang="{code.replace("_", "-") if code else "und"}"')


def with_target_language(content: str, code: str) -> str:
    """XLIFF 2 that names the language of its targets, as it must; unchanged if it already does, and XLIFF 1."""
    root = Token(found[0] if (found := ROOT.search(content)) else "")
    if not _attribute(root, "version").startswith("2") or _attribute(root, "trgLang"):
        return content
    return content.replace(root.raw, _with_attribute(root.raw, "trgLang", code.replace("_", "-")), 1)


def _is_done(token: Token, is_done: bool) -> bool:
    """Whether an element keeps its translation, given whether what is around it does."""
    if EXCLUDED.search(token.raw) or DONE.search(token.raw):
        return True
    return is_done and _attribute(token, "translate") != "yes"


def _keeps_space(token: Token, is_kept: bool) -> bool:
    """Whether line breaks count in an element, given whether they do around it."""
    return (_attribute(token, "xml:space") or ("preserve" if is_kept else "")) == "preserve"


def _read_unit(tokens: Sequence[Token], is_new: bool, keeps_space: bool) -> Parts:
    """A segment, with its translation if it has none."""
    raws = [token.raw for token in tokens]
    children: dict[str, tuple[int, int]] = {}
    number = 1
    while number < len(tokens) - 1:
        end = _end(tokens, number)
        children.setdefault(_name(tokens[number]), (number, end))
        number = end + 1
    unchanged = Parts(["".join(raws)])
    if "source" not in children:
        return unchanged
    first, last = children.get("seg-source", children["source"])
    start, end = children.get("target", (last + 1, last))
    own = tokens[start + 1 : end]
    state = _attribute(tokens[0] if is_new else tokens[start], "state") if "target" in children else ""
    if state in FINAL_STATES:
        return unchanged
    source = tokens[first + 1 : last]
    has_states = STATES in children
    if has_states:
        source = _mark_states(tokens, children[STATES], own, source, raws)
    keeps_space = _keeps_space(tokens[first], keeps_space)
    is_open = state in OPEN_STATES and _content(own) == _content(tokens[first + 1 : last])
    is_whole = is_open or _is_empty(own)
    translation = _read_text(source, keeps_space) if is_whole else _read_missing(own, source, keeps_space)
    if not translation.texts:
        return unchanged
    if not is_whole:
        return Parts(["".join(raws[: start + 1]), translation, "".join(raws[end:])])
    prefix = tokens[first].name.rpartition(":")[0]
    name = f"{prefix}:target" if prefix else "target"
    target = tokens[start].raw if "target" in children else f"<{name}>"
    if target.endswith("/>"):
        target = f"{target[:-2].rstrip()}>"
    if _attribute(tokens[first], "xml:space") and not _attribute(Token(target), "xml:space"):
        target = _with_attribute(target, "xml:space", _attribute(tokens[first], "xml:space"))
    opening = tokens[0].raw
    if is_new:
        opening = _with_attribute(opening, "state", "translated")
    elif not has_states:
        target = _with_attribute(target, "state", "needs-review-translation")
        target = _with_attribute(target, "state-qualifier", "mt-suggestion")
    space = raws[first - 1] if "target" not in children and raws[first - 1].isspace() else ""
    before, after = "".join(raws[1:start]), "".join(raws[end + 1 :])
    return Parts([opening, before, space, target, translation, f"</{name}>", after])


def _mark_states(
    tokens: Sequence[Token], states: tuple[int, int], target: Sequence[Token], source: Sequence[Token], raws: list[str]
) -> list[Token]:
    """The source without the text of finished segments; those that get a translation become drafts in `raws`."""
    done = {_attribute(target[n], "mid") for n, end in _segments(target) if _content(target[n:end])}
    kept: set[str] = set()
    for number in range(*states):
        token, segment = tokens[number], _attribute(tokens[number], "id")
        if _name(token) != "seg" or token.kind is Kind.CLOSE:
            continue
        if DONE.search(token.raw):
            kept.add(segment)
        elif segment not in done:
            raws[number] = _with_attribute(_with_attribute(token.raw, "conf", "Draft"), "origin", "mt")
    if kept and not _segments(source):
        return []
    hidden = {one for n, end in _segments(source) if _attribute(source[n], "mid") in kept for one in range(n + 1, end)}
    return [token for number, token in enumerate(source) if number not in hidden]


def _segments(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Where the segments of a source or target begin and end."""
    return [(number, _end(tokens, number)) for number, token in enumerate(tokens) if _is_segment(token)]


def _read_missing(target: Sequence[Token], source: Sequence[Token], keeps_space: bool) -> Parts:
    """A partly translated target, with translations of the segments that have none."""
    segments = {
        _attribute(source[n], "mid"): _read_text(source[n + 1 : end], keeps_space) for n, end in _segments(source)
    }
    parts: list[str | Parts] = []
    number = 0
    while number < len(target):
        token, end = target[number], _end(target, number)
        text = segments.get(_attribute(token, "mid")) if _is_segment(token) else None
        if text is None or not text.texts or _content(target[number:end]):
            parts.append(token.raw)
            number += 1
        else:
            opening = f"{token.raw[:-2].rstrip()}>" if token.raw.endswith("/>") else token.raw
            parts.append(Parts([opening, text, f"</{token.name}>"]))
            number = end + 1
    return Parts(parts)


def _is_segment(token: Token) -> bool:
    return _name(token) == "mrk" and token.kind is not Kind.CLOSE and _attribute(token, "mtype") == "seg"


def _is_empty(tokens: Sequence[Token]) -> bool:
    """Whether a target has nothing in it, or only marks of segments that have nothing in them."""
    return not _content(tokens) and all(_name(token) in ("", "mrk") for token in tokens)


def _content(tokens: Sequence[Token]) -> str:
    """The text of a source or target, without its elements."""
    texts = (
        cdata_text(token.raw) if token.raw.startswith(CDATA) else MARKUP.read(token.raw) if token.kind is None else ""
        for token in tokens
    )
    return " ".join("".join(texts).split())


def _read_text(tokens: Sequence[Token], keeps_space: bool) -> Parts:
    """The content of a source, with its inline elements, and the placeholders of the original format."""
    builder, add = Builder(MARKUP), partial(add_text, has_breaks=keeps_space)
    for token in join_kept([Token(one.raw, one.kind, _name(one)) for one in tokens], NATIVE):
        name = token.name
        if token.kind is None:
            add(builder, token.raw)
        elif token.raw.startswith(CDATA):
            builder.keep(read_cdata(token.raw, add))
        elif _is_segment(token) or LINE_FEED.search(token.raw):
            builder.keep(token.raw)
        elif name in OPENING:
            builder.tag(token.raw, Kind.OPEN, f"{name} {_first(token, OPENING[name])}")
        elif name in CLOSING:
            builder.tag(token.raw, Kind.CLOSE, f"{PAIRED[name]} {_first(token, CLOSING[name])}")
        else:
            builder.tag(token.raw, token.kind, name)
    return builder.build()


def _name(token: Token) -> str:
    return token.name.rpartition(":")[2]


def _first(token: Token, names: Sequence[str]) -> str:
    return next(filter(None, (_attribute(token, name) for name in names)), "")


def _end(tokens: Sequence[Token], number: int) -> int:
    """The number of the tag that closes an element; the same number for anything else."""
    depth = 0
    for at in range(number, len(tokens)):
        depth += {Kind.OPEN: 1, Kind.CLOSE: -1}.get(tokens[at].kind, 0)
        if depth == 0:
            return at
    return len(tokens) - 1


def _attribute(token: Token, name: str) -> str:
    found = re.search(rf"""\s{name}\s*=\s*(?:"([^"]*)"|'([^']*)')""", token.raw)
    return (found[1] or found[2] or "") if found else ""


def _with_attribute(tag: str, name: str, value: str) -> str:
    pattern = re.compile(rf"""(\s{name}\s*=\s*)(?:"[^"]*"|'[^']*')""")
    if pattern.search(tag):
        return pattern.sub(rf'\g<1>"{value}"', tag, count=1)
    end = "/>" if tag.endswith("/>") else ">"
    return f'{tag.removesuffix(end).rstrip()} {name}="{value}"{end}'

"""Markdown: paragraphs, headings, items, and cells, titles; code, addresses, and directives stay as they are.

markdown-it finds the blocks and their content, but keeps only the lines of blocks. What it finds inside them is
recorded while it works.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

from ..text.keep_patterns import KINDS
from .escaping import ENTITY, JSON, MARKUP, PLAIN, Escaping
from .markup import ADDRESS, TAG_NAME, TEMPLATE, add_tag, add_template, read_html
from .parts import Builder, Parts
from .tag_placement import Kind, Text

FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\r?\n.*?\n\1[ \t]*(?:\r?\n|\Z)", re.DOTALL)
# What readers see of it: values on one line, in YAML with or without marks, in TOML with double ones.
SHOWN = re.compile(
    r"^(?:title|subtitle|description|summary|excerpt|linkTitle|sidebar_label)[ \t]*(?P<sign>[:=])[ \t]*"
    r"(?:\"(?P<double>(?:[^\"\\\n]|\\.)+)\"|'(?P<single>(?:[^'\n]|'')+)'"
    r"|(?P<plain>[^\s\"'>|&*!\[{#%@`](?!.*\s#)(?:.*\S)?)(?!\r?\n[ \t]+\S))[ \t]*\r?$",
    re.MULTILINE,
)
MARKED = re.compile(r"^[\s\"'>|&*!\[\]{}#%@`,?:-]|:(?:\s|$)|\s#")  # text that must be in quotation marks
# The title of a link or an image.
# Within text: addresses, footnotes, formulas, and what other programs replace; at the beginning of a line, what notes
# and tasks of GitHub, Docusaurus, and MkDocs begin with.
KEPT = re.compile(
    r"(?P<line>^(?::{3,}[ \t]*(?:\{[^{}\n]*\}|[\w-]+\[?)?"
    r"|(?:!!!|\?\?\?\+?)[ \t]+[a-z][\w -]*?[ \t]*(?:\"(?=.*\"[ \t]*$)|$)"
    r"|===[!+]?[ \t]+\"(?=.*\"[ \t]*$)|\[![\w-]+\][+-]?))"
    r"|(?P<task>\A\[[ xX]\](?=\s))"
    r"|(?P<display>\$\$[^$]+\$\$)|\$(?![\s$])[^$\n]*(?<![\s\\])\$(?![\d$])"
    rf"|{KINDS['url']}|{ADDRESS}|\[\^[^\[\]\s]+\]:?"
    rf"|{TEMPLATE.pattern}|\{{[:#.][^{{}}\n]*\}}",
    re.MULTILINE,
)
TITLE_MARKS, TITLE_END = ('"', "["), re.compile(r".*?([\"\]][ \t]*(?:\{[^{}\n]*\})?[ \t]*)$", re.MULTILINE)
TEXT_RULES = ("text", "escape", "entity")
LINE_END = re.compile(r"\r\n|\r|\n")
MARKDOWN = Escaping(
    re.compile(rf"\\[!-/:-@\[-`{{-~]|{ENTITY}"),
    lambda escape: escape[1:] if escape.startswith("\\") else MARKUP.decode(escape),
    # Whether these are marks of emphasis or code depends on what is around them, which translations change.
    always={character: f"\\{character}" for character in "*`"},
    usually={character: f"\\{character}" for character in "\\_[]<|"},
)
SCALARS = {"double": JSON, "single": Escaping(re.compile("''"), lambda _: "'", {"'": "''"}), "plain": PLAIN}
# The end of a link or an image, or a definition, with a title, and how titles are written, by their mark.
LINK_TITLE = re.compile(
    r"\][(:]\s*(?:<(?:\\.|[^<>\\\n])*>|[^\s<]\S*)\s+"
    r"(?P<title>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\((?:\\.|[^()\\\n])*\))\s*\)?\s*\Z"
)
TITLES = {
    marks[0]: replace(
        MARKDOWN,
        always={mark: f"\\{mark}" for mark in marks},
        usually={character: f"\\{character}" for character in "\\|"},
    )
    for marks in ('"', "'", "()")
}
# Text that would turn a paragraph that begins with it into another block, and where a backslash prevents that.
BLOCK_START = re.compile(r"\A(\d*)(?=([#>+=~-]+|[.)])(\s|$))")


@dataclass
class _Event:
    """Something that markdown-it found in a text, and what it found inside of that.

    Attributes:
        rule: the rule of markdown-it.
        inner: for a link, what is in its label.
        label_end: where the label of a link ends.
        delimiters: the delimiters of emphasis.
        siblings: all delimiters that these may form pairs with.
    """

    rule: str
    start: int
    end: int
    inner: "Sequence[_Event]" = ()
    label_end: int | None = None
    delimiters: Sequence[Any] = ()
    siblings: Sequence[Any] = ()


class _Parser:
    """Parses blocks, and records what is inside."""

    def __init__(self) -> None:
        from markdown_it import MarkdownIt  # only for Markdown

        self._markdown: Any = MarkdownIt("commonmark")
        self._markdown.enable(["table", "strikethrough"]).core.ruler.disable("inline")
        self._environment: dict[str, Any] = {}
        self._events: list[_Event] = []
        self._end: int | None = None  # of the text that the innermost link has, once it is known
        ruler = self._markdown.inline.ruler
        for name, rule in zip(self._markdown.get_active_rules()["inline"], ruler.getRules("")):
            ruler.at(name, self._recorded(name, rule))

    def blocks(self, content: str) -> Sequence[Any]:
        """The tokens of all blocks."""
        return self._markdown.parse(content, self._environment)

    def definitions(self) -> list[tuple[int, int]]:
        """The lines of each definition of a link with a title, in the blocks that were parsed."""
        references = self._environment.get("references", {}).values()
        return [tuple(one["map"]) for one in references if one["title"]]

    def inside(self, content: str) -> list[_Event]:
        """The content of a block."""
        self._events = []
        self._markdown.inline.parse(content, self._markdown, self._environment, [])
        return self._events

    def _recorded(self, name: str, rule: Callable[[Any, bool], bool]) -> Callable[[Any, bool], bool]:
        def work(state: object, silent: bool) -> bool:
            if silent:
                return rule(state, True)
            if self._end is None:
                self._end = state.posMax
            start, count, siblings = state.pos, len(state.delimiters), state.delimiters
            outer, self._events = self._events, []
            outer_end, self._end = self._end, None
            is_found = rule(state, False)
            inner, label_end = self._events, self._end
            self._events, self._end = outer, outer_end
            if is_found:
                self._events.append(_Event(name, start, state.pos, inner, label_end, siblings[count:], siblings))
            return is_found

        return work


def read_markdown(content: str) -> Parts:
    """A Markdown file, CommonMark with tables and strikethrough."""
    parser, front = _Parser(), FRONT_MATTER.match(content)
    start = front.end() if front else 0
    lines = [start, *(match.end() for match in LINE_END.finditer(content, start)), len(content)]
    found: list[tuple[int, int, str | Parts]] = [(0, start, _read_front_matter(front[0]))] if front else []
    done, marker = start, ""
    for token in parser.blocks(content[start:]):
        marker = token.markup if token.type == "heading_open" else marker if token.type == "inline" else ""
        marker = marker if marker.startswith("#") else ""
        if token.type == "html_block":
            first, last = (lines[min(number, len(lines) - 1)] for number in token.map)
            found.append((first, last, read_html(content[first:last])))
            done = last
        elif token.type == "inline" and (place := _locate(content, token, lines, done, marker)):
            found.append((place[0], place[-1], _read_block(parser, token.content, place, content)))
            done = place[-1]
    for first, last in parser.definitions():
        first, last = lines[first], lines[last]
        found.append((first, last, _read_title(content[first:last])))
    parts: list[str | Parts] = []
    done = 0
    for first, last, part in sorted(found, key=lambda one: one[0]):
        parts += [content[done:first], part]
        done = last
    return Parts([*parts, content[done:]])


def _read_front_matter(content: str) -> Parts:
    parts: list[str | Parts] = []
    done = 0
    for match in SHOWN.finditer(content):
        kind = match.lastgroup or ""
        raw = match[kind]
        if match["sign"] == ":" or kind == "double":
            builder = Builder(SCALARS[kind])
            add_template(builder, raw)
            finish = partial(_as_scalar, raw) if kind == "plain" else str
            parts += [content[done : match.start(kind)], builder.build(finish)]
            done = match.end(kind)
    return Parts([*parts, content[done:]])


def _as_scalar(raw: str, filled: str) -> str:
    """A value of YAML, in quotation marks if it needs them."""
    return json.dumps(filled, ensure_ascii=False) if filled != raw and MARKED.search(filled) else filled


def _read_title(raw: str) -> str | Parts:
    """The end of a link, or a definition, with the title that readers see when they point at the link."""
    if not (found := LINK_TITLE.search(raw)):
        return raw
    first, last = found.start("title") + 1, found.end("title") - 1
    builder = Builder(TITLES[raw[first - 1]])
    builder.text(raw[first:last])
    title = builder.build()
    return Parts([raw[:first], title, raw[last:]]) if title.texts else raw


def _locate(content: str, token: object, lines: Sequence[int], done: int, marker: str) -> list[int] | None:
    """Where each character of a block, and its end, is in the file; `None` if it is not found."""
    place: list[int] = []
    for number, line in enumerate(token.content.split("\n"), token.map[0]):
        body = line.strip(" \t")
        raw = content[lines[number] : lines[number + 1]].rstrip()
        first = lines[number] + len(raw) - len(body)
        if not content.startswith(body, first) or first < done or marker:
            # A cell, or a heading between marks.
            body = body if marker else body.replace("|", r"\|")
            after = max(done, lines[number] + (raw.find(marker) + len(marker) if marker else 0))
            first = content.find(body, after, lines[number + 1])
        if first < 0 or not body:
            return None
        at = first
        for place_in_line, character in enumerate(line):
            place.append(at)
            if place_in_line >= len(line) - len(line.lstrip(" \t")):
                at += 2 if character == "|" and content[at] == "\\" else 1
        place.append(at)
    return place


def _read_block(parser: _Parser, text: str, place: Sequence[int], content: str) -> Parts:
    builder, raw = Builder(MARKDOWN), content[place[0] : place[-1]]
    emphasis: dict[int, tuple[dict[int, int], dict[int, int]]] = {}  # of siblings: numbers, openings of closings
    line_ends: set[int] = set()  # that stay, as the lines before or after them are no text

    def add(events: Sequence[_Event], start: int, end: int) -> None:
        for event in with_kept([event for event in events if not is_text(event)], start, end):
            add_text(start, event.start)
            add_event(event)
            start = event.end
        add_text(start, end)

    def add_text(start: int, end: int) -> None:
        builder.text(content[place[start] : place[end]])

    def is_text(event: _Event, offset: int = 0) -> bool:
        if event.delimiters:
            return not any(map(is_paired, event.delimiters, repeat(event)))
        return event.rule in TEXT_RULES and "\n" not in text[offset + event.start : offset + event.end]

    def with_kept(events: Sequence[_Event], start: int, end: int) -> Iterator[_Event]:
        """The events with what is kept of the text, instead of the emphasis and line breaks in that."""
        at = 0
        for rule, first, last in kept_parts(start, end):
            while at < len(events) and events[at].end <= first:
                yield events[at]
                at += 1
            beyond = next((n for n in range(at, len(events)) if events[n].start >= last), len(events))
            if all(
                first <= event.start and event.end <= last and (event.delimiters or event.rule == "newline")
                for event in events[at:beyond]
            ):
                if rule == "line":
                    line_ends.update((first - 1, text.find("\n", last)))
                yield _Event(rule, first, last)
                at = beyond
        yield from events[at:]

    def kept_parts(start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """What is kept of a text, each with its rule, start, and end; of the title of a note, both marks."""
        title_end = end, end
        for match in KEPT.finditer(text, start, end):
            if title_end[0] <= match.start():
                yield "escape", *title_end
                title_end = end, end
            yield match.lastgroup or "kept", *match.span()
            if match[0].endswith(TITLE_MARKS) and (closing := TITLE_END.match(text, match.end(), end)):
                title_end = closing.span(1)
        if title_end[0] < end:
            yield "escape", *title_end

    def add_event(event: _Event) -> None:
        piece = content[place[event.start] : place[event.end]]
        if event.rule == "newline" and not is_kept_line_end(event):
            builder.piece(Text(piece, " "))
        elif event.rule in ("newline", "escape", "line", "task", "display"):
            builder.keep(piece)
        elif event.rule == "image":
            builder.tag(read_image(event, piece))
        elif event.delimiters:
            add_delimiters(event)
        elif event.rule == "link" and event.label_end is not None:
            builder.tag(content[place[event.start] : place[event.start + 1]], Kind.OPEN, f"link {event.start}")
            add(event.inner, event.start + 1, event.label_end)
            end = content[place[event.label_end] : place[event.end]]
            label = content[place[event.start] : place[event.label_end] + 1]
            # The text of `[text]` and `[text][]` is also what the link is found by.
            changed = f"]{label}" if end in ("]", "][]") else ""
            builder.tag(_read_title(end), Kind.CLOSE, f"link {event.start}", changed)
        elif event.rule == "html_inline" and TAG_NAME.match(piece):
            add_tag(builder, piece)
        else:
            builder.tag(piece)

    def is_kept_line_end(event: _Event) -> bool:
        return text.endswith("  ", 0, event.start) or text.find("\n", event.start) in line_ends

    def read_image(event: _Event, piece: str) -> str | Parts:
        """An image with its description, unless that is also what it is found by."""
        start, end = event.start + 2, event.start + 2 + (event.label_end or 0)
        after = content[place[end] : place[event.end]]
        if not after.startswith(("](", "][")) or after == "][]":
            return piece
        description = Builder(MARKDOWN)
        if all(map(is_text, event.inner, repeat(start))):
            description.text(content[place[start] : place[end]])
        else:
            description.keep(content[place[start] : place[end]])
        return Parts([content[place[event.start] : place[start]], description.build(), _read_title(after)])

    def siblings(event: _Event) -> tuple[dict[int, int], dict[int, int]]:
        group = id(event.siblings)
        if group not in emphasis:
            emphasis[group] = (
                {id(one): number for number, one in enumerate(event.siblings)},
                {one.end: number for number, one in enumerate(event.siblings) if one.end >= 0},
            )
        return emphasis[group]

    def is_paired(delimiter: Any, event: _Event) -> bool:
        numbers, openings = siblings(event)
        return delimiter.end >= 0 or numbers[id(delimiter)] in openings

    def add_delimiters(event: _Event) -> None:
        """Emphasis: each mark that has a counterpart is a tag."""
        length = (event.end - event.start) // len(event.delimiters)
        start = event.end - length * len(event.delimiters)
        add_text(event.start, start)
        group, (numbers, openings) = id(event.siblings), siblings(event)
        for one in event.delimiters:
            piece, number = content[place[start] : place[start + length]], numbers[id(one)]
            if one.end >= 0:
                builder.tag(piece, Kind.OPEN, f"{group} {number}")
            elif number in openings:
                builder.tag(piece, Kind.CLOSE, f"{group} {openings[number]}")
            else:
                builder.text(piece)
            start += length

    add(parser.inside(text), 0, len(text))
    before = BLOCK_START.match(raw)  # such as `=== "title"`, which is no heading

    def finish(filled: str) -> str:
        is_same = filled.startswith(raw[: before.end(2)]) if before else filled == raw
        return filled if is_same else BLOCK_START.sub(r"\1\\", filled, count=1)

    return builder.build(finish)

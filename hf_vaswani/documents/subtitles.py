"""Subtitles, SubRip and WebVTT: the lines of a cue are one text; times, settings, and styles stay as they are."""

import re

from ..errors import InputError
from .escaping import MARKUP, PLAIN, Escaping
from .markup import add_tag
from .parts import Builder, Parts
from .tag_placement import Kind

TIMES = re.compile(r"[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d\d[,.]\d+")
LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
# `<i>`, `<c.loud>`, `<v Roger>`, `<00:01.000>`, `{\an8}`, `{b}`, entities.
STYLE = re.compile(r"</?[A-Za-z0-9][^<>\r\n]*>|\{\\?/?[A-Za-z][^{}\r\n]*\}")
SPEAKER = re.compile(r"\s*(?:(?:<[^<>]*>|\{[^{}]*\})\s*)*[-–—‐]")


def read_srt(content: str) -> Parts:
    """SubRip.

    Raises:
        InputError: there are no times.
    """
    return _read(content, PLAIN, "01:02:03,000 --> 01:02:05,000")


def read_vtt(content: str) -> Parts:
    """WebVTT.

    Raises:
        InputError: it does not begin with `WEBVTT`, or there are no times.
    """
    if not content.startswith("WEBVTT"):
        raise InputError("Line 1: WebVTT begins with WEBVTT. Correct it, or choose another format.")
    return _read(content, MARKUP, "02:03.000 --> 02:05.000")


def _read(content: str, escaping: Escaping, example: str) -> Parts:
    builder = Builder(escaping)
    is_cue = has_cues = False
    line_end = ""
    for match in LINE.finditer(content):
        line = match[1]
        if TIMES.match(line):
            builder.keep(line_end + match[0])
            is_cue = has_cues = True
            line_end = ""
            continue
        if not is_cue or not line.strip():
            is_cue = False
            builder.keep(line_end + match[0])
            line_end = ""
            continue
        if line_end and SPEAKER.match(line):
            builder.keep(line_end)
        elif line_end:
            builder.tag(line_end, Kind.BREAK)
        _add_line(builder, line)
        line_end = match[2]
    builder.keep(line_end)
    if not has_cues and content.strip():
        raise InputError(f"There are no times, such as {example}. Check the format.")
    return builder.build()


def _add_line(builder: Builder, line: str) -> None:
    done = 0
    for match in STYLE.finditer(line):
        builder.text(line[done : match.start()])
        if re.match("</?[A-Za-z]", match[0]):
            add_tag(builder, match[0])
        else:
            builder.tag(match[0])
        done = match.end()
    builder.text(line[done:])

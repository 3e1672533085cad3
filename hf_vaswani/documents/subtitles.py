"""Subtitles, SubRip and WebVTT: the lines of a cue are one text; times, settings, and styles stay as they are."""

import re

from ..errors import InputError
from .escaping import MARKUP, PLAIN, Escaping
from .markup import add_tag
from .parts import Builder, Parts
from .tag_placement import Kind

TIME = r"[ \t]*(?:\d+:)?\d+:\d+(?:[,.]\d+)?"
TIMES = re.compile(rf"{TIME}[ \t]*-->{TIME}")
LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
# A number of SubRip, or a name of WebVTT, before the times of a cue.
NUMBER = re.compile(r"[ \t]*\d+[ \t]*")
# `<i>`, `<c.loud>`, `<v Roger>`, `<00:01.000>`, `{\an8}`, `{b}`, and `\N`, a line break.
STYLE = re.compile(r"</?[A-Za-z0-9][^<>\r\n]*>|\{\\?/?[A-Za-z][^{}\r\n]*\}|\\N")
# The dash of another speaker.
SPEAKER = re.compile(r"\s*((?:<[^<>]*>|\{[^{}]*\})\s*)*[-–—‐]{1,2}(?![\d>–—‐-])\s*")


def is_srt(content: str) -> bool:
    """Whether a text begins as SubRip does, with a number and times."""
    lines = content.lstrip().split("\n", 2)
    return len(lines) > 1 and bool(NUMBER.fullmatch(lines[0].rstrip()) and TIMES.match(lines[1]))


def read_srt(content: str) -> Parts:
    """SubRip.

    Raises:
        InputError: there are no times.
    """
    return _read(content, PLAIN, "01:02:03,000 --> 01:02:05,000")


def read_vtt(content: str) -> Parts:
    """WebVTT.

    Raises:
        InputError: it does not begin with `WEBVTT`, or none of its times can be read.
    """
    if not content.startswith("WEBVTT"):
        raise InputError("Line 1: WebVTT begins with WEBVTT. Correct it, or choose another format.")
    return _read(content, MARKUP, "02:03.000 --> 02:05.000")


def _read(content: str, escaping: Escaping, example: str) -> Parts:
    builder, is_srt = Builder(escaping), escaping is PLAIN
    is_cue = has_cues = False
    line_end = ""
    lines = [*LINE.finditer(content)]
    for number, match in enumerate(lines):
        line = match[1]
        is_time = bool(TIMES.match(line))
        is_number = is_srt and NUMBER.fullmatch(line) and number + 1 < len(lines) and TIMES.match(lines[number + 1][1])
        if is_time or is_number or not is_cue or not line.strip():
            builder.keep(line_end + match[0])
            # An empty line ends a cue of WebVTT; one of SubRip lasts until the next.
            is_cue = is_time or (is_cue and not is_number and (is_srt or bool(line)))
            has_cues, line_end = has_cues or is_time, ""
            continue
        speaker = SPEAKER.match(line)
        if line_end and speaker:
            builder.keep(line_end)
        elif line_end:
            builder.tag(line_end, Kind.BREAK)
        if speaker:
            builder.keep(speaker[0])
        _add_line(builder, line[speaker.end() if speaker else 0 :])
        line_end = match[2]
    builder.keep(line_end)
    if not has_cues and content.strip() and (is_srt or "-->" in content):
        raise InputError(f"There are no times, such as {example}. Check the format.")
    return builder.build()


def _add_line(builder: Builder, line: str) -> None:
    done = 0
    for match in STYLE.finditer(line):
        builder.text(line[done : match.start()])
        if re.match("</?[A-Za-z]", match[0]):
            add_tag(builder, match[0])
        else:
            builder.tag(match[0], Kind.BREAK if match[0].startswith("\\") else Kind.ALONE)
        done = match.end()
    builder.text(line[done:])

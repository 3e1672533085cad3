"""Text of any kind as Markdown that shows it as it is: no markup, table, link, HTML or formula comes of it."""

import re
import unicodedata

# What Markdown, GitHub's tables and struck-out text, HTML, and formulas (GitHub's and the Hub's) begin with.
MARKUP = re.compile(r"([\\`*_\[\]|~$])")
# Line ends of all kinds, tabs and other control characters.
BREAKS = re.compile("[\\x00-\\x20\\x7f-\\x9f\u2028\u2029]+")
# Marks of writing direction that reach beyond the text in which they stand.
DIRECTIONS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
ISOLATE, END_OF_ISOLATE = "\u2068", "\u2069"


def one_line(text: str) -> str:
    """A text in a line of its own, right-to-left text set off from what stands around it."""
    text = BREAKS.sub(" ", text.translate(DIRECTIONS)).strip()
    text = text.encode("utf-8", "replace").decode()
    is_right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)
    return f"{ISOLATE}{text}{END_OF_ISOLATE}" if is_right_to_left else text


def plain(text: str) -> str:
    """A text for the middle of a line or a cell of a table."""
    text = MARKUP.sub(r"\\\1", one_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table.

    Args:
        header, rows: cells, which are Markdown.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(text: str, language: str) -> str:
    """A block of code, between fences longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"

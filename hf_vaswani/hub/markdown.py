"""Any text as Markdown that shows it as it is, without turning it into markup, tables, links, HTML or formulas."""

import re
import unicodedata

# What begins markup in Markdown, including GitHub's tables and strikethrough, and formulas (GitHub's and the Hub's).
MARKUP = re.compile(r"([\\`*_\[\]|~$])")
# Line ends of all kinds, tabs and other control characters.
BREAKS = re.compile("[\\x00-\\x20\\x7f-\\x9f\u2028\u2029]+")
# Direction marks that affect text beyond the one in which they stand.
DIRECTIONS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
ISOLATE, END_OF_ISOLATE = "\u2068", "\u2069"


def one_line(text: str) -> str:
    """A text on a single line; right-to-left text is isolated from the text around it."""
    text = BREAKS.sub(" ", text.translate(DIRECTIONS)).strip()
    text = text.encode("utf-8", "replace").decode()
    is_right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)
    return f"{ISOLATE}{text}{END_OF_ISOLATE}" if is_right_to_left else text


def plain(text: str) -> str:
    """A text, escaped for the middle of a line or for a table cell."""
    text = MARKUP.sub(r"\\\1", one_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown.

    Args:
        header, rows: their cells, which are Markdown.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(text: str, language: str) -> str:
    """A code block, between fences longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"

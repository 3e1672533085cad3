"""Plain text: each line is a text."""

from .escaping import PLAIN
from .parts import Builder, Parts


def read_lines(content: str) -> Parts:
    """Text, with line breaks and the whitespace around lines as they are."""
    builder = Builder(PLAIN)
    for line in content.splitlines(keepends=True):
        builder.text(line)
        builder.keep()
    return builder.build()

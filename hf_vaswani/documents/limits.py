"""How large a document may be, so that reading it does not fill the memory."""

from ..errors import InputError

# What each format has at least one of for each thing that is kept in memory: lines, tags, values, entities.
MARKS = {
    "txt": "\n",
    "md": "\n*_`[]<&!~\\|{",
    "json": (*'"{%<&$@`\\', "__"),
    **dict.fromkeys(
        ("po", "properties", "strings", "srt", "vtt", "xliff", "tmx", "resx", "stringsdict"), (*"\n{%<&$@`\\", "__")
    ),
}
MARKUP = "<&"  # in all others
MOST_MARKS = 2_000_000  # about 100 novels
MOST_UNPACKED = 512 * 1024 * 1024  # bytes of an archive
MOST_XML = 50 * 1024 * 1024  # bytes of those parts of it that are read


def count_marks(kind: str, text: str) -> int:
    """How many lines, tags, and the like a text has, at most."""
    return sum(map(text.count, MARKS.get(kind, MARKUP)))


def check_marks(number: int) -> None:
    """Refuse a document with too many of them.

    Raises:
        InputError: there are too many.
    """
    if number > MOST_MARKS:
        raise InputError(
            f"It has {number:,} lines, tags, and the like, but at most {MOST_MARKS:,} are read. Split it."
        )

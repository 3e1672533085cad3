"""How much the page takes at once, and what it says of more."""

from ..errors import InputError

# Characters of a text, of one whose words are linked, and of one that is drawn.
LONGEST_TEXT, LONGEST_LINKED_TEXT, LONGEST_FIGURE = 100_000, 20_000, 500
LARGEST_FILE = 10 * 1024 * 1024  # bytes
MOST_BEAMS = 10


def check_text(text: str | None, most: int = LONGEST_TEXT, name: str = "text", remedy: str = "Shorten it.") -> str:
    """A text of the page, if it can be used.

    Args:
        name: of the text, for the message.
        remedy: what to do where it has more characters than `most`.

    Raises:
        InputError: it is empty or too long.
    """
    text = text or ""
    if not text.strip():
        raise InputError(f"The {name} is empty.")
    if len(text) > most:
        raise InputError(f"The {name} has {len(text):,} characters, and this takes {most:,} at most. {remedy}")
    return text

"""Changes to a text that nobody sees, and texts in which nothing is seen."""

from collections.abc import Callable


def first_space_becomes(other: str) -> Callable[[str], str]:
    return lambda text: text.replace(" ", other, 1)


def hyphenated(text: str) -> str:
    """A text with a soft hyphen in each longer word."""
    return " ".join(f"{word[:2]}\u00ad{word[2:]}" if len(word) > 3 else word for word in text.split(" "))


CHANGES: dict[str, Callable[[str], str]] = {
    "tab": first_space_becomes("\t"),
    "no-break space": first_space_becomes("\u00a0"),
    "narrow no-break space": first_space_becomes("\u202f"),
    "thin space": first_space_becomes("\u2009"),
    "ideographic space": first_space_becomes("\u3000"),
    "byte order mark": "\ufeff{}".format,
    "left-to-right mark": "\u200e{}".format,
    "soft hyphens": hyphenated,
    "zero-width space": first_space_becomes(" \u200b"),
    "word joiner": first_space_becomes(" \u2060"),
    "doubled spaces": lambda text: text.replace(" ", "  "),
    "leading spaces": "  {}".format,
    "trailing space": "{} ".format,
    "carriage return": "{}\r".format,
    "line feed": "{}\n".format,
}
NOTHING_SEEN = (
    "\u200b", "\ufeff", "\u00ad", "\u200e", "\u2060", "\ufe0f", "\u200d", "\u202e\u202c", "\u3000\u200b ", "\u2800",
    "\x00\t\n",
)  # fmt: skip

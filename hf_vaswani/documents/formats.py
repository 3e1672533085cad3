"""The formats of documents, and the suffixes of their files."""

from pathlib import PurePath

OFFICE = ("docx", "odt", "pptx", "odp", "xlsx", "ods")
FORMATS = (
    "txt", "html", "xml", "xliff", "po", "srt", "vtt", "md", "json", "properties", "resx", "strings",
    "stringsdict", "tmx", *OFFICE,
)  # fmt: skip
# Those that are more than lines of text.
DOCUMENTS = tuple(kind for kind in FORMATS if kind != "txt")
OTHER_SUFFIXES = {
    ".htm": "html", ".xhtml": "xml", ".xlf": "xliff", ".sdlxliff": "xliff", ".mqxliff": "xliff", ".mxliff": "xliff",
    ".pot": "po", ".markdown": "md", ".docm": "docx",
    ".pptm": "pptx", ".xlsm": "xlsx", ".arb": "json",
}  # fmt: skip
SUFFIXES = {f".{kind}": kind for kind in FORMATS} | OTHER_SUFFIXES


# Files that are no text, and not read here.
NO_TEXT = (
    ".pdf", ".rtf", ".doc", ".xls", ".ppt", ".odg", ".pages", ".epub", ".zip", ".png", ".jpg",
)  # fmt: skip


def format_of(name: str) -> str | None:
    """The format of a document by its suffix, or `None`."""
    return SUFFIXES.get(PurePath(name).suffix.lower())

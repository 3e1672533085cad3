"""Documents that clients send, and their translations, which are kept for an hour."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ..documents import reading
from ..documents.formats import SUFFIXES, format_of
from ..errors import InputError
from .accounts import Refused

KEPT_SECONDS, MOST_BYTES = 3600, 200 * 1024 * 1024


@dataclass(eq=False)
class Document:
    """A document on its way.

    Attributes:
        name: file name, for the download.
        result: its translation, once it is done.
        error: why it has none, if so.
    """

    name: str
    size: int
    owner: str = ""
    characters: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    since: float = field(default_factory=time.monotonic)
    result: bytes | None = None
    error: str | None = None
    task: "asyncio.Task | None" = None

    @property
    def status(self) -> str:
        return "error" if self.error else "translating" if self.result is None else "done"


class Documents:
    """The documents of the last hour."""

    def __init__(self) -> None:
        self.by_id: dict[str, Document] = {}

    def add(self, document: Document) -> None:
        """Keep a document.

        Raises:
            Refused: there is no room.
        """
        now = time.monotonic()
        for old in [one for one in self.by_id.values() if now - one.since > KEPT_SECONDS]:
            del self.by_id[old.id]
        if sum(one.size for one in self.by_id.values()) + document.size > MOST_BYTES:
            raise Refused(503, "Too many documents are being kept; try again later")
        self.by_id[document.id] = document

    def find(self, number: str, key: str, owner: str) -> Document:
        """A document.

        Raises:
            Refused: there is none, or it is somebody else's.
        """
        document = self.by_id.get(number)
        if (
            document is None
            or not secrets.compare_digest(document.key.encode(), key.encode())
            or document.owner != owner
        ):
            raise Refused(404, "Document not found")
        return document


def safe_name(name: str) -> str:
    """The name of an uploaded file without any folders."""
    base = PurePosixPath(name.replace("\\", "/")).name
    return "".join(c for c in base if c.isprintable() and c not in '"<>|:*?') or "document.txt"


def read_uploaded(name: str, content: bytes) -> reading.Document:
    """An uploaded document, by the format that its name tells.

    Raises:
        Refused: the format is not known, or the content cannot be read.
    """
    kind = format_of(name)
    if kind is None:
        suffix, known = PurePosixPath(name).suffix.lower(), ", ".join(SUFFIXES)
        raise Refused(400, f"Invalid file: format {suffix or name} not supported; there are {known}")
    try:
        return reading.read_document(kind, content)
    except InputError as error:
        raise Refused(400, f"Invalid file: {error}") from None

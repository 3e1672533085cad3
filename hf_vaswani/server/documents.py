"""Documents that clients send, and their translations, which are kept for an hour."""

import asyncio
import multiprocessing
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from pebble import ProcessExpired, ProcessPool

from ..documents.formats import SUFFIXES, format_of
from ..documents.reading import fill_document, read_texts
from ..documents.tag_placement import Alignment
from ..errors import InputError
from ..runtime.memory import limit_memory
from .accounts import APIError, quoted

KEPT_SECONDS, MOST_BYTES = 3600, 200 * 1024 * 1024
# Of a process that reads or writes a document.
DOCUMENT_SECONDS, DOCUMENT_MEMORY, PROCESSES = 15, 2 * 1024**3, 2


@dataclass(frozen=True)
class Texts:
    """What is to be translated of a document.

    Attributes:
        has_tags: for each text whether there are tags in it.
    """

    kind: str
    content: bytes
    texts: list[str]
    has_tags: list[bool]


class DocumentReader:
    """Reads and writes documents in processes of their own, which end if a document takes too much."""

    @cached_property
    def _pool(self) -> ProcessPool:
        context = multiprocessing.get_context("spawn")
        return ProcessPool(PROCESSES, initializer=limit_memory, initargs=(DOCUMENT_MEMORY,), context=context)

    async def read(self, name: str, content: bytes) -> Texts:
        """A document, by the format that its name tells.

        Raises:
            APIError: the format is not known, or the content cannot be read.
        """
        kind = format_of(name)
        if kind is None:
            suffix, known = PurePosixPath(name).suffix.lower(), ", ".join(SUFFIXES)
            raise APIError(400, f"Invalid file: format {quoted(suffix or name)} not supported; there are {known}")
        return Texts(kind, content, *await self._run(read_texts, kind, content))

    async def fill(
        self,
        document: Texts,
        translations: Sequence[str],
        alignments: Sequence[Alignment | None],
        target_language: str | None,
    ) -> bytes:
        """The document with its translations; errors as in [`read`]."""
        return await self._run(
            fill_document, document.kind, document.content, translations, alignments, target_language
        )

    async def _run(self, work: Callable[..., Any], *arguments: object) -> Any:
        try:
            return await asyncio.wrap_future(self._pool.schedule(work, arguments, timeout=DOCUMENT_SECONDS))
        except InputError as error:
            raise APIError(400, f"Invalid file: {error}") from None
        except (MemoryError, ProcessExpired):
            raise APIError(400, "Invalid file: reading it takes too much memory. Split it.") from None
        except (FutureTimeout, TimeoutError):
            raise APIError(400, f"Invalid file: reading it takes more than {DOCUMENT_SECONDS} s. Split it.") from None

    def close(self) -> None:
        if "_pool" in vars(self):
            self._pool.stop()
            self._pool.join()


@dataclass(eq=False)
class Document:
    """A document on its way.

    Attributes:
        name: file name, for the download.
        result: its translation, once it is done.
        error: why it has none, if so.
        warnings: what its sender should know of it.
        via: code of the third language over which it is translated, if so.
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
    warnings: list[str] = field(default_factory=list)
    task: "asyncio.Task | None" = None
    via: str | None = None

    def bytes(self) -> int:
        """How much memory it takes; its translation is about as large as itself."""
        return self.size + (self.size if self.result is None else len(self.result))

    @property
    def status(self) -> str:
        return "error" if self.error else "translating" if self.result is None else "done"


class Documents:
    """The documents of the last hour."""

    def __init__(self) -> None:
        self.by_id: dict[str, Document] = {}

    def add(self, document: Document) -> None:
        """Keep a document. Where there is no room, the oldest ones of its owner go.

        Raises:
            APIError: there is still no room.
        """
        now = time.monotonic()
        for old in [one for one in self.by_id.values() if now - one.since > KEPT_SECONDS]:
            self.drop(old)
        kept = sum(one.bytes() for one in self.by_id.values())
        own = [one for one in self.by_id.values() if one.owner == document.owner and one.status != "translating"]
        for old in own:  # the oldest first
            if kept + document.bytes() <= MOST_BYTES:
                break
            self.drop(old)
            kept -= old.bytes()
        if kept + document.bytes() > MOST_BYTES:
            raise APIError(503, "Too many documents are being kept; try again later")
        self.by_id[document.id] = document

    def drop(self, document: Document) -> None:
        self.by_id.pop(document.id, None)

    @contextmanager
    def kept(self, document: Document) -> Iterator[None]:
        """Keep a document, unless the block fails; errors as in [`add`]."""
        self.add(document)
        try:
            yield
        except BaseException:
            self.drop(document)
            raise

    def find(self, number: str, key: str, owner: str) -> Document:
        """A document.

        Raises:
            APIError: there is none, or it is somebody else's.
        """
        document = self.by_id.get(number)
        if (
            document is None
            or not secrets.compare_digest(document.key.encode(), key.encode())
            or document.owner != owner
        ):
            raise APIError(404, "Document not found")
        return document


def safe_name(name: str) -> str:
    """The name of an uploaded file without any folders."""
    base = PurePosixPath(name.replace("\\", "/")).name
    return "".join(c for c in base if c.isprintable() and c not in '"<>|:*?') or "document.txt"

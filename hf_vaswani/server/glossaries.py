"""Glossaries that clients have created, each for its account: in memory, and in a folder if there is one."""

import csv
import hashlib
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import atomic_write, reading, writing
from ..text.glossary import Entry, Glossary
from ..text.languages import is_same_language
from .accounts import APIError, quoted
from .catalog import Pair

# All glossaries together, about, in memory; each entry takes more than its characters.
MOST_BYTES, ENTRY_BYTES = 500_000_000, 200
# Entries of the glossaries that are kept ready to be searched.
MOST_INDEXED = 500_000
FILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")


class Dictionary(BaseModel):
    """The terms of one pair of languages."""

    model_config = ConfigDict(extra="forbid")

    source_lang: str
    target_lang: str
    entries: dict[str, str]

    def is_of(self, source: str, target: str) -> bool:
        return is_same_language(self.source_lang, source) and is_same_language(self.target_lang, target)


class StoredGlossary(BaseModel):
    """A glossary, as it is in its file.

    Attributes:
        owner: hash of its account's key.
        creation_time: ISO 8601.
    """

    model_config = ConfigDict(extra="forbid")

    glossary_id: str = Field(default_factory=lambda: str(uuid4()))
    name: str
    owner: str
    creation_time: str = Field(
        default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    dictionaries: list[Dictionary]

    def find(self, source: str, target: str) -> Dictionary:
        """The dictionary of a pair.

        Raises:
            APIError: there is none.
        """
        for dictionary in self.dictionaries:
            if dictionary.is_of(source, target):
                return dictionary
        raise APIError(404, f"Dictionary not found: glossary {self.glossary_id} has none from {source} to {target}")

    def replaced(self, new: Dictionary) -> "StoredGlossary":
        """The glossary with a dictionary in place of its own for that pair."""
        rest = list(self.dictionaries)
        place = next((n for n, old in enumerate(rest) if old.is_of(new.source_lang, new.target_lang)), len(rest))
        rest[place : place + 1] = [new]
        return self.model_copy(update={"dictionaries": rest})

    def merged(self, new: Dictionary) -> "StoredGlossary":
        """The glossary with the entries of a dictionary besides, or in place of, its own for that pair."""
        old = next((own for own in self.dictionaries if own.is_of(new.source_lang, new.target_lang)), new)
        return self.replaced(new.model_copy(update={"entries": {**old.entries, **new.entries}}))

    def size(self) -> int:
        """About how many bytes of memory it takes."""
        entries = (entry for own in self.dictionaries for entry in own.entries.items())
        return len(self.name) + sum(ENTRY_BYTES + len(source) + len(target) for source, target in entries)


def combined(dictionaries: Iterable[Dictionary]) -> list[Dictionary]:
    """Dictionaries with those of one pair merged."""
    entries: dict[tuple[str, str], dict[str, str]] = {}
    for own in dictionaries:
        entries.setdefault((own.source_lang, own.target_lang), {}).update(own.entries)
    return [
        Dictionary(source_lang=source, target_lang=target, entries=own) for (source, target), own in entries.items()
    ]


class Glossaries:
    """All glossaries.

    Args:
        folder: where they are kept as files; `None` for memory alone.

    Raises:
        InputError: a file cannot be read, or the folder not be written to.
    """

    def __init__(self, folder: str | None = None):
        self._folder = Path(folder) if folder else None
        self._by_id: dict[str, StoredGlossary] = {}
        self._sizes: dict[str, int] = {}
        self._lock, self._indexing, self._indexed = Lock(), Lock(), _Indexed()
        if self._folder is None:
            return
        if self._folder.exists() and not self._folder.is_dir():
            raise InputError(f"{folder} is a file; glossaries are kept in a folder. Choose another.")
        with writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.iterdir()):
            if FILE.fullmatch(path.name):
                with reading(path):
                    content = path.read_text(encoding="utf-8")
                try:
                    glossary = StoredGlossary.model_validate_json(content)
                except ValidationError:
                    raise InputError(f"{path} is not a glossary of this server. Restore or delete it.") from None
                self._by_id[glossary.glossary_id] = glossary
                self._sizes[glossary.glossary_id] = glossary.size()

    def of_account(self, key: str) -> list[StoredGlossary]:
        """The glossaries of an account, the oldest first."""
        own = [glossary for glossary in list(self._by_id.values()) if glossary.owner == _owner(key)]
        return sorted(own, key=lambda glossary: glossary.creation_time)

    def find(self, number: str, key: str) -> StoredGlossary:
        """A glossary of an account.

        Raises:
            APIError: it has no such glossary.
        """
        glossary = self._by_id.get(number)
        if glossary is None or glossary.owner != _owner(key):
            raise APIError(404, f"Glossary not found: {quoted(number)}")
        return glossary

    def create(self, name: str, dictionaries: Iterable[Dictionary], key: str) -> StoredGlossary:
        """Add a glossary.

        Raises:
            APIError: its terms cannot be used, or there is no room.
        """
        glossary = StoredGlossary(name=name, owner=_owner(key), dictionaries=combined(dictionaries))
        self._store(glossary, None)
        return glossary

    def change(self, number: str, key: str, edit: Callable[[StoredGlossary], StoredGlossary]) -> StoredGlossary:
        """Replace a glossary with what `edit` makes of it; errors as in [`find`] and [`create`]."""
        while True:
            before = self.find(number, key)
            if self._store(changed := edit(before), before):
                return changed

    def delete(self, number: str, key: str) -> None:
        """Remove a glossary; errors as in [`find`]."""
        with self._lock:
            self.find(number, key)
            if self._folder:
                (self._folder / f"{number}.json").unlink(missing_ok=True)
            del self._by_id[number], self._sizes[number]

    def _store(self, glossary: StoredGlossary, before: StoredGlossary | None) -> bool:
        """Keep a glossary in place of the one before, unless another one has taken that place meanwhile.

        Nobody waits for the terms of another's glossary.
        """
        number, size = glossary.glossary_id, glossary.size()
        for dictionary in glossary.dictionaries:
            _glossary([dictionary])
        content = glossary.model_dump_json() if self._folder else ""
        with self._lock:
            if self._by_id.get(number) is not before:
                return False
            if sum(self._sizes.values()) - self._sizes.get(number, 0) + size > MOST_BYTES:
                raise APIError(400, "Too many glossaries are kept here; delete some")
            if self._folder:
                with atomic_write(self._folder / f"{number}.json") as path:
                    path.write_text(content, encoding="utf-8")
            self._by_id[number], self._sizes[number] = glossary, size
        return True

    def terms(self, numbers: Sequence[str], pair: Pair, key: str) -> Glossary:
        """The terms of glossaries for a pair; where they differ, the first one counts.

        Raises:
            APIError: there is no such glossary, or it has no terms for the pair.
        """
        dictionaries = [self.find(number, key).find(*pair) for number in numbers]
        with self._indexing:
            return self._indexed.get(dictionaries)


class _Indexed:
    """The glossaries that were used last, made from dictionaries: making one takes long."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, ...], tuple[list[Dictionary], Glossary]] = OrderedDict()

    def get(self, dictionaries: list[Dictionary]) -> Glossary:
        key = tuple(map(id, dictionaries))  # which stay the same as long as the dictionaries are kept here
        if key not in self._kept:
            self._kept[key] = dictionaries, _glossary(dictionaries)
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and self._entries() > MOST_INDEXED:
            self._kept.popitem(last=False)
        return self._kept[key][1]

    def _entries(self) -> int:
        return sum(len(own.entries) for dictionaries, _ in self._kept.values() for own in dictionaries)


def _glossary(dictionaries: Sequence[Dictionary]) -> Glossary:
    entries: dict[str, Entry] = {}
    for dictionary in dictionaries:
        for source, target in dictionary.entries.items():
            entries.setdefault(source, Entry(source, (target,)))
    try:
        return Glossary(entries.values())
    except ValueError as error:
        raise APIError(400, f"Invalid glossary entries provided: {quoted(error, 500)}") from None


def typed_glossary(text: str) -> Glossary:
    """The glossary of terms that a request has itself: one a line, with a tab before its translation.

    Raises:
        APIError: they cannot be used.
    """
    return _glossary([Dictionary(source_lang="", target_lang="", entries=parse_entries(text, "\t"))])


def _owner(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def parse_entries(text: str, separator: str) -> dict[str, str]:
    """Entries of a table, one a line.

    Line breaks and tabs within a quoted cell of CSV are spaces in its term.

    Args:
        separator: a tab, or a comma for CSV with quotes.

    Raises:
        APIError: a line is not an entry, or a source term is there twice.
    """
    entries: dict[str, str] = {}
    quoting = {"quoting": csv.QUOTE_NONE} if separator == "\t" else {}
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=separator, **quoting)
    try:
        for cells in rows:
            if not any(map(str.strip, cells)):
                continue
            source, target = (*(" ".join(cell.split()) for cell in cells[:2]), "", "")[:2]
            problem = "has no source and target term" if not source or not target else "repeats a source term"
            if not source or not target or source in entries:
                line = quoted("  ".join(cells))
                raise APIError(400, f"Invalid glossary entries provided: line {rows.line_num} {problem}: {line!r}")
            entries[source] = target
    except csv.Error as error:
        raise APIError(400, f"Invalid glossary entries provided: line {rows.line_num}: {error}") from None
    if not entries:
        raise APIError(400, "Invalid glossary entries provided: there are none")
    return entries

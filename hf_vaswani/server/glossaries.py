"""Glossaries that clients have created, each for its account: in memory, and in a folder if there is one."""

import csv
import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import atomic_write, reading, writing
from ..text.glossary import Entry, Glossary
from ..text.languages import is_same_language
from .accounts import Refused
from .catalog import Pair

# Of all glossaries together, in characters.
MOST_CHARACTERS = 100_000_000
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
            Refused: there is none.
        """
        for dictionary in self.dictionaries:
            if dictionary.is_of(source, target):
                return dictionary
        raise Refused(404, f"Dictionary not found: glossary {self.glossary_id} has none from {source} to {target}")

    def changed(self, dictionaries: Iterable[Dictionary], name: str | None = None) -> "StoredGlossary":
        """The glossary with dictionaries in place of its own for their pairs."""
        rest = list(self.dictionaries)
        for new in dictionaries:
            place = next((n for n, old in enumerate(rest) if old.is_of(new.source_lang, new.target_lang)), len(rest))
            rest[place : place + 1] = [new]
        return self.model_copy(update={"dictionaries": rest, "name": name or self.name})

    def size(self) -> int:
        return sum(len(term) for own in self.dictionaries for pair in own.entries.items() for term in pair)


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
        if self._folder is None:
            return
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

    def of_account(self, key: str) -> list[StoredGlossary]:
        """The glossaries of an account, the oldest first."""
        own = [glossary for glossary in self._by_id.values() if glossary.owner == _owner(key)]
        return sorted(own, key=lambda glossary: glossary.creation_time)

    def find(self, number: str, key: str) -> StoredGlossary:
        """A glossary of an account.

        Raises:
            Refused: it has no such glossary.
        """
        glossary = self._by_id.get(number)
        if glossary is None or glossary.owner != _owner(key):
            raise Refused(404, f"Glossary not found: {number}")
        return glossary

    def create(self, name: str, dictionaries: list[Dictionary], key: str) -> StoredGlossary:
        """Add a glossary; errors as in [`put`]."""
        glossary = StoredGlossary(name=name, owner=_owner(key), dictionaries=dictionaries)
        self.put(glossary)
        return glossary

    def put(self, glossary: StoredGlossary) -> None:
        """Keep a glossary, in place of an older one with its id.

        Raises:
            Refused: its terms cannot be used, or there is no room.
        """
        for dictionary in glossary.dictionaries:
            _glossary([dictionary])
        others = (other.size() for number, other in self._by_id.items() if number != glossary.glossary_id)
        if sum(others) + glossary.size() > MOST_CHARACTERS:
            raise Refused(400, "Too many glossaries are kept here; delete some")
        if self._folder:
            with atomic_write(self._folder / f"{glossary.glossary_id}.json") as path:
                path.write_text(glossary.model_dump_json(), encoding="utf-8")
        self._by_id[glossary.glossary_id] = glossary

    def delete(self, glossary: StoredGlossary) -> None:
        if self._folder:
            (self._folder / f"{glossary.glossary_id}.json").unlink(missing_ok=True)
        del self._by_id[glossary.glossary_id]

    def terms(self, numbers: Sequence[str], pair: Pair, key: str) -> Glossary:
        """The terms of glossaries for a pair; where they differ, the first one counts.

        Raises:
            Refused: there is no such glossary, or it has no terms for the pair.
        """
        return _terms(tuple(_Key(self.find(number, key), pair) for number in numbers))


class _Key:
    """A dictionary by its identity, to build its index once."""

    def __init__(self, glossary: StoredGlossary, pair: Pair):
        self.dictionary = glossary.find(*pair)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.dictionary is self.dictionary

    def __hash__(self) -> int:
        return id(self.dictionary)


@lru_cache(64)
def _terms(keys: tuple[_Key, ...]) -> Glossary:
    return _glossary([key.dictionary for key in keys])


def _glossary(dictionaries: Sequence[Dictionary]) -> Glossary:
    entries: dict[str, Entry] = {}
    for dictionary in dictionaries:
        for source, target in dictionary.entries.items():
            entries.setdefault(source, Entry(source, (target,)))
    try:
        return Glossary(entries.values())
    except ValueError as error:
        raise Refused(400, f"Invalid glossary entries provided: {error}") from None


def _owner(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def parse_entries(text: str, separator: str) -> dict[str, str]:
    """Entries of a table, one a line.

    Args:
        separator: a tab, or a comma for CSV with quotes.

    Raises:
        Refused: a line is not an entry, or a source term is there twice.
    """
    entries: dict[str, str] = {}
    quoting = {"quoting": csv.QUOTE_NONE} if separator == "\t" else {}
    try:
        for number, cells in enumerate(csv.reader(text.splitlines(), delimiter=separator, **quoting), start=1):
            if not any(cells):
                continue
            source, target = (*(cell.strip() for cell in cells[:2]), "", "")[:2]
            problem = "has no source and target term" if not source or not target else "repeats a source term"
            if not source or not target or source in entries:
                raise Refused(400, f"Invalid glossary entries provided: line {number} {problem}: {'  '.join(cells)!r}")
            entries[source] = target
    except csv.Error as error:
        raise Refused(400, f"Invalid glossary entries provided: {error}") from None
    if not entries:
        raise Refused(400, "Invalid glossary entries provided: there are none")
    return entries

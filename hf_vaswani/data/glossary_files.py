"""Reads glossaries: tab-separated, CSV and TBX (ISO 30042, versions 2 and 3).

Tables have a source term, a target term or several with `|` between them, and optionally a case rule: `exact` or
`ignore`. A first row `source, target` is a header. Of a TBX file, terms that are marked as deprecated or superseded
are left out.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ..errors import InputError, listed
from ..text.glossary import Entry, Glossary, glossary_errors
from ..text.languages import LanguagePair, is_same_language
from .sources.text_files import read_lines

TABLES = {".tsv": "\t", ".txt": "\t", ".csv": ","}
TBX = (".tbx", ".xml")
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# What the two versions of TBX call the same elements.
CONCEPTS, SECTIONS, TERMS = ("termEntry", "conceptEntry"), ("langSet", "langSec"), ("tig", "ntig", "termSec")
OUTDATED = re.compile("deprecated|superseded", re.IGNORECASE)
Found = Iterator[tuple[str, Entry]]


def read_glossary(path: str | Path, languages: LanguagePair = (None, None)) -> Glossary:
    """Read a glossary.

    Args:
        languages: codes of source and target, which a TBX file needs.

    Raises:
        InputError: the file cannot be read, or its entries cannot be used; the message lists all of them by line.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (*TABLES, *TBX):
        raise InputError(f"{path} is not a glossary: its name must end with one of {', '.join((*TABLES, *TBX))}.")
    found = list(_read_tbx(path, languages) if suffix in TBX else _read_table(path, TABLES[suffix]))
    if not found:
        raise InputError(f"{path} has no terms.")
    entries = [entry for _, entry in found]
    if errors := glossary_errors(entries):
        raise InputError.of([f"{path}, {found[number][0]}: {error}." for number, error in errors.items()])
    return Glossary(entries)


def _read_table(path: str | Path, separator: str) -> Found:
    """The rows of a table, with the numbers of their lines."""
    quoting = {"quoting": csv.QUOTE_NONE} if separator == "\t" else {"skipinitialspace": True}
    rows = csv.reader((f"{line}\n" for line in read_lines(path)), delimiter=separator, **quoting)
    errors = []
    for number, cells in enumerate(_cells(path, rows)):
        cells = [" ".join(cell.split()) for cell in cells]  # also of cells with line breaks
        if not any(cells) or (number == 0 and [cell.lower() for cell in cells[:2]] == ["source", "target"]):
            continue
        where = f"line {rows.line_num}"
        if len(cells) < 2:
            separated = "a tab" if separator == "\t" else "a comma"
            errors.append(f"{path}, {where}: there is no target term. Put {separated} between source and target.")
            continue
        source, targets, case = (*cells, "")[:3]
        yield where, Entry(source, tuple(target.strip() for target in targets.split("|")), case or None)
    if errors:
        raise InputError.of(errors)


def _cells(path: str | Path, rows: object) -> Iterator[list[str]]:
    """The cells of each row that a `csv.reader` finds."""
    try:
        yield from rows
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}.") from None


def _read_tbx(path: str | Path, languages: LanguagePair) -> Found:
    """The terms of each concept: each in the source language stands for those in the target language."""
    data = "\n".join(read_lines(path))
    if "<!ENTITY" in data:
        raise InputError(f"{path} declares entities, which are not read. Write the characters themselves.")
    try:
        root = ElementTree.fromstring(data.encode())
    except ElementTree.ParseError as error:
        line, column = error.position
        raise InputError(f"{path}, line {line}, column {column + 1}: not valid XML ({error.msg}).") from None
    concepts = [element for element in root.iter() if _name(element) in CONCEPTS]
    sections = [
        [(part.get(LANGUAGE, ""), part) for part in concept if _name(part) in SECTIONS] for concept in concepts
    ]
    codes = {code for those in sections for code, _ in those}
    if None in languages or not all(any(is_same_language(code, own) for own in codes) for code in languages):
        raise InputError(
            f"{path} has terms in {listed(codes) or 'no language'}. Choose the two languages with --source_language "
            "and --target_language."
        )
    for number, (concept, those) in enumerate(zip(concepts, sections), start=1):
        source, target = (
            [term for code, part in those if is_same_language(code, language) for term in _terms(part)]
            for language in languages
        )
        for term in dict.fromkeys(source) if target else ():
            yield f"entry {concept.get('id', number)}", Entry(term, tuple(dict.fromkeys(target)))


def _terms(section: ElementTree.Element) -> Iterator[str]:
    """The terms of a language, without outdated ones."""
    for group in (part for part in section if _name(part) in TERMS):
        notes = (note.text or "" for note in group.iter() if _name(note) == "termNote")
        if not any(map(OUTDATED.search, notes)):
            yield from (" ".join("".join(part.itertext()).split()) for part in group.iter() if _name(part) == "term")


def _name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]

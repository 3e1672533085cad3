"""Finds the two columns of a table, or fields of a record, that hold source and target.

The rule is the same for all formats and for Hub datasets. The fields of a column `translation`, as in
`{"translation": {"de": "Hund", "en": "dog"}}`, count as additional columns. The two columns are the ones that the user
names, or else the ones named after the two language codes, or else `source` and `target`.
"""

import re
from collections.abc import Iterable
from typing import Any

from ...errors import InputError
from .parallel_files import Pair

NESTED = "translation"
DEFAULT_COLUMNS = ("source", "target")
Languages = tuple[str | None, str | None]
# Words that column names are made of: names for the sides of a pair, languages, and language codes.
WORDS_OF_NAMES = """
source target src tgt trg sentence sentences text input output original translation translated reference language lang
arabic chinese czech danish dutch english finnish french german greek hebrew hindi hungarian italian japanese korean
norwegian persian polish portuguese romanian russian spanish swedish turkish ukrainian vietnamese
deutsch englisch französisch spanisch italienisch anglais allemand français italien inglés alemán francés español
ar bg bn ca cs da de el en es et eu fa fi fr ga gl he hi hr hu hy id is it ja ka kk ko lt lv mk ms nb nl nn no pl pt ro
ru sk sl sq sr sv sw ta th tr uk ur vi zh
ara ces deu ell eng fas fin fra fre ger heb hin hun ita jpn kor nld pol por ron rus spa swe tur ukr vie zho
"""


def candidate_columns(named: tuple[str | None, str | None], languages: Languages) -> list[tuple[str, str]]:
    """The pairs of columns to look for, best first."""
    if None not in named:
        return [named]
    # One language code cannot name both columns.
    return [languages, DEFAULT_COLUMNS] if None not in languages and len(set(languages)) == 2 else [DEFAULT_COLUMNS]


def choose_columns(names: Iterable[str], candidates: list[tuple[str, str]], where: str) -> tuple[str, str]:
    """The first candidate whose two columns both exist.

    Args:
        names: the existing columns, including those in `translation`.
        where: how error messages begin: "corpus.csv, line 1".

    Raises:
        InputError: no candidate matches; lists the existing columns.
    """
    names = list(names)
    for pair in candidates:
        if set(pair) <= set(names):
            return pair
    wanted = " or ".join(f"'{source}' and '{target}'" for source, target in candidates)
    raise InputError(
        f"{where}: no columns {wanted}. Available: {quoted(names)}. Specify the two that hold the text with "
        "source_column and target_column."
    )


def stored_columns(names: Iterable[str], chosen: tuple[str, str]) -> list[str]:
    """The table columns to read to get the chosen ones: themselves, or `translation` if they are inside it."""
    return list(dict.fromkeys(name if name in names else NESTED for name in chosen))


def looks_like_names(cells: Iterable[str], candidates: list[tuple[str, str]]) -> bool:
    """Whether two cells are more likely column names than a pair, such as `German`, `sentence_en` or `src.de`."""
    known = {*WORDS_OF_NAMES.split()} | {name.casefold() for pair in candidates for name in pair}
    cells = [cell.casefold() for cell in cells]
    return cells[0] != cells[1] and all(
        cell in known or (set(parts := re.findall(r"[^\W\d_]+", cell)) <= known and 0 < len(parts) <= 3)
        for cell in cells
    )


def flat_record(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the fields of its `translation` added; if names clash, the record's own fields win."""
    nested = record.get(NESTED)
    return {**nested, **record} if isinstance(nested, dict) else record


def pair_of(record: dict[str, Any], columns: tuple[str, str], where: str) -> Pair:
    """The source and target of a flat record; null becomes an empty text.

    Raises:
        InputError: a column is missing in this record, or is not text.
    """
    source, target = (record.get(column) for column in columns)
    if type(source) is str and type(target) is str:
        return source, target
    if NESTED in record and record[NESTED] is None:
        record = dict.fromkeys(columns) | record
    for column in columns:
        if column not in record:
            raise InputError(f"{where}: column '{column}' is missing here. Available: {quoted(record)}.")
        value = record[column]
        if not isinstance(value, str | None):
            raise InputError(f"{where}: column '{column}' contains {type(value).__name__} {value!r:.60}, not text.")
    source, target = (record[column] for column in columns)
    return source or "", target or ""


def quoted(names: Iterable[str]) -> str:
    """Quote names for a message, shortened, since without a header row they may be whole sentences."""
    names = list(names)
    more = [f"{len(names) - 20} more"] if len(names) > 20 else []
    return ", ".join([f"{name!r:.60}" for name in names[:20]] + more) or "none"

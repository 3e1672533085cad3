"""Reads files that hold both sides of a parallel text: tab-separated, CSV, JSON lines, Parquet and TMX.

Each reader lazily yields `(number, record)`: the line in which the record begins (or its row in Parquet), counted from
1, and its columns by name. Empty lines are skipped.

The first row of a tab-separated or CSV file is a header if it names two of the columns that are looked for.
If it does not, the user has named no columns, and the row has two columns, then it is a pair: source first, target
second. If it looks like a header with other names, the user must say whether it is one.
"""

import csv
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...errors import InputError, counted, reason
from ...text.normalization import is_blank
from .text_files import COMPRESSED, LONGEST_LINE, Pair, check_file, iterate_lines
from .tmx import read_tmx

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
Records = Iterator[tuple[int, dict[str, Any]]]
Candidates = list[tuple[str, str]]
ROWS_AT_ONCE = 1000
# Characters that separate columns in some files.
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
# So many rows whose cells are all in quotation marks are not a coincidence.
MANY_QUOTED = 50


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


def flat_record(record: dict[str, object]) -> dict[str, object]:
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


def iterate_records(path: str | Path, candidates: Candidates, header: bool | None = None) -> Records:
    """Lazily yield the records of a file, whose suffix determines its format.

    Args:
        candidates: pairs of columns to look for, from [`candidate_columns`].
        header: whether the first row of a tab-separated or CSV file is a header; `None` to detect it.

    Raises:
        InputError: the suffix is unknown, or a line is not valid in the format.
    """
    reader = READERS.get(file_format(path))
    if reader is None:
        raise InputError(f"{path}: {unknown_format(path)}")
    yield from reader(path, candidates, header)


def file_format(path: str | Path) -> str:
    """The suffix of a file's format, not of its compression: ".tsv" for "corpus.tsv.gz"."""
    path = Path(path)
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def unknown_format(path: str | Path) -> str | None:
    """Say why the format of a file is not supported, judging by its name; None if it is."""
    if file_format(path) == ".parquet" and Path(path).suffix.lower() in COMPRESSED:
        return "Parquet files are compressed internally; decompress it."
    if file_format(path) in READERS:
        return None
    known = ", ".join(READERS)
    return f"unknown suffix. A file with both sides is one of {known} (text also with {' or '.join(COMPRESSED)})."


def _delimited(
    path: str | Path, candidates: Candidates, header: bool | None, rows: Iterator[tuple[int, list[str]]]
) -> Records:
    columns = None
    for number, cells in rows:
        if columns is None:
            columns, is_header = _columns(f"{path}, line {number}", cells, candidates, header)
            if is_header:
                continue
        if len(cells) != len(columns):
            raise InputError(
                f"{path}, line {number}: {counted(len(cells), 'column')} where {len(columns)} are expected."
                f"{_separator_hint(cells)}"
            )
        yield number, dict(zip(columns, cells))


def _columns(where: str, cells: list[str], candidates: Candidates, header: bool | None) -> tuple[list[str], bool]:
    """The column names given the first row, and whether that row is a header; arguments as in [`iterate_records`].

    Raises:
        InputError: columns are missing, or it is unclear whether the row is a header.
    """
    names = [cell.strip() for cell in cells]
    is_named = header is not False and any(set(pair) <= set(names) for pair in candidates)
    if not is_named and len(cells) == 2 and DEFAULT_COLUMNS in candidates:
        if header is None and looks_like_names(names, candidates):
            raise InputError(
                f"{where}: '{names[0]}' and '{names[1]}' look like column names. If they are, use --header true "
                "(the first column is the source), or specify both with --source_column and --target_column; if "
                "they are a pair, use --header false."
            )
        return list(DEFAULT_COLUMNS), bool(header)
    if header is False:
        hint = _header_hint(cells, candidates)
        raise InputError(f"{where}: without a header (header: false), a file has two columns, not {len(cells)}.{hint}")
    try:
        chosen = choose_columns(names, candidates, where)
    except InputError as error:
        raise InputError(f"{error}{_separator_hint(cells)}{_header_hint(cells, candidates)}") from None
    for column in chosen:
        if names.count(column) > 1:
            raise InputError(f"{where}: more than one column is named '{column}'.")
    return names, True


def _header_hint(cells: list[str], candidates: Candidates) -> str:
    """How to name the columns of a file that has more than two and may have no header; else empty."""
    source, target = candidates[0]
    return (
        f" If the file has no header, add a line before its first one that names all {len(cells)} columns: '{source}' "
        f"and '{target}' for the text, any other name for the rest."
        if len(cells) > 2
        else ""
    )


def _separator_hint(cells: list[str]) -> str:
    """What to do if a row has only one cell, with something in it that may separate columns; else empty."""
    found = [name for character, name in SEPARATORS.items() if len(cells) == 1 and character in cells[0]]
    return f" Are its columns separated by {found[0]}? A .tsv file has tabs, and a .csv file commas." if found else ""


def _read_tsv(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    """Read tab-separated rows; quotation marks are plain text, as is usual in parallel corpora."""
    rows = (
        (number, line.split("\t")) for number, line in enumerate(iterate_lines(path), start=1) if line.strip(" \r")
    )
    # A header may have none.
    first = list(islice(rows, MANY_QUOTED + 1))
    if len(first) > MANY_QUOTED and all(
        len(cell) > 1 and cell[0] == cell[-1] == '"' for _, row in first[1:] for cell in row
    ):
        raise InputError(
            f"{path}: all cells are in quotation marks, which would be part of the text. Convert the file to .csv, "
            'where they are not: python -c "import csv, sys; csv.writer(sys.stdout).writerows(csv.reader(sys.stdin, '
            f"delimiter='\\t'))\" < {shlex.quote(str(path))} > {shlex.quote(str(Path(path).with_suffix('.csv')))}"
        )
    return _delimited(path, candidates, header, chain(first, rows))


def _read_csv(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    return _delimited(path, candidates, header, _csv_rows(path))


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield comma-separated rows (RFC 4180): a quoted field may contain commas and line breaks."""
    # A cell may be as long as a line. The limit is global to the process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader((line + "\n" for line in iterate_lines(path)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            why = f"{str(error).rstrip('.?')}. Is a quotation mark not closed?"
            if "new-line character" in str(error):
                why = "a carriage return within a cell. Quote the cell, or remove it."
            raise InputError(f"{path}, line {number}: {why}") from None
        if cells is None:
            return
        if cells:
            yield number, cells


def _read_json_lines(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    for number, line in enumerate(iterate_lines(path), start=1):
        if is_blank(line):
            continue
        try:
            record = json.loads(line)
            # "\ud800" alone is valid JSON, but it is half a character and not text.
            if "\\u" in line:
                json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"{path}, line {number}: an unpaired surrogate (\\ud800 to \\udfff).") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON: {reason(error)}") from None
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {number}: not an object such as {{"source": …, "target": …}}.')
        yield number, flat_record(record)


def _read_parquet(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    import pyarrow
    from pyarrow import parquet

    check_file(path)
    number = 0
    try:
        # Buffered, since otherwise whole column chunks are loaded, and a chunk can be the whole file.
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            wanted = _parquet_columns(file.schema_arrow, candidates, str(path))
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
                for record in batch.to_pylist():
                    number += 1
                    yield number, flat_record(record)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read after row {number}: {reason(error)}. Is it damaged?") from None


def _parquet_columns(schema: object, candidates: Candidates, where: str) -> list[str]:
    """The columns to read."""
    import pyarrow

    nested = schema.field(NESTED).type if NESTED in schema.names else None
    inner = [field.name for field in nested] if nested is not None and pyarrow.types.is_struct(nested) else []
    columns = stored_columns(schema.names, choose_columns([*schema.names, *inner], candidates, where))
    for column in columns:
        if schema.names.count(column) > 1:
            raise InputError(f"{where}: more than one column is named '{column}'.")
    return columns


READERS: dict[str, Callable[[str | Path, Candidates, bool | None], Records]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json-lines": _read_json_lines,
    ".parquet": _read_parquet,
    ".tmx": read_tmx,
}

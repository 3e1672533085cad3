"""Reads files that hold both sides of a parallel text: tab-separated, CSV, JSON lines and Parquet.

Each reader yields `(number, record)` as they are asked for: the line that the record begins in (for Parquet its row),
from 1, and its columns by name. Lines without any character are passed over.

A row of names opens a tab-separated or CSV file if two columns that are looked for stand in it (see `columns.py`). If
they do not, none was named, and the row has two columns, then it is a pair already: source first, target second. Where
it looks like a row of other names, the caller must say which of the two it is.
"""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError, counted, reason
from .columns import DEFAULT_COLUMNS, NESTED, choose_columns, flat_record, looks_like_names
from .text_files import COMPRESSED, LONGEST_LINE, check_file, iterate_lines

Records = Iterator[tuple[int, dict[str, Any]]]
Candidates = list[tuple[str, str]]
ROWS_AT_ONCE = 1000


def iterate_records(path: str | Path, candidates: Candidates, header: bool | None = None) -> Records:
    """The records of a file, by its suffix.

    Args:
        candidates: pairs of columns to look for, of [`candidate_columns`].
        header: whether the first row of a tab-separated or CSV file has names; `None` where that is to be seen.

    Raises:
        InputError: of an unknown suffix, and whatever the file does not keep of its format, with its line.
    """
    reader = READERS.get(file_format(path))
    if reader is None:
        raise InputError(f"{path}: {unknown_format(path)}")
    yield from reader(path, candidates, header)


def file_format(path: str | Path) -> str:
    """The suffix that says the format, without that of a compression: "corpus.tsv.gz" is ".tsv"."""
    path = Path(path)
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def unknown_format(path: str | Path) -> str | None:
    """What is wrong with a file's name; None where its format is known."""
    is_packed = Path(path).suffix.lower() in COMPRESSED
    if file_format(path) == ".parquet" and is_packed:
        return "Parquet files are compressed inside; unpack it."
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
            )
        yield number, dict(zip(columns, cells))


def _columns(where: str, cells: list[str], candidates: Candidates, header: bool | None) -> tuple[list[str], bool]:
    """The names of columns by the first row, and whether it is a row of names; arguments as of [`iterate_records`].

    Raises:
        InputError: where the columns that are looked for are not there, or it cannot be seen what the row is.
    """
    names = [cell.strip() for cell in cells]
    is_named = header is not False and any(set(pair) <= set(names) for pair in candidates)
    if not is_named and len(cells) == 2 and DEFAULT_COLUMNS in candidates:
        if header is None and looks_like_names(names, candidates):
            raise InputError(
                f"{where}: '{names[0]}' and '{names[1]}' look like names of columns. If they are, say --header true "
                "(then the first column is the source), or name both with --source_column and --target_column; if "
                "they are a pair, say --header false."
            )
        return list(DEFAULT_COLUMNS), bool(header)
    if header is False:
        raise InputError(f"{where}: without a row of names (header: false), a file has two columns, not {len(cells)}.")
    for column in choose_columns(names, candidates, where):
        if names.count(column) > 1:
            raise InputError(f"{where}: more than one column is called '{column}'.")
    return names, True


def _read_tsv(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    """Quotation marks are text here, as in the tab-separated files of this field."""
    rows = ((number, line.split("\t")) for number, line in enumerate(iterate_lines(path), start=1) if line)
    return _delimited(path, candidates, header, rows)


def _read_csv(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    return _delimited(path, candidates, header, _csv_rows(path))


def _csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Rows separated by commas, as RFC 4180 has them: a quoted field may hold commas and line ends."""
    # A cell may be as long as a line; the limit is one for all readers of the process.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    reader = csv.reader((line + "\n" for line in iterate_lines(path)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {number}: {str(error).rstrip('.?')}. Are its quotation marks in pairs?"
            ) from None
        if cells is None:
            return
        if cells:
            yield number, cells


def _read_json_lines(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line or line.isspace():
            continue
        try:
            record = json.loads(line)
            # "\ud800" alone is JSON, but half a character and no text.
            if "\\u" in line:
                json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"{path}, line {number}: half of a surrogate pair (\\ud800 to \\udfff) alone.") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON: {reason(error)}") from None
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {number}: not an object, as {{"source": …, "target": …}} is one.')
        yield number, flat_record(record)


def _read_parquet(path: str | Path, candidates: Candidates, header: bool | None) -> Records:
    import pyarrow
    from pyarrow import parquet

    check_file(path)
    number = 0
    try:
        # Buffered reading: otherwise whole column chunks are loaded, which can be the whole file.
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            wanted = _parquet_columns(file.schema_arrow, candidates, str(path))
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=wanted):
                for record in batch.to_pylist():
                    number += 1
                    yield number, flat_record(record)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read after row {number}: {reason(error)}. Is it damaged?") from None


def _parquet_columns(schema: Any, candidates: Candidates, where: str) -> list[str]:
    """The columns to read, out of the many that a table may have."""
    import pyarrow

    names = list(schema.names)
    nested = schema.field(NESTED).type if NESTED in names else None
    inner = [field.name for field in nested] if nested is not None and pyarrow.types.is_struct(nested) else []
    return list({name if name in names else NESTED: 0 for name in choose_columns([*names, *inner], candidates, where)})


READERS: dict[str, Callable[[str | Path, Candidates, bool | None], Records]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json-lines": _read_json_lines,
    ".parquet": _read_parquet,
}

"""Reads shards row by row, and writes them with their translations: text, JSON lines and Parquet.

A text shard becomes a shard of translations. In the other formats, each row keeps its columns and gets one more. An
output shard gets its final name only when it is complete.
"""

import gzip
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..data.sources.tables import ROWS_AT_ONCE, file_format
from ..data.sources.text_files import COMPRESSED, Report, check_file, iterate_lines
from ..errors import InputError, reason
from ..files import atomic_write
from ..text.normalization import is_blank
from .lines import Line, as_text
from .segments import Result


class Columns(NamedTuple):
    """Which column of a table is translated, and which one gets the translations."""

    source: str
    output: str


class ShardFormat(NamedTuple):
    """How a file format is read and written.

    Attributes:
        texts: reads the texts of a shard, row by row; None for a row without text.
        write: writes the output shard, from the shard and a file with its translations, one per line.
        write_line: formats a translation as a line of that file.
    """

    texts: Callable[[Path, Columns, Report], Iterator[str | None]]
    write: Callable[[Path, Path, Path, Columns], None]
    write_line: Callable[[Line, Result], str]


def shard_format(path: Path) -> ShardFormat | None:
    """The format of a shard, by its file name; None if the file is not a shard."""
    name = file_format(path)
    is_packed_table = name == ".parquet" and path.suffix.lower() in COMPRESSED
    return None if is_packed_table else FORMATS.get(name)


def as_json_text(line: Line, result: Result) -> str:
    """The best translation as a JSON string, which keeps its line breaks; empty if there is none."""
    return json.dumps("" if isinstance(result, Exception) else result[0]["translation_text"], ensure_ascii=False)


def _texts_of_lines(path: Path, columns: Columns, report: Report) -> Iterator[str]:
    return iterate_lines(path, report)


def _write_lines(shard: Path, translations: Path, output: Path, columns: Columns) -> None:
    if output.suffix.lower() not in COMPRESSED:
        translations.replace(output)
        return
    with atomic_write(output) as part, _writer(part, output.suffix) as file, open(translations, "rb") as lines:
        shutil.copyfileobj(lines, file)


def _texts_of_json(path: Path, columns: Columns, report: Report) -> Iterator[str | None]:
    keys: dict[str, None] = {}
    for number, record in _records(path):
        if record is not None and columns.output in record:
            raise InputError(f"{path}, line {number}: already has {columns.output!r}. Choose another --output_column.")
        keys.update(dict.fromkeys(record or {}))
        yield None if record is None else _text(record.get(columns.source), path, number, columns)
    # Some records may lack the text, but not all.
    if keys and columns.source not in keys:
        raise InputError(f"{path} has no {columns.source!r}, only {', '.join(map(repr, keys))}.")


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of a file of JSON lines, with their line numbers; None for an empty line.

    Raises:
        InputError: a line is not a JSON object.
    """
    for number, line in enumerate(iterate_lines(path, lambda number, problem: _not_json(path, number, problem)), 1):
        if is_blank(line):
            yield number, None
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            _not_json(path, number, reason(error))
        if not isinstance(record, dict):
            raise InputError(f'{path}, line {number}: not an object such as {{"text": …}}.')
        yield number, record


def _not_json(path: Path, number: int, problem: str) -> None:
    raise InputError(f"{path}, line {number}: not JSON: {problem}")


def _write_json(shard: Path, translations: Path, output: Path, columns: Columns) -> None:
    with atomic_write(output) as part, _writer(part, output.suffix) as file:
        for (_, record), translation in zip(_records(shard), _read_translations(translations)):
            if record is not None:
                is_empty = record.get(columns.source) is None
                record[columns.output] = None if is_empty else translation
                text = json.dumps(record, ensure_ascii=False)
                file.write(text.encode("utf-8", "replace"))
            file.write(b"\n")


def _texts_of_parquet(path: Path, columns: Columns, report: Report) -> Iterator[str | None]:
    number = 0
    with _parquet(path, columns) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=[columns.source]):
            for value in batch.column(0).to_pylist():
                number += 1
                yield _text(value, path, number, columns)


@contextmanager
def _parquet(path: Path, columns: Columns) -> Iterator[Any]:
    """Open a Parquet file, and check that it has the column to translate, but not yet the one to add."""
    import pyarrow
    from pyarrow import parquet

    check_file(path)
    try:
        # Buffered, since otherwise whole column chunks are loaded, which can be the whole file.
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            names = file.schema_arrow.names
            if columns.source not in names:
                raise InputError(f"{path} has no column {columns.source!r}, only {', '.join(map(repr, names))}.")
            if columns.output in names:
                raise InputError(f"{path} already has a column {columns.output!r}. Choose another --output_column.")
            yield file
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}. Is it damaged?") from None


def _write_parquet(shard: Path, translations: Path, output: Path, columns: Columns) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    texts = _read_translations(translations)
    with _parquet(shard, columns) as file, atomic_write(output) as part:
        schema = file.schema_arrow.append(pa.field(columns.output, pa.string()))
        with parquet.ParquetWriter(part, schema) as writer:
            for batch in file.iter_batches(ROWS_AT_ONCE):
                there = batch.column(columns.source).is_valid().to_pylist()
                made = [text if is_there else None for is_there, text in zip(there, islice(texts, len(there)))]
                columns_of_batch = [*batch.columns, pa.array(made, pa.string())]
                writer.write_batch(pa.RecordBatch.from_arrays(columns_of_batch, schema=schema))


def _text(value: Any, path: Path, number: int, columns: Columns) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputError(f"{path}, row {number}: {columns.source!r} is {type(value).__name__}, not a text.")
    return value


def _read_translations(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8", newline="\n") as file:
        yield from map(json.loads, file)


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[BinaryIO]:
    """Open a file for writing, compressed as its suffix says; the same content always gives the same bytes."""
    with open(path, "wb") as file:
        if suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield packed
        elif suffix.lower() == ".zst":
            import zstandard

            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
                yield packed
        else:
            yield file


FORMATS = {
    ".txt": ShardFormat(_texts_of_lines, _write_lines, as_text),
    ".jsonl": ShardFormat(_texts_of_json, _write_json, as_json_text),
    ".parquet": ShardFormat(_texts_of_parquet, _write_parquet, as_json_text),
}

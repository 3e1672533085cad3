"""Translates a folder of files on Ray Data: python scripts/translate_shards.py MODEL INPUT_FOLDER OUTPUT_FOLDER.

Each file becomes a file of the same name. Actors translate; only this process, and tasks on its machine, read and
write, so the machines need no shared folder. A file gets its name once it is complete, and is then left as it is.
"""

import argparse
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from transformers.utils.logging import disable_progress_bar

from hf_vaswani.cli import main
from hf_vaswani.commands.options import MODEL, CommandParser, add_ray_options, with_option_names
from hf_vaswani.commands.reports import LineReports
from hf_vaswani.commands.translate import (
    add_batch_options,
    add_length_options,
    add_search_options,
    option_errors,
    output_settings,
    translator_settings,
)
from hf_vaswani.data.sources.tables import file_format
from hf_vaswani.data.sources.text_files import compressed, iterate_lines
from hf_vaswani.errors import InputError, counted, reason
from hf_vaswani.files import InputPath, OutputPath, atomic_write, collect_errors, path_error, read_json, replace_files
from hf_vaswani.ledger import differences, exclusive
from hf_vaswani.runtime.imports import import_extra
from hf_vaswani.runtime.ray_session import ray_session
from hf_vaswani.translator import BatchTranslator
from hf_vaswani.translator.lines import without_line_breaks

FORMATS = (".txt", ".jsonl", ".parquet")
BLOCK = 1 << 18  # bytes of text that an actor gets at a time
ROWS = 1024  # that are written at a time
SETTINGS = ".translation.json"
# Options of `hf-vaswani translate` that this script lacks.
NOT_HERE = {"format": "text", **dict.fromkeys(["prefix", "n_best", "scores", "confidence", "alignments"])}
NO_SETTINGS = {"folder", "num_actors", "address", *NOT_HERE}


class ActorError(InputError):
    """What an actor raised: the model cannot be loaded, for example. No file can be translated."""


class Translate(BatchTranslator):
    """Translates the texts of a batch with the settings of the command line."""

    def __init__(self, settings):
        disable_progress_bar()
        super().__init__("", error_column="error")
        self.settings = settings


def read_rows(path: Path) -> Iterator[dict[str, Any] | None]:
    """The rows of a table; `None` for an empty line of JSON lines."""
    if file_format(path) == ".parquet":
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(ROWS):
                yield from batch.to_pylist()
        return
    for number, line in enumerate(iterate_lines(path), start=1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} is not JSON: {reason(error)}") from None
        if not isinstance(row, dict | None):
            raise InputError(f'line {number} is not an object such as {{"text": …}}')
        yield row


def read_texts(
    path: Path, column: str, output_column: str, report: Callable[[int, str], None]
) -> Iterator[str | None]:
    """The texts of a file, row by row; `None` for a row without text."""
    if file_format(path) == ".txt":
        yield from iterate_lines(path, report)
        return
    names: dict[str, None] = {}
    for row in read_rows(path):
        names.update(dict.fromkeys(row or {}))
        text = (row or {}).get(column)
        if output_column in names:
            raise InputError(f"it already has {output_column!r}: choose another --output_column")
        if not isinstance(text, str | None):
            raise InputError(f"{column!r} is {type(text).__name__}, not a text: {text!r:.60}")
        yield text
    if names and column not in names:  # some rows may lack it, but not all
        raise InputError(f"it has no {column!r}, only {', '.join(map(repr, names))}")


def read_file(file: dict[str, str], column: str, output_column: str) -> Iterator[dict[str, str | None]]:
    """A row for each text of a file, and a last one that says what is wrong with the file."""
    errors, notes = [], []
    try:
        for text in read_texts(Path(file["path"]), column, output_column, lambda *note: notes.append(note)):
            yield {**file, "text": text, "end": None}
    except (OSError, ValueError, pa.ArrowException) as error:
        errors.append(reason(error))
    yield {**file, "text": None, "end": json.dumps([errors, notes])}


def write_file(path: Path, output: Path, output_column: str, translations: Iterator[str | None]) -> None:
    """Write the translation of a file: its lines, or its rows with another column."""
    with atomic_write(output) as part:
        if file_format(path) == ".parquet":
            field = pa.field(output_column, pa.string())
            with parquet.ParquetFile(path) as file, parquet.ParquetWriter(part, file.schema_arrow.append(field)) as to:
                for batch in file.iter_batches(ROWS):
                    to.write_batch(batch.append_column(field, pa.array(islice(translations, len(batch)), field.type)))
            next(translations, None)  # there is no more: takes in the end
            return
        if file_format(path) == ".txt":
            lines = map(without_line_breaks, translations)
        else:
            rows = ((row, text) for text, row in zip(translations, read_rows(path)))
            lines = (row and json.dumps({**row, output_column: text}, ensure_ascii=False) or "" for row, text in rows)
        with part.open("wb") as file:
            while chunk := "".join(f"{line}\n" for line in islice(lines, ROWS)):
                file.write(compressed(chunk.encode("utf-8", "replace"), output))


def translated_rows(paths: list[Path], options: argparse.Namespace) -> Iterator[tuple[str, str, str, str | None]]:
    """The path, translation, error and end of each row of the files, in their order."""
    import ray

    kind = "GPU" if ray.cluster_resources().get("GPU") else "CPU"
    there = int(ray.cluster_resources().get(kind, 0))
    number = options.num_actors or there
    if not 0 < number <= there:
        raise InputError(f"{number} actors need as many {kind}s, but the Ray cluster has {there}. Request fewer.")
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.target_max_block_size = BLOCK
    context.enable_progress_bars = sys.stderr.isatty()
    logging.disable(logging.ERROR)  # Ray Data says a lot
    here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
    read = partial(read_file, column=options.column, output_column=options.output_column)
    rows = ray.data.from_items([{"path": str(path)} for path in paths], override_num_blocks=len(paths))
    rows = rows.flat_map(read, num_cpus=0, label_selector=here)
    rows = rows.map_batches(
        Translate,
        fn_constructor_args=[translator_settings(options)],
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=number),
        num_cpus=1,
        num_gpus=int(kind == "GPU"),
    )
    try:
        for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from zip(*(batch[name].to_pylist() for name in ("path", "translation", "error", "end")))
    except ray.exceptions.RayError as error:
        messages = re.findall(r"^[\w.]*(?:Error|Exception): (.+)$", str(error), re.MULTILINE) or [str(error)]
        raise ActorError(with_option_names(messages[0])) from None


def translations_of(rows: Iterator[tuple], report: Callable[[int, str], None]) -> Iterator[str | None]:
    """The translations of a file; an `InputError` at its end if it could not be read."""
    for number, (_, translation, error, end) in enumerate(rows, start=1):
        if end is None:
            if error:
                report(number, error)
            yield translation
            continue
        errors, notes = json.loads(end)
        for note in notes:
            report(*note)
        if errors:
            raise InputError(errors[0])


def find_files(options: argparse.Namespace) -> list[Path]:
    """The files to translate, sorted by name. Names that begin with a dot or an underscore are ignored."""
    folder, output = Path(options.folder), Path(options.output)
    errors = option_errors(options)
    errors += filter(None, [path_error(folder), path_error(output, is_output=True)])
    collect_errors(errors, partial(import_extra, "ray"))
    if not folder.is_dir():
        errors.append(f"{folder} is not a folder. Specify the folder of the files.")
    if folder.resolve() == output.resolve():
        errors.append(f"{output} is the folder of the files. Choose another one for the output.")
    if options.column == options.output_column:
        errors.append(f"--output_column {options.output_column} is the column of the texts. Choose another name.")
    if errors:
        raise InputError.of(errors)
    files = []
    for path in (path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "_"))):
        if path.is_dir() or file_format(path) not in FORMATS or path.suffixes[-2:-1] == [".parquet"]:
            print(f"warning: {path} is not translated: it is not a .txt, .jsonl, or .parquet file.", file=sys.stderr)
        else:
            files.append(path)
    if not files:
        raise InputError(f"{folder} has no .txt or .jsonl files (also .gz or .zst) and no .parquet files.")
    return files


def run(options: argparse.Namespace) -> None:
    """Translate the files that are not in the output folder yet."""
    files, output, failed, reports = find_files(options), Path(options.output), [], LineReports()
    settings = {**output_settings(options, NO_SETTINGS), "model": translator_settings(options).content_digest()}
    settings, record = json.loads(json.dumps(settings)), output / SETTINGS
    with exclusive(output):
        if record.exists() and (changed := differences(read_json(record, "Choose another folder."), settings)):
            raise InputError(f"{output} was begun with other settings: {'; '.join(changed)}. Choose another folder.")
        if left := [path for path in files if not (output / path.name).exists()]:
            with ray_session(options.address, log_to_driver=True):
                for name, rows in groupby(translated_rows(left, options), key=itemgetter(0)):
                    replace_files({record: json.dumps(settings).encode()})  # the model translates
                    path, translations = Path(name), translations_of(rows, reports.of(name))
                    try:
                        write_file(path, output / path.name, options.output_column, translations)
                    except ActorError:
                        raise
                    except (InputError, pa.ArrowException) as error:
                        failed.append(str(error) if name in str(error) else f"{name}: {reason(error)}.")
    reports.summarize()
    done = f"{counted(len(files) - len(failed), 'file')} of {len(files)} finished in {output}."
    if failed:
        raise InputError.of([*failed, done])
    print(done, file=sys.stderr)


def make_parser() -> CommandParser:
    """The parser of the script."""
    parser = CommandParser(
        prog="translate_shards.py",
        usage="python scripts/translate_shards.py MODEL INPUT_FOLDER OUTPUT_FOLDER [options]",
        description="Translate a folder of files on Ray, on one machine or many, into files of the same names. Line n "
        "of a .txt file translates line n; .jsonl and .parquet files get another column. Text may be compressed: .gz, "
        ".zst. Run the same command again to translate the files that are left.",
    )
    parser.add_argument("model", type=InputPath, metavar="MODEL", help=MODEL)
    parser.add_argument("folder", type=InputPath, metavar="INPUT_FOLDER", help="folder of files to translate")
    parser.add_argument("output", type=OutputPath, metavar="OUTPUT_FOLDER", help="folder to write, new or unfinished")
    add_ray_options(parser.add_argument_group("Ray"))
    columns = parser.add_argument_group("columns of .jsonl and .parquet")
    columns.add_argument("--column", default="text", metavar="NAME", help="the texts (default: text)")
    columns.add_argument(
        "--output_column", default="translation", metavar="NAME", help="their translations (default: translation)"
    )
    add_search_options(parser)
    add_length_options(parser.add_argument_group("lines"))
    add_batch_options(parser.add_argument_group("speed of each actor"))
    # An actor has one core.
    parser.set_defaults(run=run, saves_memory="Lower --batch_size.", needs_torch=True, num_workers=1, **NOT_HERE)
    return parser


if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))

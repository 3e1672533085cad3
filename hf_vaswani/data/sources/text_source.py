"""Sources of parallel text: the built-in corpus, Hub datasets, files with both sides, and parallel files.

A [`TextSource`] describes a source, like an entry in a recipe; it is read pair by pair, however large it is. For
formats and columns, see `tables.py`.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from ...configuration.name_hints import hint
from ...errors import InputError, counted
from ...files import file_digest, is_same_file, reading
from ...text.normalization import is_blank
from . import built_in
from .hub_datasets import HubDataset, name_error
from .tables import Languages, candidate_columns, choose_columns, file_format, iterate_records, pair_of, unknown_format
from .text_files import COMPRESSED, Pair, check_file, iterate_lines, iterate_parallel

BUILT_IN = "built-in"
LARGEST_WEIGHT = 1_000_000_000
TAG = re.compile(r"[\w-]+")
# Fields that a recipe does not give.
COMPUTED = ("prefix", "reserved")
# The fields of each kind of source, besides its location and weight.
FIELDS_OF = {
    "dataset": ("config", "split", "revision", "source_column", "target_column"),
    "file": ("source_column", "target_column", "header"),
    BUILT_IN: ("split",),
}


@dataclass(frozen=True)
class TextSource:
    """One source of pairs: a dataset, a file with both sides, or parallel files.

    Attributes:
        dataset: "built-in", the id of a Hub dataset, or a local folder that `datasets.load_dataset()` reads.
        config, split, revision: config, split and revision of the dataset. The split is optional if there is only one.
        file: a file with both sides: .tsv, .csv, .jsonl (.ndjson, .json-lines), .parquet or .tmx; text also as .gz or
            .zst.
        source, target: parallel text files, also .gz or .zst: one path or several, where file n of one side
            translates file n of the other.
        source_column, target_column: the columns, if they are named neither after the languages nor `source` and
            `target`.
        header: whether the first row of a .tsv or .csv file is a header; by default this is detected.
        source_language, target_language: codes of the languages of its two sides, if they differ from those of other
            sources, for a model with several directions.
        both_directions: whether it is read in the opposite direction, too.
        tag: what its sources begin with, for example to tell text that was made by translation: `bt`, for `<bt>`.
        reversed: whether the pairs are read in the opposite direction, with targets as sources.
        made: whether the pairs were made from training text, or by a model, so that none of them may be held out.
        weight: relative share among several sources.
        name: for reports: by default, the location.
        prefix: the marks that each source text begins with, see [`mark_sources`].
        reserved: all marks of a recipe's sources, which no text may have.
    """

    dataset: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    file: str | None = None
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    source_column: str | None = None
    target_column: str | None = None
    # Excluded from the repr, which identifies the streams of earlier runs.
    header: bool | None = field(default=None, repr=False)
    source_language: str | None = field(default=None, repr=False)
    target_language: str | None = field(default=None, repr=False)
    both_directions: bool = field(default=False, repr=False)
    tag: str | None = field(default=None, repr=False)
    reversed: bool = field(default=False, repr=False)
    made: bool = field(default=False, repr=False)
    weight: float | None = None
    name: str = field(default="", repr=False, compare=False)
    prefix: str = field(default="", repr=False)
    reserved: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self):
        for side in ("source", "target"):
            paths = getattr(self, side)
            paths = [paths] if isinstance(paths, str | Path) else paths
            object.__setattr__(self, side, tuple(map(str, paths)))
        object.__setattr__(self, "name", self.name or self.location)

    @classmethod
    def parse(cls, value: object, name: str) -> "TextSource":
        """Make a source from a recipe entry: the path of a file with both sides, "built-in", or keys and values.

        Args:
            name: the name of the entry, for messages: "data.train".

        Raises:
            InputError: lists all unknown keys, with the closest valid ones, and all values of the wrong type.
        """
        if isinstance(value, str):
            return cls(**{"dataset" if value == BUILT_IN else "file": value})
        if not isinstance(value, dict):
            raise InputError(f"{name} must be the path of a file, or keys and values, got {value!r}")
        known = [field.name for field in dataclasses.fields(cls) if field.name not in COMPUTED]
        errors, fields = [], {}
        for key, entry in value.items():
            if key not in known:
                meant = hint(str(key), dict(zip(known, known))) or f"choose from {', '.join(known)}"
                errors.append(f"{name}: unknown key '{key}'; {meant}")
            elif entry is not None:
                try:
                    fields[key] = _typed(key, entry)
                except TypeError as error:
                    errors.append(f"{name}.{key} must be {error}, got {entry!r}")
        if errors:
            raise InputError.of(errors)
        return cls(**fields)

    @property
    def location(self) -> str:
        """Where it is: "wmt14/de-en (train)", "train.de and train.en"."""
        if self.dataset:
            data = "/".join(part for part in (self.dataset, self.config) if part)
            return f"{data} ({self.split})" if self.split else data
        return self.file or " and ".join(", ".join(side) for side in (self.source, self.target))

    def in_files(self, pair: Pair) -> Pair:
        """A pair of this source as its files have it: without marks, and in their direction."""
        text, translation = pair
        plain = text.removeprefix(f"{self.prefix} ") if self.prefix else text, translation
        return plain[::-1] if self.reversed else plain

    def is_among(self, others: Iterable["TextSource"]) -> bool:
        """Whether this source is one of others, however it is named and weighted."""

        def place(source: TextSource) -> tuple:
            files = [_real_path(path) for path in (source.file, *source.source, *source.target) if path]
            return source.dataset, source.config, source.split, source.revision, files

        return place(self) in map(place, others)


def _real_path(path: str) -> str:
    """A path without symbolic links; as it is if no file can have that name."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def iterate_pairs(source: TextSource, languages: Languages, streaming: bool = False) -> Iterator[Pair]:
    """Lazily yield the pairs of a source; empty texts are kept.

    Args:
        languages: the codes of source and target language, which may be column names.
        streaming: read a dataset from the Hub while training instead of downloading it first.

    Raises:
        InputError: the first error found, with file and line. If a side has no text at all, the error is raised at the
            end.
    """
    for _, pair in iterate_numbered_pairs(source, languages, streaming):
        yield pair


def iterate_numbered_pairs(
    source: TextSource, languages: Languages, streaming: bool = False
) -> Iterator[tuple[int, Pair]]:
    """Like [`iterate_pairs`], with the line or row of each pair; lines of several parallel files are counted on."""
    if errors := _description_errors(source, languages):
        raise InputError.of(errors)
    if source.prefix or source.reserved:
        plain = replace(source, prefix="", reserved=())
        for number, pair in iterate_numbered_pairs(plain, languages, streaming):
            yield number, _marked(source, number, pair)
        return
    languages = languages_of(source, languages)
    if source.reversed:
        yield from (
            (number, (other, one))
            for number, (one, other) in iterate_numbered_pairs(replace(source, reversed=False), languages, streaming)
        )
    elif source.dataset == BUILT_IN:
        source_column, target_column = languages if None not in languages else built_in.LANGUAGES
        file = str(built_in.built_in_file(source.split))
        table = TextSource(file=file, source_column=source_column, target_column=target_column)
        yield from _pairs_of_records(table, languages, streaming)
    elif source.source:
        pairs = chain.from_iterable(map(iterate_parallel, source.source, source.target))
        yield from enumerate(pairs, start=1)
    else:
        yield from _pairs_of_records(source, languages, streaming)


def languages_of(source: TextSource, languages: Languages) -> Languages:
    """The languages of a source's sides, as its files have them: its own, or else those of the recipe."""
    return source.source_language or languages[0], source.target_language or languages[1]


def _marked(source: TextSource, number: int, pair: Pair) -> Pair:
    """A pair whose source text begins with the marks of its source.

    Args:
        number: the line of the pair.

    Raises:
        InputError: the text has one of the recipe's marks.
    """
    text, translation = pair
    if found := [mark for mark in source.reserved if mark in text]:
        raise InputError(
            f"{source.location}, line {number}: the text has {found[0]}, which marks a language or a tag here. "
            "Take it out of the text."
        )
    return f"{source.prefix} {text}" if source.prefix and not is_blank(text) else text, translation


@dataclass(frozen=True)
class SourcePairs:
    """The pairs of a source, read again for each iteration."""

    source: TextSource
    languages: Languages
    streaming: bool = False

    def __iter__(self) -> Iterator[Pair]:
        return iterate_pairs(self.source, self.languages, self.streaming)


def _pairs_of_records(source: TextSource, languages: Languages, streaming: bool) -> Iterator[tuple[int, Pair]]:
    candidates = candidate_columns((source.source_column, source.target_column), languages)
    if source.dataset:
        unit, records = "row", _hub_dataset(source).records(candidates, streaming)
    else:
        unit = "row" if file_format(source.file) == ".parquet" else "line"
        records = iterate_records(source.file, candidates, source.header)
    columns, without_text = None, {0, 1}
    for number, record in records:
        where = f"{source.location}, {unit} {number}"
        columns = columns or choose_columns(record, candidates, where)
        pair = pair_of(record, columns, where)
        if without_text:
            without_text = {side for side in without_text if is_blank(pair[side])}
        yield number, pair
    if columns is None:
        raise InputError(f"{source.location} is empty: it has no {unit}s with text.")
    if without_text:
        which = " and ".join(f"'{columns[side]}'" for side in sorted(without_text))
        raise InputError(f"{source.location}: no {unit} has text in column {which}. Is it the right one?")


def check_source(source: TextSource, languages: Languages, streaming: bool = False) -> list[str]:
    """Return all errors that can be found without reading the whole source; an empty list if there are none.

    A Hub dataset is looked up on the Hub, and a file is read up to its first pair or line.
    """
    languages = languages_of(source, languages)
    errors = _description_errors(source, languages)
    if errors or source.dataset == BUILT_IN:
        return errors
    try:
        if source.dataset:
            data = _hub_dataset(source)
            data.check_columns(candidate_columns((source.source_column, source.target_column), languages))
            return [error] if (error := data.streaming_error(streaming)) else []
        if source.file:
            next(iterate_pairs(source, languages))
    except InputError as error:
        return str(error).split("\n")
    for path in (*source.source, *source.target):
        try:
            next(iterate_lines(path), None)
        except InputError as error:
            errors.append(str(error))
    return errors + _order_errors(source, languages)


def digest(source: TextSource) -> str:
    """Hash a source's content and how it is read, regardless of where its files are.

    The hash covers the bytes of the files (1 GB takes a second or two) or the commit of a Hub dataset, and the format,
    config, split, named columns, and its own languages, but neither the languages of the recipe, which may also
    determine the columns, nor the weight.

    Raises:
        InputError: the source cannot be read.
    """
    if errors := _description_errors(source, (None, None)):
        raise InputError.of(errors)
    columns = [source.source_column, source.target_column]
    if source.dataset == BUILT_IN:
        parts = [BUILT_IN, text_file_digest(str(built_in.built_in_file(source.split)))]
    elif source.dataset:
        data = _hub_dataset(source)
        files = [(_kind(path), text_file_digest(path)) for path in data.files()] if data.is_local else []
        content = files or [source.dataset, data.commit]
        parts = ["dataset", source.config, data.split, content, columns]
    elif source.file:
        parts = ["file", _kind(source.file), text_file_digest(source.file), columns]
        parts += [] if source.header is None else [source.header]
    else:
        parts = [[(_kind(path), text_file_digest(path)) for path in side] for side in (source.source, source.target)]
    parts += [name for name in ("reversed", "made") if getattr(source, name)]
    own = [source.source_language, source.target_language, source.prefix]
    parts += [own] if any(own) else []
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _hub_dataset(source: TextSource) -> HubDataset:
    return HubDataset(source.dataset, source.config, source.split, source.revision)


def _kind(path: str) -> tuple[str, str]:
    """The format and compression of a file, judging by its name."""
    suffix = Path(path).suffix.lower()
    return file_format(path), suffix if suffix in COMPRESSED else ""


def text_file_digest(path: str) -> str:
    """The SHA-256 digest of a text file's bytes.

    Raises:
        InputError: if it cannot be read, or has no content.
    """
    check_file(path)
    with reading(path):
        return file_digest(path)


def _description_errors(source: TextSource, languages: Languages) -> list[str]:
    """Return the errors in a source's description, without opening anything."""
    places = [name for name in ("dataset", "file", "source", "target") if getattr(source, name)]
    if not places:
        return ["no text is given: set dataset, file, or source and target"]
    if len(places) > 1 and places != ["source", "target"]:
        return [f"{' and '.join(places)} are given together; choose dataset, file, or source and target"]
    kind = BUILT_IN if source.dataset == BUILT_IN else places[0]
    errors = [
        f"{name} does not belong to {'parallel files' if kind in ('source', 'target') else kind}"
        for name in ("config", "split", "revision", "source_column", "target_column", "header")
        if getattr(source, name) is not None and name not in FIELDS_OF.get(kind, ())
    ]
    errors += _side_errors(source, languages) if kind in ("source", "target") else _column_errors(source)
    if source.weight is not None and not 0 < source.weight <= LARGEST_WEIGHT:
        errors.append(f"weight must be above 0 and at most {LARGEST_WEIGHT:,}, got {source.weight}")
    if source.tag is not None and not TAG.fullmatch(source.tag):
        errors.append(f"tag must have only letters, digits, _ and -, got {source.tag!r}")
    if kind == "file" and (error := unknown_format(source.file)):
        errors.append(f"{source.file}: {error}")
    if kind == "dataset" and (error := name_error(source.dataset)):
        errors.append(error)
    if kind == BUILT_IN and source.split not in built_in.SPLITS:
        splits = ", ".join(built_in.SPLITS)
        errors.append(f"split of the built-in corpus must be one of {splits}, got {source.split!r}")
    if kind == BUILT_IN and None not in languages and set(languages) != set(built_in.LANGUAGES):
        errors.append(f"the built-in corpus has the languages de and en, not {' and '.join(languages)}")
    return errors


def _side_errors(source: TextSource, languages: Languages) -> list[str]:
    if not source.source or not source.target:
        given, other = ("source", "target") if source.source else ("target", "source")
        return [f"{other} is missing: the text whose line n translates line n of {given}"]
    sizes = len(source.source), len(source.target)
    if sizes[0] != sizes[1]:
        files = counted(sizes[0], "file")
        return [f"source has {files} and target {sizes[1]}: file n of one must translate file n of the other"]
    if None in languages or languages[0] == languages[1]:
        return []  # a model may learn to copy
    return [
        f"{one} is both source and target, but their languages are {' and '.join(languages)}: specify the file of the "
        "other side"
        for one, other in zip(source.source, source.target)
        if is_same_file(one, other)
    ]


def _order_errors(source: TextSource, languages: Languages) -> list[str]:
    """Errors for parallel files whose suffixes are the languages in the opposite order."""
    suffixes = tuple(f".{language}" for language in reversed(languages))
    return [
        f"{one} and {other} are in the order of {languages[1]} to {languages[0]}: swap the files, or the languages "
        f"(--source_language {languages[1]} --target_language {languages[0]})"
        for one, other in zip(source.source, source.target)
        if not source.reversed and suffixes[0] != suffixes[1] and (file_format(one), file_format(other)) == suffixes
    ]


def _column_errors(source: TextSource) -> list[str]:
    named = source.source_column, source.target_column
    if None in named and named != (None, None):
        given, other = ("source", "target") if named[0] is not None else ("target", "source")
        return [f"{other}_column is missing: {given}_column is given; specify both or neither"]
    if named[0] is not None and named[0] == named[1]:
        return [f"source_column and target_column are the same, '{named[0]}'"]
    return []


def _typed(key: str, value: object) -> object:
    """Convert a recipe's value to the type of a field.

    Raises:
        TypeError: the value has the wrong type; the message says what it must be.
    """
    if key == "weight":
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError("a number")
        try:
            return float(value)
        except (ValueError, OverflowError):
            raise TypeError("a number") from None
    if key in ("header", "reversed", "both_directions", "made"):
        if value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise TypeError("true or false")
        return value
    is_path_list = key in ("source", "target")
    if is_path_list and isinstance(value, list) and value and all(isinstance(path, str) for path in value):
        return tuple(value)
    # YAML reads 2017 as a number, which is accepted; text that it reads as true or false must be quoted.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError("a path or a list of paths" if is_path_list else "text")
    return str(value)

"""Parallel text in two files: line n of one file translates line n of the other."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from ...errors import InputError, counted, line_range
from .text_files import Report, iterate_lines

Pair = tuple[str, str]


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 file, without line breaks; raises the errors of [`iterate_lines`]."""
    return list(iterate_lines(path))


def iterate_parallel(
    source: str | Path, target: str | Path, reports: tuple[Report | None, Report | None] = (None, None)
) -> Iterator[Pair]:
    """Lazily yield the pairs (source line, target line) of two parallel files; empty lines are kept.

    Args:
        reports: one for each side on which invalid lines are to be reported instead of raised; see
            [`iterate_lines`].

    Raises:
        InputError: a file is missing, empty or not UTF-8 (with file and line), or one side has more lines.
    """
    ended = object()
    sides = [iterate_lines(path, report) for path, report in zip((source, target), reports)]
    for number, pair in enumerate(zip_longest(*sides, fillvalue=ended)):
        if ended in pair:
            # Read the longer side to its end, so that the error names all lines without a counterpart.
            lines = [number if text is ended else number + 1 + sum(1 for _ in side) for text, side in zip(pair, sides)]
            raise unequal_lines((source, target), lines)
        yield pair


def unequal_lines(paths: tuple[str | Path, str | Path], lines: list[int]) -> InputError:
    """The error for two files with different numbers of lines."""
    longer, shorter = paths if lines[0] > lines[1] else paths[::-1]
    have = "has" if abs(lines[0] - lines[1]) == 1 else "have"
    return InputError(
        f"{paths[0]} has {counted(lines[0], 'line')} and {paths[1]} has {lines[1]:,}: "
        f"{line_range(min(lines) + 1, max(lines))} of {longer} {have} no counterpart in {shorter}. Line n of one file "
        "must translate line n of the other."
    )


def line_errors(first: str, texts: Mapping[str, list[str] | None]) -> list[str]:
    """Return an error for each file whose number of lines differs from that of the first.

    Args:
        first: the path of the first file.
        texts: the lines of each file by its path; `None` for files that could not be read.
    """
    expected = texts[first]
    if expected is None:
        return []
    return [
        str(unequal_lines((path, first), [len(lines), len(expected)]))
        for path, lines in texts.items()
        if lines is not None and len(lines) != len(expected)
    ]

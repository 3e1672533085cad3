"""Parallel text in two files, or in two rows of files: line n of one side translates line n of the other."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ..errors import InputError
from ..wording import counted, line_range
from .text_files import Report, iterate_lines, split_lines

__all__ = ["Pair", "iterate_parallel", "read_lines", "read_parallel", "split_lines", "unequal_lines"]

Pair = tuple[str, str]


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends; faults are those of [`iterate_lines`]."""
    return list(iterate_lines(path))


def read_parallel(source: str | Path, target: str | Path) -> list[Pair]:
    """Read two parallel files.

    Returns:
        Pairs (source line, target line), without line ends; empty lines are kept.

    Raises:
        InputError: a file is missing, empty or not UTF-8 (file and line), or one side has more lines; all at once.
    """
    sides, faults = [], []
    for path in (source, target):
        try:
            sides.append(read_lines(path))
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError.of(faults)
    lines = [len(side) for side in sides]
    if lines[0] != lines[1]:
        raise unequal_lines((source, target), lines)
    return list(zip(*sides))


def iterate_parallel(
    source: str | Path, target: str | Path, reports: tuple[Report | None, Report | None] = (None, None)
) -> Iterator[Pair]:
    """The pairs of two parallel files, read as they are asked for; empty lines are kept.

    Args:
        reports: of either side, where what is not UTF-8 shall be no error: as [`iterate_lines`] takes it.

    Raises:
        InputError: as [`read_parallel`], but the first fault that is met.
    """
    ended = object()
    sides = [iterate_lines(path, report) for path, report in zip((source, target), reports)]
    for number, pair in enumerate(zip_longest(*sides, fillvalue=ended)):
        if ended in pair:
            # The longer side is read to its end, to name all its lines that have no counterpart.
            lines = [number if text is ended else number + 1 + sum(1 for _ in side) for text, side in zip(pair, sides)]
            raise unequal_lines((source, target), lines)
        yield pair


def unequal_lines(paths: tuple[str | Path, str | Path], lines: list[int]) -> InputError:
    """The error for two files of which one has more lines."""
    longer, shorter = paths if lines[0] > lines[1] else paths[::-1]
    have = "has" if abs(lines[0] - lines[1]) == 1 else "have"
    return InputError(
        f"{paths[0]} has {counted(lines[0], 'line')} and {paths[1]} has {lines[1]:,}: "
        f"{line_range(min(lines) + 1, max(lines))} of {longer} {have} no counterpart in {shorter}. Line n of one file "
        "must translate line n of the other."
    )

"""Mixes several sources in one epoch, each with its share.

Weights are relative: 3 and 1 mean that three out of four pairs come from the first source. No source is cut short: an
epoch lasts until every source has been read completely at least once, while the others repeat. Without weights, each
pair occurs once.
"""

from collections.abc import Callable, Iterator

import numpy as np

from ..errors import InputError
from .sources.parallel_files import Pair

# An epoch is taken for a mistake if it exceeds both: this many pairs, and this many times the pairs of the sources.
LARGEST_EPOCH, LARGEST_GROWTH = 10_000_000, 100


def mixed_rows(origins: np.ndarray, weights: list[float], generator: np.random.Generator) -> np.ndarray:
    """Return the row numbers of a mixed epoch, in no particular order: int64, each row at least once.

    Args:
        origins: `(pairs,)`, the index of each pair's source.
        weights: the weights of the sources, all above 0.
        generator: chooses the pairs that occur one more time than the rest of their source.
    """
    sources = [np.flatnonzero(origins == number) for number in range(len(weights))]
    length = mixed_length([len(rows) for rows in sources], weights)
    parts = []
    for rows, weight in zip(sources, weights):
        repeats, rest = divmod(round(length * weight), max(len(rows), 1))
        if len(rows):
            parts += [rows] * repeats + [generator.choice(rows, rest, replace=False)]
    return np.concatenate(parts)


def mixed_length(sizes: list[int], weights: list[float]) -> float:
    """Return the factor by which a source's weight is multiplied to give its number of pairs in an epoch.

    Args:
        sizes: the number of pairs in each source.

    Raises:
        InputError: the weights make the epoch too large for memory.
    """
    length = max(size / weight for size, weight in zip(sizes, weights))
    pairs = sum(length * weight for size, weight in zip(sizes, weights) if size)
    if not pairs <= max(LARGEST_EPOCH, LARGEST_GROWTH * sum(sizes)):
        raise InputError(
            f"The weights {', '.join(f'{weight:g}' for weight in weights)} of training sources with "
            f"{', '.join(f'{size:,}' for size in sizes)} pairs make an epoch of {pairs:,.0f} pairs, since each source "
            "is read completely. Choose weights that are closer to the sizes."
        )
    return length


def mixed_stream(
    sources: list[Callable[[], Iterator[Pair]]], weights: list[float], generator: np.random.Generator
) -> Iterator[Pair]:
    """Yield pairs drawn from the sources by weight, until every source has been read completely at least once.

    Args:
        sources: functions that each open a source at its beginning.
        generator: draws the source of each pair; the same generator gives the same stream.
    """
    shares = np.cumsum(weights) / np.sum(weights)
    streams = [source() for source in sources]
    is_read = [False] * len(sources)
    while True:
        for number in np.searchsorted(shares, generator.random(1024), side="right").tolist():
            pair = next(streams[number], None)
            if pair is None:
                is_read[number] = True
                if all(is_read):
                    return
                streams[number] = sources[number]()
                pair = next(streams[number], None)
                if pair is None:  # an empty source
                    continue
            yield pair

"""Soft labels: a teacher's most probable tokens at each position of the training targets, in memory-mapped files."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# File → type of its numbers.
FILES = {"ids.npy": np.dtype(np.int32), "probabilities.npy": np.dtype(np.float16)}
# A batch's row numbers, and for each of its rows the tokens and probabilities of that pair: `(target_length, k)` each.
LabeledRows = tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class SoftLabels:
    """The k most probable tokens at each target position of all pairs, the most probable first.

    Attributes:
        ids: `(positions, k)`, int32, memory-mapped; the positions of the first pair, then those of the second, ….
        probabilities: `(positions, k)`, float16, memory-mapped; their sum is 1 at each position, up to rounding.
        starts: `(pairs + 1,)`, the first position of each pair, and the number of positions.
        folder: where the files are.
    """

    ids: np.ndarray
    probabilities: np.ndarray
    starts: np.ndarray
    folder: Path

    def __reduce__(self):
        # Another process opens the files; it need not receive their content.
        return read_soft_labels, (self.folder, np.diff(self.starts), self.ids.shape[1])

    def of(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and probabilities of a pair, `(target_length, k)` each."""
        positions = slice(self.starts[row], self.starts[row + 1])
        return self.ids[positions], self.probabilities[positions]


def starts_of(target_lengths: np.ndarray) -> np.ndarray:
    """The first position of each pair, and after them the number of all positions: `(pairs + 1,)`, int64."""
    return np.concatenate([[0], np.cumsum(target_lengths)])


def write_soft_labels(folder: Path, target_lengths: np.ndarray, k: int, batches: Iterator[LabeledRows]) -> None:
    """Write the soft labels of all pairs, in any order, into an empty folder for [`read_soft_labels`].

    Args:
        target_lengths: `(pairs,)`, in tokens.

    Raises:
        OSError: a file cannot be written.
    """
    starts = starts_of(target_lengths)
    with ExitStack() as opened:
        files = []
        for name, dtype in FILES.items():
            # Not memory-mapped: on a full disk, that would end the process.
            file = opened.enter_context(open(folder / name, "wb"))
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, {**header, "shape": (int(starts[-1]), k)})
            files.append((file, file.tell(), dtype))
        for rows, labels in batches:
            for row, arrays in zip(rows.tolist(), labels):
                for (file, begin, dtype), array in zip(files, arrays):
                    file.seek(begin + int(starts[row]) * k * dtype.itemsize)
                    file.write(np.ascontiguousarray(array, dtype).tobytes())


def read_soft_labels(folder: Path, target_lengths: np.ndarray, k: int) -> SoftLabels:
    """Open the output of [`write_soft_labels`], memory-mapped.

    Raises:
        ValueError: it does not belong to these pairs, for example because a file is truncated.
    """
    starts = starts_of(target_lengths)
    # Still memory-mapped, but quicker to slice than a memmap.
    ids, probabilities = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in FILES)
    if not ids.shape == probabilities.shape == (starts[-1], k):
        found = f"{len(ids)} positions, {ids.shape[-1]} each"
        raise ValueError(f"{folder} contains soft labels for {found}, not {starts[-1]}, {k} each.")
    return SoftLabels(ids, probabilities, starts, folder)

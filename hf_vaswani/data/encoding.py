"""Encodes parallel text as token ids, in memory or in a memory-mapped file, with a teacher's soft labels."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, concatenate_datasets
from transformers import PreTrainedTokenizerFast

from ..core.modeling_vaswani import IGNORED_LABEL
from ..core.tokenization_vaswani import FOLDS_CAPITALS, fold_capitals
from ..errors import InputError, counted
from ..text.language_marks import GROUP_MARK, mark_target
from ..text.normalization import is_blank
from .sources.text_files import Pair
from .tokenizers.tokenizer import SOURCE_PREFIX, side_backends

if TYPE_CHECKING:
    from .alignment import TokenAligner

logger = logging.getLogger(__name__)

# Pairs tokenized at a time: a tokenizer's encodings take a hundred times the memory of the ids.
BATCH_SIZE = 1000
# (sources, targets, random generator) → token ids of both.
Encoder = Callable[[list[str], list[str], np.random.Generator | None], tuple[list[list[int]], list[list[int]]]]
# The source and target texts of a batch, and its token ids: for each side, all ids concatenated, and the length of
# each text.
Batch = tuple[list[str], list[str]]
PackedIds = list[tuple[np.ndarray, np.ndarray]]
# File → type of its numbers.
FILES = {"ids.npy": np.dtype(np.int32), "probabilities.npy": np.dtype(np.float16)}
# A batch's row numbers, and for each of its rows the tokens and probabilities of that pair: `(target_length, k)` each.
LabeledRows = tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as token ids."""

    dataset: Dataset  # rows of `input_ids` (source) and `labels` (target), each ending with `</s>`
    # Int64 arrays `(pairs,)`, in tokens.
    source_lengths: np.ndarray
    target_lengths: np.ndarray
    origins: np.ndarray | None = None  # `(pairs,)`, the index of each pair's text source, if several are mixed
    # What a teacher expects at each position of the targets, if that has been computed.
    soft_labels: "SoftLabels | None" = None

    def __len__(self) -> int:
        return len(self.dataset)

    def rows(self, batch: np.ndarray) -> list[dict[str, Any]]:
        """The rows of a batch, `(sentences,)` row numbers, for a [`Collator`]."""
        columns = self.dataset[batch]
        rows = [
            {"input_ids": source, "labels": target} for source, target in zip(columns["input_ids"], columns["labels"])
        ]
        if self.soft_labels:
            for row, number in zip(rows, batch.tolist()):
                row["soft_label_ids"], row["soft_label_probabilities"] = self.soft_labels.of(number)
        return rows

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "EncodedPairs":
        """Make encoded pairs from token ids in memory."""
        dataset = Dataset.from_dict({"input_ids": sources, "labels": targets})
        return cls(dataset, *(np.array([len(row) for row in side], dtype=np.int64) for side in (sources, targets)))


def plain_encoder(tokenizer: PreTrainedTokenizerFast) -> Encoder:
    """Return an encoder that uses the tokenizer's own encoding, without randomness."""
    prefix = tokenizer.init_kwargs.get(SOURCE_PREFIX) or ""
    language = mark[1] if (mark := GROUP_MARK.match(prefix)) else None

    def encode(sources: list[str], targets: list[str], generator: np.random.Generator | None = None):
        sources = mark_target(tokenizer, sources, language, "" if language else prefix) if prefix else sources
        columns = tokenizer(sources, text_target=targets)
        return columns["input_ids"], columns["labels"]

    return encode


def dropout_encoder(tokenizer: PreTrainedTokenizerFast, probability: float) -> Encoder:
    """Return an encoder with BPE-dropout on both sides.

    Raises:
        InputError: the tokenizer has no merges to drop.
    """
    from .tokenizers.bpe_dropout import BpeDropout

    source, target = (BpeDropout(backend, probability) for backend in side_backends(tokenizer).values())
    folds = tokenizer.init_kwargs.get(FOLDS_CAPITALS)

    def encode(sources: list[str], targets: list[str], generator: np.random.Generator):
        sources = list(map(fold_capitals, sources)) if folds else sources
        return source.encode(sources, generator), target.encode(targets, generator)

    return encode


def encode_in_slices(
    encode: Encoder, sources: list[str], targets: list[str], generator: np.random.Generator | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Encode many pairs as int32 arrays, with the tokenizer's encodings of only 1,000 pairs in memory at a time."""
    sides: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for start in range(0, len(sources), BATCH_SIZE):
        part = slice(start, start + BATCH_SIZE)
        for side, rows in zip(sides, encode(sources[part], targets[part], generator)):
            # No vocabulary has two billion tokens.
            side += [np.array(row, dtype=np.int32) for row in rows]
    return sides


def encode_pairs(
    pairs: list[Pair], tokenizer: PreTrainedTokenizerFast, max_length: int | None = None, name: str = "given"
) -> EncodedPairs:
    """Tokenize pairs in memory, leaving out those with an empty side or a side of more than `max_length` tokens.

    Args:
        name: what to call the pairs in messages, such as "validation".

    Raises:
        InputError: no pairs are left.
    """
    kept = [pair for pair in pairs if not any(map(is_blank, pair))]
    empty = len(pairs) - len(kept)
    sources, targets = encode_in_slices(plain_encoder(tokenizer), [s for s, _ in kept], [t for _, t in kept])
    rows = [row for row in zip(sources, targets) if max_length is None or max(map(len, row)) <= max_length]
    too_long = len(kept) - len(rows)
    left_out = f"{empty} with an empty side" + (
        f", {too_long} over {counted(max_length, 'token')}" if max_length else ""
    )
    if empty or too_long:
        logger.warning("%d of %d %s pairs left out: %s", empty + too_long, len(pairs), name, left_out)
    if not rows:
        raise InputError(
            f"No pair among {counted(len(pairs), f'{name} pair')} is usable: {left_out}. Check the files."
        )
    return EncodedPairs.of([source for source, _ in rows], [target for _, target in rows])


@dataclass(frozen=True)
class BatchEncoder:
    """Tokenizes batches in any process: tokenizer, batches and results can be sent from one process to another."""

    tokenizer: PreTrainedTokenizerFast

    def __call__(self, batch: Batch) -> PackedIds:
        sides = encode_in_slices(plain_encoder(self.tokenizer), *batch)
        # Thousands of small arrays would take longer to send than to make.
        return [(np.concatenate(rows), np.array([len(row) for row in rows], dtype=np.int64)) for rows in sides]


def encode_to_file(
    text: Dataset,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    processes: int,
    over: Callable[[BatchEncoder, Iterator[Batch]], Iterator[PackedIds]] | None = None,
) -> None:
    """Tokenize rows of `source` and `target` into files in a folder for [`read_encoded`].

    Args:
        processes: number of processes; ignored if `over` is given.
        over: runs the encoder on the batches elsewhere, and yields the results in the order of the batches. The file
            written is the same as that of a single process.
    """
    encode = plain_encoder(tokenizer)

    def encode_rows(sources: list[str], targets: list[str]) -> dict[str, list[np.ndarray]]:
        return dict(zip(("input_ids", "labels"), encode_in_slices(encode, sources, targets)))

    if over is not None:
        results, processes = over(BatchEncoder(tokenizer), _text_batches(text)), 1

        def encode_rows(sources: list[str], targets: list[str]) -> dict[str, list[np.ndarray]]:
            sides = [np.split(ids, np.cumsum(lengths)[:-1]) for ids, lengths in next(results)]
            return dict(zip(("input_ids", "labels"), sides))

    folder.mkdir(parents=True, exist_ok=True)
    with one_thread_each() if processes > 1 else nullcontext():
        text.map(
            encode_rows,
            batched=True,
            batch_size=BATCH_SIZE,
            input_columns=["source", "target"],
            remove_columns=text.column_names,
            num_proc=processes if processes > 1 else None,
            cache_file_name=str(folder / "ids.arrow"),
            new_fingerprint="tokenized",
            desc="Tokenizing",
        )


def _text_batches(text: Dataset) -> Iterator[Batch]:
    for start in range(0, len(text), BATCH_SIZE):
        rows = text[start : start + BATCH_SIZE]
        yield rows["source"], rows["target"]


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Turn off the threads of the `tokenizers` library, which do not survive a fork."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def read_encoded(folder: Path, rows: int) -> Dataset:
    """Open the output of [`encode_to_file`], memory-mapped: rows of `input_ids` and `labels`, in the text's order.

    Raises:
        ValueError: the number of rows is not `rows`, for example because a file is truncated.
    """
    dataset = concatenate_datasets([Dataset.from_file(str(path)) for path in sorted(folder.glob("ids*.arrow"))])
    if len(dataset) != rows:
        raise ValueError(f"{folder} contains {len(dataset)} pairs, not {rows}.")
    return dataset


def token_lengths(dataset: Dataset, column: str) -> np.ndarray:
    """The lengths of the lists in a column, `(rows,)` int64, computed without reading the lists."""
    return pc.list_value_length(dataset.data.column(column)).to_numpy().astype(np.int64)


@dataclass(frozen=True)
class Collator:
    """Turns rows of an encoded dataset into padded tensors.

    Returns `input_ids` and `attention_mask` `(sentences, longest source)` and `labels` `(sentences, longest target)`,
    int64; labels are padded with -100. Rows with soft labels also give `soft_label_ids`, int32, and
    `soft_label_probabilities`, float16, `(sentences, longest target, k)`, padded with 0. With an aligner, there are
    also `aligned_positions` `(sentences, longest target)`, int64: the source position that each target token is
    aligned to, or -100.
    """

    pad_token_id: int
    aligner: "TokenAligner | None" = None

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        input_ids = _pad([row["input_ids"] for row in rows], self.pad_token_id)
        batch = {
            "input_ids": input_ids,
            "attention_mask": _pad([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": _pad([row["labels"] for row in rows], IGNORED_LABEL),
        }
        for name in ("soft_label_ids", "soft_label_probabilities"):
            if name in rows[0]:
                batch[name] = _pad_arrays([row[name] for row in rows])
        if self.aligner:
            aligned = [self.aligner(row["input_ids"], row["labels"]) for row in rows]
            batch["aligned_positions"] = _pad(aligned, IGNORED_LABEL)
        return batch


def _pad(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def _pad_arrays(rows: list[np.ndarray]) -> torch.Tensor:
    """Arrays `(length, k)` → `(rows, longest, k)`."""
    padded = np.zeros((len(rows), max(map(len, rows)), rows[0].shape[1]), rows[0].dtype)
    for row, array in zip(padded, rows):
        row[: len(array)] = array
    return torch.from_numpy(padded)


@dataclass(frozen=True)
class SoftLabels:
    """The k most probable tokens at each target position of all pairs, the most probable first."""

    # `(positions, k)`, int32, memory-mapped; the positions of the first pair, then those of the second, …
    ids: np.ndarray
    # `(positions, k)`, float16, memory-mapped; their sum is 1 at each position, up to rounding.
    probabilities: np.ndarray
    starts: np.ndarray  # `(pairs + 1,)`, the first position of each pair, and the number of positions
    folder: Path  # where the files are

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

"""Parallel text as token ids, and batches of it as the tensors that the model takes."""

import logging
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from ..errors import InputError
from ..modeling_vaswani import IGNORED_LABEL
from .parallel_text import Pair

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as token ids.

    Attributes:
        dataset: rows of `input_ids` (source) and `labels` (target), each ending with `</s>`.
        source_lengths, target_lengths: int64 arrays `(pairs,)`, in tokens.
    """

    dataset: Dataset
    source_lengths: np.ndarray
    target_lengths: np.ndarray

    def __len__(self) -> int:
        return len(self.dataset)


def encode_pairs(
    pairs: list[Pair], tokenizer: PreTrainedTokenizerFast, max_length: int | None = None, name: str = "given"
) -> EncodedPairs:
    """Tokenise pairs, leaving out those with an empty side or with a side of more than `max_length` tokens.

    Args:
        name: of the pairs, for messages: "training".

    Raises:
        InputError: where no pair is left.
    """
    kept = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    empty = len(pairs) - len(kept)
    columns = tokenizer([s for s, _ in kept], text_target=[t for _, t in kept]) if kept else {}
    rows = zip(columns.get("input_ids", []), columns.get("labels", []))
    rows = [row for row in rows if max_length is None or max(map(len, row)) <= max_length]
    too_long = len(kept) - len(rows)
    left_out = f"{empty} with an empty side" + (f", {too_long} over {max_length} tokens" if max_length else "")
    if empty or too_long:
        logger.warning("%d of %d %s pairs left out: %s", empty + too_long, len(pairs), name, left_out)
    if not rows:
        raise InputError(f"None of the {len(pairs)} {name} pairs can be used: {left_out}. Check the files.")
    dataset = Dataset.from_dict({"input_ids": [row[0] for row in rows], "labels": [row[1] for row in rows]})
    return EncodedPairs(dataset, *(np.array([len(row[side]) for row in rows]) for side in (0, 1)))


@dataclass(frozen=True)
class Collator:
    """Rows of an encoded data set → padded tensors.

    Returns `input_ids` and `attention_mask` `(sentences, longest source)` and `labels` `(sentences, longest target)`,
    int64; labels are padded with -100.
    """

    pad_token_id: int

    def __call__(self, rows: list[dict]) -> dict[str, torch.Tensor]:
        input_ids = _pad([row["input_ids"] for row in rows], self.pad_token_id)
        return {
            "input_ids": input_ids,
            "attention_mask": _pad([[1] * len(row["input_ids"]) for row in rows], 0),
            "labels": _pad([row["labels"] for row in rows], IGNORED_LABEL),
        }


def _pad(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])

"""One call of the translation pipeline: windows of texts, batches of like length, results in the order of the texts.

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import torch
from transformers import Pipeline
from transformers.utils import logging

from .search_options import SearchOptions
from .text_splitting import join_results, split_text
from .translation_inputs import (
    check_number,
    clean,
    default_batch_size,
    default_batch_tokens,
    is_blank,
    not_texts,
    not_texts_error,
    position_limit,
    source_limits,
    too_long_error,
)

logger = logging.get_logger(__name__)

FIRST_WINDOW, GROWTH, LAST_WINDOW = 128, 4, 4096


@dataclass
class TranslationRun:
    """What one call goes by, and its way from texts to results.

    Attributes:
        pipeline: a `TranslationPipeline`.
        preprocess, forward, postprocess: arguments of its methods of these names.
        search: the arguments of `generate()`, looked up.
        batch_tokens: source tokens in a batch at most, padding included; `None` for what the model's size allows.
        batch_size: texts in a batch at most, `None` for any number.
        split_sentences: translate long texts in pieces, and each line for itself.
        progress: called with the number of texts that were finished since the last time.

    Raises:
        ValueError: for sizes below 1, and where the search does not give as many hypotheses as are asked for.
    """

    pipeline: Pipeline
    preprocess: dict[str, Any]
    forward: dict[str, Any]
    postprocess: dict[str, Any]
    search: SearchOptions
    batch_tokens: int | None = None
    batch_size: int | None = None
    split_sentences: bool = False
    progress: Callable[[int], None] | None = None

    def __post_init__(self):
        own_limit = self.preprocess.get("max_source_length")
        for name, value in (
            ("batch_tokens", self.batch_tokens),
            ("batch_size", self.batch_size),
            ("max_source_length", own_limit),
        ):
            check_number(name, value)
        if self.batch_tokens is None:
            self.batch_tokens = default_batch_tokens(self.pipeline.model, self.search.rows())
            self.batch_size = self.batch_size or default_batch_size(self.pipeline.model, self.search.rows())
        self.limits = source_limits(self.pipeline.model, self.pipeline.tokenizer, own_limit)
        self.hypotheses = self.search.hypotheses(self.forward.get("n_best"))

    def stream(self, texts: Iterable[str]) -> Iterator[list[dict]]:
        """Texts → the hypotheses of each, window by window; memory does not grow with the number of texts."""
        texts, done, number = iter(texts), 0, 0
        while window := list(islice(texts, window_size(number))):
            wrong = not_texts(window, done)
            yield from self.translate(window[: wrong[0] - done] if wrong else window, done)
            if wrong:
                raise not_texts_error(window, wrong, done)
            done, number = done + len(window), number + 1

    def translate(self, texts: list[str], first: int = 0) -> list[list[dict]]:
        """Texts, of which the first has the number `first` → the hypotheses of each."""
        texts = ["" if is_blank(text) else clean(text) for text in texts]
        if not self.split_sentences:
            return self._translate(texts, list(range(len(texts))), first)[0]
        split = [split_text(text, self._fits, packs=self.limits.is_known) for text in texts]
        owners = [owner for owner, pieces in enumerate(split) for _ in pieces]
        results, lengths = self._translate([piece.text for pieces in split for piece in pieces], owners, first)
        ends = list(accumulate(len(pieces) for pieces in split))
        penalty = self.search.scoring().penalty
        return [
            join_results(results[start:end], lengths[start:end], pieces, penalty)
            for start, end, pieces in zip([0, *ends], ends, split)
        ]

    def _translate(self, texts: list[str], owners: list[int], first: int) -> tuple[list[list[dict]], list[list[int]]]:
        """Texts or pieces of them → the hypotheses of each, and the number of tokens of each hypothesis.

        Args:
            owners: the number of the text that a piece is of.
        """
        encoded = self._encode(texts, owners, first)
        results = [None if row else self._nothing() for row in encoded]
        lengths = [[0] * self.hypotheses] * len(texts)
        unfinished = Counter(owner for owner, row in zip(owners, encoded) if row)
        self._report(len(set(owners)) - len(unfinished))
        # The longest first, so that what does not fit into memory shows at once.
        longest_first = sorted((i for i, row in enumerate(encoded) if row), key=lambda i: -_length(encoded[i]))
        if longest_first:
            self._warn_of_short_output(_length(encoded[longest_first[0]]))
        sizes = {i: _length(encoded[i]) for i in longest_first}
        for numbers in token_batches(longest_first, sizes, self.batch_tokens, self.batch_size):
            batch = self.pipeline.collate([encoded[i] for i in numbers])
            outputs = self.pipeline.forward(batch, **self.forward)
            for row, i in enumerate(numbers):
                # One text's share, of batch size 1.
                share = {name: values[row : row + 1] for name, values in outputs.items()}
                results[i] = self.pipeline.postprocess(share, **self.postprocess)
                lengths[i] = (outputs["lengths"][row] - 1).tolist()
            unfinished.subtract(owners[i] for i in numbers)
            self._report(sum(not unfinished[owner] for owner in {owners[i] for i in numbers}))
        return results, lengths

    def _encode(self, texts: list[str], owners: list[int], first: int) -> list[dict | None]:
        """Texts → token ids and what else the tokenizer gives, `None` where there is nothing to translate.

        Raises:
            ValueError: naming all texts beyond the limit, where they are not to be cut.
        """
        encoded: list[dict | None] = [None] * len(texts)
        filled = [i for i, text in enumerate(texts) if not is_blank(text)]
        # A tokenizer's output holds much more than the ids: not of all texts at once.
        for start in range(0, len(filled), LAST_WINDOW):
            chunk = filled[start : start + LAST_WINDOW]
            for i, row in zip(chunk, self.pipeline.encode([texts[i] for i in chunk], **self._options())):
                encoded[i] = row if _length(row) else None
        truncation = self.preprocess.get("truncation", False)
        cuts = truncation not in (False, "do_not_truncate")
        limit = self.limits.cut if cuts else self.limits.whole
        too_long = [i for i, row in enumerate(encoded) if row and _length(row) > limit]
        if too_long and not cuts:
            raise too_long_error({first + owners[i]: _length(encoded[i]) for i in too_long}, limit)
        if too_long:
            logger.warning(f"Texts cut: {len(too_long)}, at {limit} tokens.")
            cut = {"truncation": truncation, "max_source_length": limit}
            for i, row in zip(too_long, self.pipeline.encode([texts[i] for i in too_long], **self._options(), **cut)):
                encoded[i] = row
        return encoded

    def _fits(self, text: str) -> bool:
        """Whether a text is short enough for a piece."""
        return _length(self.pipeline.encode([text], **self._options())[0]) <= self.limits.piece

    def _options(self) -> dict[str, Any]:
        """What `preprocess` is to go by, but for the limits, which hold when all lengths are known."""
        return {k: v for k, v in self.preprocess.items() if k not in ("truncation", "max_source_length")}

    def _nothing(self) -> list[dict]:
        """The hypotheses of a text that has nothing to translate."""
        hypotheses = []
        for _ in range(self.hypotheses):
            if self.postprocess.get("as_tensors"):
                result = {"translation_token_ids": torch.zeros(0, dtype=torch.long)}
            else:
                result = {"translation_text": ""}
            if self.forward.get("n_best") or self.forward.get("return_scores"):
                result["score"] = 0.0
            if self.forward.get("return_alignments"):
                result.update(alignment=[], source_tokens=[], target_tokens=[])
            hypotheses.append(result)
        return hypotheses

    def _report(self, done: int) -> None:
        if self.progress and done:
            self.progress(done)

    def _warn_of_short_output(self, source_length: int) -> None:
        limit = self.search.chosen_length() or self.search.default_length()
        if limit is None or source_length <= 0.9 * limit or self.search.length_is_of_call():
            return
        positions = position_limit(self.pipeline.model.get_decoder())
        if positions is None or limit < positions - 1:
            logger.warning(
                f"The input has {source_length} tokens, and the translation ends at {limit}. To make room for a "
                f"longer one, call translator('...', max_new_tokens={2 * max(limit, source_length)})."
            )


def token_batches(
    rows: Iterable[int], lengths: Mapping[int, int] | Sequence[int], batch_tokens: int, batch_size: int | None = None
) -> Iterator[list[int]]:
    """Rows in order, which is that of their lengths, in batches of at most so many tokens, padding included.

    Args:
        lengths: tokens of each row; one that alone has more than `batch_tokens` is a batch of its own.
        batch_size: rows in a batch at most, `None` for any number.
    """
    batch: list[int] = []
    longest = 0
    for row in rows:
        longest = max(longest, lengths[row])
        if batch and ((len(batch) + 1) * longest > batch_tokens or len(batch) == batch_size):
            yield batch
            batch, longest = [], lengths[row]
        batch.append(row)
    if batch:
        yield batch


def window_size(number: int) -> int:
    """Texts of a window by its number from 0 on: few at first, for early results, then more, for full batches."""
    return min(FIRST_WINDOW * GROWTH ** min(number, 10), LAST_WINDOW)


def _length(row: dict) -> int:
    return len(row["input_ids"])


__all__ = ["TranslationRun", "token_batches", "window_size"]

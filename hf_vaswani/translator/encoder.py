"""Texts → token ids, with the languages and the prefix that the model expects."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import private_copy
from ..generation.alignment import text_mask, to_tokens
from ..generation.arguments import GenerateArguments
from ..generation.output_scores import decoder_start
from ..text.languages import group_prefix, is_multilingual, mark_target
from ..text.normalization import clean, normalized
from ..text.vocabularies import target_encoding_error
from .segments import Row, Segment

# The argument with which multilingual tokenizers choose the target language.
FIRST_TOKEN = "forced_bos_token_id"


class Encoder:
    """Encodes sources, and the prefixes of their translations.

    Args:
        prefix: what the model reads before each text, such as T5's name of the task; "" for nothing.
        src_lang, tgt_lang: languages, for multilingual tokenizers.
        encode: in place of [`rows`], the stage of a pipeline that has its own.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        prefix: str = "",
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        encode: Callable[..., list[Row]] | None = None,
    ):
        self.tokenizer, self.prefix, self.src_lang, self.tgt_lang = tokenizer, prefix, src_lang, tgt_lang
        self._encode = encode or self.rows

    def rows(self, texts: list[str], truncation: bool | str = False, max_length: int | None = None) -> list[Row]:
        """Texts → for each, its `input_ids`, and the target language's token if the model needs it."""
        found = tokenize(self.tokenizer, texts, self.prefix, self.src_lang, self.tgt_lang, truncation, max_length)
        found.pop("attention_mask", None)  # all ones until there is padding
        return [{k: v[i] if isinstance(v, list) else v for k, v in found.items()} for i in range(len(texts))]

    def encode(
        self, segments: Sequence[Segment], truncation: bool | str = False, max_length: int | None = None
    ) -> None:
        """Set the row of each segment; with markers as tokens where they are part of what the model reads."""
        limits = {"truncation": truncation, "max_length": max_length} if truncation else {}
        for is_marked in (False, True):
            own = [segment for segment in segments if bool(segment.marked) == is_marked]
            texts = [normalized(segment.marked or segment.piece.text, self.tokenizer) for segment in own]
            encode = self._with_markers().rows if own and is_marked else self._encode
            for segment, row in zip(own, encode(texts, **limits) if own else ()):
                segment.row = row if row["input_ids"] else None

    def add_prompts(self, segments: Sequence[Segment], model: PreTrainedModel) -> None:
        """Set the prompt of each segment: the decoder's start and the tokens of its prefix."""
        tokenizer = private_copy(self.tokenizer)
        if error := target_encoding_error(tokenizer):
            raise ValueError(error)
        if self.tgt_lang:
            tokenizer.tgt_lang = self.tgt_lang
        start = decoder_start(model)
        if start is None:
            raise ValueError("This model's config has no decoder_start_token_id, which a prefix must follow.")
        prefixes = [normalized(clean(segment.prefix), self.tokenizer, is_target=True) for segment in segments]
        labels = tokenizer(text_target=prefixes)["input_ids"]
        ends = {tokenizer.eos_token_id, *GenerateArguments(model, {}, {}).eos_token_ids()}
        for segment, ids in zip(segments, labels):
            segment.prompt = [start, *takewhile(lambda token_id: token_id not in ends, ids)]

    def source_tokens(self, text: str) -> list[str]:
        """The tokens of a text, as alignments have them."""
        [row] = self._encode([normalized(text, self.tokenizer)])
        ids = torch.tensor(row["input_ids"])
        return to_tokens(self.tokenizer, ids[text_mask(self.tokenizer, ids)].tolist())

    def _with_markers(self) -> "Encoder":
        from ..text.markers import with_markers  # only texts with terms need them

        return Encoder(with_markers(self.tokenizer), self.prefix, self.src_lang, self.tgt_lang)


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    prefix: str = "",
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    truncation: bool | str = False,
    max_length: int | None = None,
) -> dict[str, Any]:
    """The tokenizer's output for sources: lists of ids, without padding; arguments as in [`Encoder`]."""
    texts = mark_target(texts, prefix or group_prefix(tokenizer, tgt_lang))
    limits = {"truncation": truncation, "max_length": max_length} if truncation else {}
    tokenizer = private_copy(tokenizer)
    if is_multilingual(tokenizer) and tgt_lang is not None:
        found = tokenizer._build_translation_inputs(
            texts, return_tensors=None, src_lang=src_lang or tokenizer.src_lang, tgt_lang=tgt_lang, **limits
        )
    else:
        if is_multilingual(tokenizer):  # the model has a target language of its own
            tokenizer.src_lang = src_lang or tokenizer.src_lang
        found = tokenizer(texts, **limits)
    found.pop("token_type_ids", None)
    return dict(found)


__all__ = ["FIRST_TOKEN", "Encoder", "tokenize"]

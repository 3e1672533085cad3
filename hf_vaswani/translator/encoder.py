"""Texts → token ids, with the languages and the prefix that the model expects."""

import warnings
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import private_copy
from ..generation.alignment import text_mask, to_tokens
from ..generation.output_scores import decoder_start
from ..generation.settings import LONGEST_SOURCE, GenerateArguments, position_limit
from ..text.inputs import check_text, listed
from ..text.language_marks import mark_target
from ..text.languages import (
    TRANSLATION_TASK,
    check_pair,
    fits_pair,
    has_own_target,
    is_multilingual,
    language_id,
    task_parameters,
    translation_tasks,
)
from ..text.normalization import clean, normalized
from ..text.vocabularies import target_encoding_error
from .segments import Row, Segment

NO_LIMIT = 10**6  # tokenizers without a limit have a `model_max_length` far beyond
LONGEST_PIECE = 512
# The argument with which multilingual tokenizers choose the target language.
FIRST_TOKEN = "forced_bos_token_id"


class SourceLimits(NamedTuple):
    """Maximum numbers of source tokens, special tokens included.

    Attributes:
        whole: for a text as it is; longer ones are refused.
        cut: for texts that are to be cut.
        piece: for the pieces of a text that is to be split.
        is_known: whether model, tokenizer or caller set a limit at all.
    """

    whole: int
    cut: int
    piece: int
    is_known: bool


def source_limits(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, own: int | None = None) -> SourceLimits:
    """How long a source may be.

    The limit is the size of the encoder's position table, if it has one (Bart, mBART, Marian, Vaswani with learned
    positions), else the tokenizer's limit (M2M100, NLLB). For models with relative positions (T5), the latter is only
    advice: texts are cut and split there, but not refused.

    Args:
        own: the caller's limit, which replaces every limit except a position table's.
    """
    table, advised = position_limit(model.get_encoder()), tokenizer.model_max_length
    if advised is not None and advised >= NO_LIMIT:
        advised = None
    known = min((n for n in (own, table) if n), default=advised)
    is_advice = known == advised and not own and not table and hasattr(model.config, "relative_attention_num_buckets")
    return SourceLimits(
        whole=LONGEST_SOURCE if known is None or is_advice else known,
        cut=known or LONGEST_SOURCE,
        piece=known or LONGEST_PIECE,
        is_known=known is not None,
    )


def too_long_error(lengths: dict[int, int], limit: int) -> ValueError:
    """The error for texts that are too long.

    Args:
        lengths: position of a text → its number of tokens.
    """
    errors = [f"inputs[{i}] has {length} tokens" for i, length in lengths.items()]
    return ValueError(
        f"{listed(errors)}, but a text may have {limit} at most. Pass split_sentences=True to translate long texts "
        "in pieces, or truncation=True to cut them."
    )


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

    def set_rows(
        self, segments: Sequence[Segment], truncation: bool | str = False, max_length: int | None = None
    ) -> None:
        """Set the row of each segment; with markers as tokens where they are part of what the model reads."""
        limits = {"truncation": truncation, "max_length": max_length} if truncation else {}
        for is_marked in (False, True):
            own = [segment for segment in segments if bool(segment.text_with_terms) == is_marked]
            texts = [normalized(segment.text_with_terms or segment.piece.text, self.tokenizer) for segment in own]
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
        if self.tgt_lang and has_own_target(tokenizer, None, start):  # mBART's decoder starts with the language
            start = language_id(tokenizer, self.tgt_lang)
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
    texts = mark_target(tokenizer, texts, tgt_lang, prefix)
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


def translation_task(
    model: PreTrainedModel, task: str = "translation", src_lang: str | None = None, tgt_lang: str | None = None
) -> tuple[str, dict[str, Any]]:
    """The task that a model is used for, and the parameters that its config has for it.

    T5's config has a prefix for sources, and search parameters, under the name of a task such as
    `"translation_en_to_fr"`. The languages select the task, whether its name or the other arguments give them; if they
    leave a choice, the first task is used, with a warning.

    Returns:
        The task, and its parameters: `prefix`, "" without one, and search parameters.

    Raises:
        ValueError: the model has prefixes, but none for these languages.
    """
    parameters_by_task, own_tasks = task_parameters(model.config), translation_tasks(model.config)
    named = TRANSLATION_TASK.fullmatch(task)
    if own_tasks:
        languages = (
            (src_lang, tgt_lang) if named is None else (src_lang or named["source"], tgt_lang or named["target"])
        )
        check_pair(languages, list(own_tasks.values()), "Choose one of these pairs.")
        task, *others = [name for name, pair in own_tasks.items() if fits_pair(languages, pair)]
        if others:
            warnings.warn(
                f"Several of this model's tasks fit: {', '.join([task, *others])}. "
                f'Using "{task}". Pass src_lang and tgt_lang to choose another.',
                UserWarning,
                stacklevel=3,
            )
    parameters = dict(parameters_by_task.get(task, {}))
    prefix = parameters.get("prefix", getattr(model.config, "prefix", None)) or ""
    check_text("The prefix in the model's config", prefix)
    return task, {**parameters, "prefix": clean(prefix)}


__all__ = ["FIRST_TOKEN", "Encoder", "SourceLimits", "source_limits", "too_long_error", "tokenize", "translation_task"]

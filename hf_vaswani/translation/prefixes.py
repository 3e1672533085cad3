"""Translations that begin as they are told to: the search goes on from a given prefix of each."""

from collections.abc import Sequence
from itertools import chain, groupby, takewhile
from typing import Any

import torch
from transformers import Pipeline

from ..data.tokenizer import check_target_encoding
from ..errors import InputError
from ..hypotheses import decoder_start
from ..search_options import SearchOptions
from ..translation_inputs import check_many, check_number, clean, default_batch_size, default_batch_tokens, is_blank
from ..translation_run import token_batches


def translate_with_prefixes(
    translator: Pipeline,
    texts: Sequence[str],
    prefixes: Sequence[str],
    batch_tokens: int | None = None,
    batch_size: int | None = None,
    **options,
) -> list[list[dict[str, Any]]]:
    """Translate texts with forced target prefixes. Those with prefixes of one length, in tokens, meet in batches.

    Args:
        translator: a translation pipeline.
        prefixes: of each translation, in whole words; an empty one leaves all to the model.
        batch_tokens, batch_size: source tokens, padding included, and texts in a batch at most.
        options: further arguments of the pipeline. Scores of beam search are those of what follows the prefix.

    Returns:
        The translations of each text, best first, prefix included. A blank text has the empty one.

    Raises:
        ValueError: one text instead of a list, lists of different lengths, numbers that are none.
    """
    check_many("texts", texts)
    check_many("prefixes", prefixes)
    if len(texts) != len(prefixes):
        raise ValueError(f"texts and prefixes must be of one length, got {len(texts)} and {len(prefixes)}.")
    check_number("batch_tokens", batch_tokens)
    check_number("batch_size", batch_size)
    progress = options.pop("progress", None)
    if batch_tokens is None:
        search = SearchOptions(translator.model, {**translator._forward_params, **options}, translator.task_params)
        batch_tokens = default_batch_tokens(translator.model, search.rows())
        batch_size = batch_size or default_batch_size(translator.model, search.rows())
    blank = translator("", **options)
    results = [[dict(entry) for entry in blank] for _ in texts]
    own = {name: options.pop(name) for name in ("src_lang", "tgt_lang", "max_source_length") if name in options}
    preprocess = {**translator._preprocess_params, **own}
    filled = [row for row, text in enumerate(texts) if not is_blank(text)]
    if not filled:
        return results
    encoded = dict(zip(filled, translator.encode([clean(texts[row]) for row in filled], **preprocess)))
    starts = dict(zip(filled, _starts(translator, [prefixes[row] for row in filled], preprocess.get("tgt_lang"))))
    lengths = {row: len(encoded[row]["input_ids"]) for row in filled}
    longest_first = sorted(filled, key=lambda row: (len(starts[row]), -lengths[row]))
    alike = (list(rows) for _, rows in groupby(longest_first, key=lambda row: len(starts[row])))
    for batch in chain.from_iterable(token_batches(rows, lengths, batch_tokens, batch_size) for rows in alike):
        outputs = translator.forward(
            translator.collate([encoded[row] for row in batch]),
            decoder_input_ids=torch.tensor([starts[row] for row in batch], device=translator.model.device),
            **{**translator._forward_params, **options},
        )
        for place, row in enumerate(batch):
            share = {name: values[place : place + 1] for name, values in outputs.items()}
            results[row] = translator.postprocess(share, **translator._postprocess_params)
        if progress:
            progress(len(batch))
    return results


def _starts(translator: Pipeline, prefixes: list[str], tgt_lang: str | None) -> list[list[int]]:
    """What the decoder starts with: its start token, then the tokens of the prefix."""
    tokenizer, model = translator.tokenizer, translator.model
    check_target_encoding(tokenizer)
    if tgt_lang:
        tokenizer.tgt_lang = tgt_lang
    start = decoder_start(model)
    if start is None:
        raise InputError("This model's config names no decoder_start_token_id, from which a prefix could go on.")
    labels = tokenizer(text_target=[clean(prefix) for prefix in prefixes])["input_ids"]
    ends = {tokenizer.eos_token_id, *SearchOptions(model, {}, {}).eos_token_ids()}
    return [[start, *takewhile(lambda token_id: token_id not in ends, ids)] for ids in labels]

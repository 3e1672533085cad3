"""Word alignments of given pairs: which source word each word of the target comes from, by the model's attention."""

import re
from collections.abc import Callable, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.tokenizers.tokenizer import check_target_encoding
from ..engines.engine_model import EngineModel
from ..generation.model_checks import position_limit
from ..generation.output_scores import align, forced_output
from ..text.languages import group_prefix, mark_target
from ..text.token_spans import readable_tokens, token_spans, words_at
from ..text.words import Span
from .batches import token_batches
from .pair_scores import MOST_TOKENS, encode_with_languages
from .pipeline import translation_task

# Attention weights of all layers and heads are kept, which take more memory than logits.
BATCH_TOKENS = 2048

Links = set[tuple[int, int]]


def words_by_spaces(text: str) -> list[Span]:
    """Start and end of each word, up to whitespace."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def align_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    words: Callable[[str], list[Span]] = words_by_spaces,
) -> list[Links | None]:
    """Align the words of pairs.

    The decoder is fed the target (teacher forcing). A target word is linked to each source word that one of its
    tokens is aligned to.

    Args:
        pairs: source and target.
        src_lang, tgt_lang: languages, for multilingual tokenizers.
        words: finds the words of a text.

    Returns:
        For each pair the links (source word, target word), counted from 0; `None` for a pair that has more tokens on
        a side than the model has positions for, or than 1024.

    Raises:
        ValueError: the model has no attention weights, as those of other engines.
    """
    if isinstance(model, EngineModel):
        raise ValueError(f"Alignments need attention weights, which {model.engine_name} does not return.")
    check_target_encoding(tokenizer)
    task = translation_task(model, src_lang=src_lang, tgt_lang=tgt_lang)[1]
    prefix = task["prefix"] or group_prefix(tokenizer, tgt_lang)
    marked = mark_target([source for source, _ in pairs], prefix)
    targets = [target for _, target in pairs]
    encoded = encode_with_languages(tokenizer, list(zip(marked, targets)), src_lang, tgt_lang)
    positions = position_limit(model.get_encoder()), position_limit(model.get_decoder())
    limit = min(number for number in (MOST_TOKENS, *positions) if number is not None)
    longest = [max(map(len, pair)) for pair in encoded]
    links: list[Links | None] = [set() for _ in pairs]
    rows = []
    for row, length in enumerate(longest):
        if length > limit:
            links[row] = None
        elif all(encoded[row]):
            rows.append(row)
    rows.sort(key=longest.__getitem__)
    for batch in token_batches(rows, longest.__getitem__, BATCH_TOKENS):
        for row, aligned in zip(batch, _align_batch(model, tokenizer, [encoded[row] for row in batch])):
            added = len(marked[row]) - len(pairs[row][0])
            texts = {"source_tokens": marked[row], "target_tokens": targets[row]}
            source_words, target_words = (
                [words_at(words(text), span) for span in token_spans(readable_tokens(tokenizer, aligned[name]), text)]
                for name, text in texts.items()
            )
            before = len(words(marked[row][:added]))
            found = {
                (s - before, t) for i, j in aligned["alignment"] for s in source_words[i] for t in target_words[j]
            }
            links[row] = {link for link in found if link[0] >= 0}
    return links


def _align_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[list[int], list[int]]]
) -> list[dict[str, list]]:
    """Tokens and their alignment for each pair of token ids, as in [`align`]."""
    pad = next(i for i in (tokenizer.pad_token_id, model.config.pad_token_id, 0) if i is not None)
    sources, labels = zip(*pairs)
    source_ids, label_ids, mask = (
        pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler).to(model.device)
        for rows, filler in ((sources, pad), (labels, pad), ([[1] * len(row) for row in sources], 0))
    )
    lengths = torch.tensor([[len(row) + 1] for row in labels], device=model.device)
    output_ids = forced_output(model, label_ids).unsqueeze(1)
    inputs = {"input_ids": source_ids, "attention_mask": mask}
    return [aligned for [aligned] in align(model, tokenizer, inputs, output_ids, lengths)]


__all__ = ["align_pairs"]

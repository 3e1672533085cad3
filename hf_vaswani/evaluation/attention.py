"""Computes and draws the attention between a sentence and its translation: one layer or head, all, or their mean.

Layers and heads are counted from 0, as in the names of the parameters; negative numbers count from the last.
"""

from itertools import compress, product
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import private_copy
from ..data.tokenizers.tokenizer import check_target_encoding
from ..errors import InputError
from ..pipeline.alignment import ForcedAttentions, alignments, evaluation, forced_attentions, text_mask, to_tokens
from ..pipeline.output_scores import forced_output
from ..pipeline.source_limits import position_limit
from ..text.inputs import check_text
from ..text.invisible import is_blank
from ..text.normalization import normalized
from .heat_map import draw_attention
from .token_text import readable_tokens

Which = int | str | None  # layer or head: its number, "all" for one panel each, `None` for the mean

KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
READ_SOURCE, READ_TARGET, PREDICTED = "source tokens", "target tokens read so far", "target tokens, being predicted"


class SentenceAttention(NamedTuple):
    """One sentence, its translation, and the attention between them."""

    source_tokens: list[str]  # as the encoder reads them, with special tokens
    target_tokens: list[str]  # the decoder's start token and all that follow it: one more than the rows of `weights`
    weights: ForcedAttentions  # of a batch of one
    alignment: list[tuple[int, int]]  # source and target indices, without special tokens; see `alignments`
    source_words: list[str]  # the tokens that the indices in `alignment` refer to
    target_words: list[str]
    translation: str  # the target as text


def sentence_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    **generate_kwargs,
) -> SentenceAttention:
    """Compute the attention between a sentence and its translation.

    Args:
        source: text as the model reads it, with its prefix if it needs one. A multilingual tokenizer must have its
            languages set.
        target: the translation; by default the model's own.
        generate_kwargs: arguments of `generate()` for the model's own translation, such as `num_beams=4`.

    Raises:
        InputError: a text is empty or has more tokens than the model has positions.
        ValueError: a text is not a string.
    """
    check_text("source", source)
    if target is not None:
        check_text("target", target)
    if errors := text_errors(source, target):
        raise InputError.of(errors)
    inputs = tokenizer([normalized(source, tokenizer)], return_tensors="pt").to(model.device)
    input_ids = inputs["input_ids"]
    check_token_count(model.get_encoder(), input_ids, "text")
    inputs.pop("token_type_ids", None)
    if target is None:
        with evaluation(model, "eager") as searching:
            output = searching.generate(**inputs, **generate_kwargs, return_dict_in_generate=True)
        output_ids = output.sequences[:1]
    else:
        check_target_encoding(tokenizer)
        target = normalized(target, tokenizer, is_target=True)
        labels = private_copy(tokenizer)(text_target=[target], return_tensors="pt")["input_ids"].to(model.device)
        check_token_count(model.get_decoder(), labels, "target")
        output_ids = forced_output(model, labels)
    weights, target_ids = forced_attentions(model, inputs, output_ids), output_ids[:, 1:]
    source_mask, target_mask = text_mask(tokenizer, input_ids), text_mask(tokenizer, target_ids, is_target=True)
    source_tokens = readable_tokens(tokenizer, to_tokens(tokenizer, input_ids[0].tolist()))
    target_tokens = readable_tokens(tokenizer, to_tokens(tokenizer, output_ids[0].tolist(), is_target=True))
    return SentenceAttention(
        source_tokens,
        target_tokens,
        weights,
        alignment=alignments(weights.cross, source_mask, target_mask)[0],
        source_words=list(compress(source_tokens, source_mask[0])),
        target_words=list(compress(target_tokens[1:], target_mask[0])),
        translation=tokenizer.decode(target_ids[0], skip_special_tokens=True),
    )


def set_languages(tokenizer: PreTrainedTokenizerBase, given: dict[str, str]) -> dict[str, int]:
    """Set the languages of a multilingual tokenizer, and return the arguments of `generate()` for the target language.

    Args:
        tokenizer: one that no other thread uses, see [`private_copy`].
        given: `src_lang` and `tgt_lang`, if known.
    """
    if not hasattr(tokenizer, "_build_translation_inputs"):
        return {}
    for name, code in given.items():
        setattr(tokenizer, name, code)
    if "tgt_lang" not in given:
        return {}
    inputs = tokenizer._build_translation_inputs(
        ["a"], return_tensors=None, src_lang=tokenizer.src_lang, tgt_lang=given["tgt_lang"]
    )
    return {"forced_bos_token_id": int(inputs["forced_bos_token_id"])}


def text_errors(source: str, target: str | None) -> list[str]:
    """Errors about empty texts for [`sentence_attention`]."""
    errors = ["The text is empty. Enter a sentence to translate."] if is_blank(source) else []
    if target is not None and is_blank(target):
        errors.append("The target is empty. Enter a translation, or leave it out for the model's own.")
    return errors


def check_token_count(stack: nn.Module, ids: torch.Tensor, name: str) -> None:
    """Raise an `InputError` if a text has more tokens than an encoder or decoder has positions.

    Args:
        stack: the encoder or decoder.
        ids: of the text, `(batch, length)`.
        name: what the error calls the text.
    """
    length, limit = ids.shape[1], position_limit(stack)
    if limit and length > limit:
        raise InputError(f"The {name} has {length} tokens, but the model has {limit} positions. Shorten it.")


def draw_sentence(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    kind: str = "cross",
    layer: Which = None,
    head: Which = None,
    **generate_kwargs,
) -> Figure:
    """Draw the attention between a sentence and its translation as a matplotlib figure.

    Arguments and errors are those of `sentence_attention` and `attention_figure`.
    """
    attention = sentence_attention(model, tokenizer, source, target, **generate_kwargs)
    return attention_figure(attention, kind, layer, head)


def attention_figure(
    attention: SentenceAttention, kind: str = "cross", layer: Which = None, head: Which = None
) -> Figure:
    """Draw one kind of attention as a matplotlib figure.

    Args:
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer, head: a number, `"all"` for one panel each, or `None` for the mean.

    Raises:
        InputError: there is no such kind, layer or head.
    """
    if errors := selection_errors(attention, kind, layer, head):
        raise InputError.of(errors)
    weights = getattr(attention.weights, kind)[0].cpu()  # (layers, heads, rows, columns)
    titles, names = [KINDS[kind].capitalize()], []
    for dim, (name, which) in enumerate({"layer": layer, "head": head}.items()):
        count = weights.shape[dim]
        names.append([f"{name} {number}" for number in range(count)] if which == "all" else [""])
        if which is None:
            weights = weights.mean(dim, keepdim=True)
            titles.append(f"mean of {count} {name}s")
        elif which != "all":
            weights = weights.narrow(dim, which % count, 1)
            titles.append(f"{name} {which % count} of 0–{count - 1}")
    source, target = (attention.source_tokens, READ_SOURCE), (attention.target_tokens[1:], PREDICTED)
    rows, row_label = source if kind == "encoder" else target
    columns, column_label = (attention.target_tokens[:-1], READ_TARGET) if kind == "decoder" else source
    return draw_attention(
        weights.flatten(0, 1).numpy(),
        rows,
        columns,
        title=", ".join(titles),
        row_label=row_label,
        column_label=column_label,
        panel_titles=[", ".join(filter(None, pair)) for pair in product(*names)],
        panels_per_row=len(names[1]) if layer == head == "all" else None,
    )


def selection_errors(attention: SentenceAttention, kind: str, layer: Which, head: Which) -> list[str]:
    """Errors about a kind, layer or head that the model does not have."""
    if kind not in KINDS:
        return [f"There is no attention {kind!r}. Choose one of {', '.join(KINDS)}."]
    layers, heads = getattr(attention.weights, kind).shape[1:3]
    return [
        f"There is no {name} {number} of {KINDS[kind]}: {name}s go from 0 to {count - 1}, or from -1, the last, to "
        f"-{count}."
        for name, number, count in (("layer", layer, layers), ("head", head, heads))
        if isinstance(number, int) and not -count <= number < count
    ]

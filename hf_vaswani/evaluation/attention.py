"""The attention of one sentence and its translation, and pictures of it: of a layer, of a head, of all of them.

Layers and heads are counted from 0, as in the names of the parameters, and negative numbers
count from the last.
"""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..attention_vaswani import (
    ForcedAttentions,
    alignments,
    eager_evaluation,
    forced_attentions,
    text_mask,
    to_tokens,
)
from ..data.tokenizer import check_target_encoding
from ..errors import InputError
from ..hypotheses import shifted_right
from ..translation_inputs import check_text, position_limit
from .heat_map import draw_attention
from .picture_text import readable_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
READ_SOURCE, READ_TARGET, PREDICTED = "source tokens", "target tokens read so far", "target tokens, being predicted"


@dataclass(frozen=True)
class SentenceAttention:
    """One sentence, its translation, and the attention between them.

    Attributes:
        source_tokens: as the encoder reads them, special ones included.
        target_tokens: the decoder's start and all that follows it: one more than `weights` has rows.
        weights: of a batch of one.
        alignment: pairs (source index, target index), counted without special tokens; see `alignments`.
        source_words, target_words: the tokens to which these indices belong.
        translation: the target as text.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    weights: ForcedAttentions
    alignment: list[tuple[int, int]]
    source_words: list[str]
    target_words: list[str]
    translation: str


def sentence_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    **generate_kwargs,
) -> SentenceAttention:
    """Attention of a sentence and its translation.

    Args:
        source: text as the model reads it, with its prefix where it needs one. Languages of a multilingual tokenizer
            are those set in it.
        target: the translation; by default the model's own.
        generate_kwargs: arguments of `generate()` for the model's own, such as `num_beams=4`.

    Raises:
        InputError: where a text is empty or longer than the model's positions.
        ValueError: where it is none.
    """
    check_text("source", source)
    if target is not None:
        check_text("target", target)
    faults = text_faults(source, target)
    if faults:
        raise InputError.of(faults)
    inputs = tokenizer([source], return_tensors="pt").to(model.device)
    _check_length(model.get_encoder(), inputs["input_ids"], "text")
    inputs.pop("token_type_ids", None)
    if target is None:
        with eager_evaluation(model):
            output_ids = model.generate(**inputs, **generate_kwargs, return_dict_in_generate=True).sequences[:1]
    else:
        check_target_encoding(tokenizer)
        labels = tokenizer(text_target=[target], return_tensors="pt")["input_ids"].to(model.device)
        _check_length(model.get_decoder(), labels, "target")
        output_ids = torch.cat([shifted_right(model, labels)[:, :1], labels], dim=1)
    weights = forced_attentions(model, inputs, output_ids)
    input_ids, target_ids = inputs["input_ids"], output_ids[:, 1:]
    source_mask, target_mask = text_mask(tokenizer, input_ids), text_mask(tokenizer, target_ids)
    sides = []
    for ids, is_target in ((input_ids, False), (output_ids, True)):
        sides.append(readable_tokens(tokenizer, to_tokens(tokenizer, ids[0].tolist(), is_target)))
    return SentenceAttention(
        *sides,
        weights=weights,
        alignment=alignments(weights.cross, source_mask, target_mask)[0],
        source_words=[token for token, is_text in zip(sides[0], source_mask[0]) if is_text],
        target_words=[token for token, is_text in zip(sides[1][1:], target_mask[0]) if is_text],
        translation=tokenizer.decode(target_ids[0], skip_special_tokens=True),
    )


def text_faults(source: str, target: str | None) -> list[str]:
    """Why no attention can be computed for texts."""
    faults = [] if source.strip() else ["The text is empty. Give a sentence to translate."]
    if target is not None and not target.strip():
        faults.append("The target is empty. Give a translation, or leave it out for the model's own.")
    return faults


def _check_length(stack: nn.Module, ids: torch.Tensor, name: str) -> None:
    limit = position_limit(stack)
    if limit and ids.shape[1] > limit:
        raise InputError(
            f"The {name} has {ids.shape[1]} tokens, and the model's positions end at {limit}. Shorten it."
        )


def draw_sentence(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    kind: str = "cross",
    layer: int | str | None = None,
    head: int | str | None = None,
    **generate_kwargs,
) -> "Figure":
    """The attention of a model to a sentence and its translation as a matplotlib figure.

    Args:
        source, target, generate_kwargs: as of `sentence_attention`.
        kind, layer, head: as of `attention_figure`.

    Raises:
        InputError: where a text is empty or too long, or where there is no such layer or head.
    """
    attention = sentence_attention(model, tokenizer, source, target, **generate_kwargs)
    return attention_figure(attention, kind, layer, head)


def attention_figure(
    attention: SentenceAttention, kind: str = "cross", layer: int | str | None = None, head: int | str | None = None
) -> "Figure":
    """One kind of attention as a matplotlib figure.

    Args:
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer, head: a number, from 0, negative ones from the last; `None` for the mean; `"all"` for a panel each.

    Raises:
        InputError: where there is no such layer or head.
    """
    faults = selection_faults(attention, kind, layer, head)
    if faults:
        raise InputError.of(faults)
    weights = getattr(attention.weights, kind)[0].cpu()
    layers, layer_title, layer_names = _select(weights, layer, "layer")
    heads, head_title, head_names = _select(layers.transpose(0, 1), head, "head")
    rows, row_label = attention.target_tokens[1:], PREDICTED
    columns, column_label = attention.source_tokens, READ_SOURCE
    if kind == "encoder":
        rows, row_label = attention.source_tokens, READ_SOURCE
    elif kind == "decoder":
        columns, column_label = attention.target_tokens[:-1], READ_TARGET
    return draw_attention(
        heads.transpose(0, 1).flatten(0, 1).numpy(),
        rows,
        columns,
        title=", ".join(filter(None, (KINDS[kind].capitalize(), layer_title, head_title))),
        row_label=row_label,
        column_label=column_label,
        panel_titles=[", ".join(filter(None, names)) for names in itertools.product(layer_names, head_names)],
        panels_a_row=len(head_names) if layer == head == "all" else None,
    )


def selection_faults(
    attention: SentenceAttention, kind: str, layer: int | str | None, head: int | str | None
) -> list[str]:
    """Which of a layer and a head the model does not have."""
    if kind not in KINDS:
        return [f"There is no attention {kind!r}. Name one of {', '.join(KINDS)}."]
    counts = zip((layer, head), ("layer", "head"), getattr(attention.weights, kind).shape[1:3])
    return [
        f"There is no {name} {number} of {KINDS[kind]}: {name}s go from 0 to {count - 1}, or from -1, the last, to "
        f"-{count}."
        for number, name, count in counts
        if isinstance(number, int) and not -count <= number < count
    ]


def _select(weights: torch.Tensor, which: int | str | None, name: str) -> tuple[torch.Tensor, str, list[str]]:
    """What was selected of the first dimension, which stays; its part of the title, and of each panel's."""
    count = len(weights)
    if which is None:
        return weights.mean(dim=0, keepdim=True), f"mean of {count} {name}s", [""]
    if which == "all":
        return weights, "", [f"{name} {number}" for number in range(count)]
    number = which % count
    return weights[number : number + 1], f"{name} {number} of 0–{count - 1}", [""]

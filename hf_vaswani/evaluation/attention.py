"""Computes and draws the attention between a sentence and its translation: one layer or head, all, or their mean.

Layers and heads are counted from 0, as in the names of the parameters; negative numbers count from the last.
"""

import math
from itertools import compress, product
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..core.tokenization_vaswani import private_copy
from ..data.tokenizers.tokenizer import check_target_encoding
from ..errors import InputError
from ..generation.alignment import ForcedAttentions, alignments, evaluation, forced_attentions, text_mask, to_tokens
from ..generation.output_scores import decoder_start, forced_output
from ..generation.settings import position_limit
from ..text.inputs import check_text
from ..text.languages import is_multilingual, language_id, target_argument
from ..text.normalization import is_blank, normalized
from ..text.token_spans import readable_tokens
from .token_text import PIXELS_PER_INCH, drawable, is_right_to_left

# Inches: size of a single panel, and of one among several; limits on a cell, one per token, so that a long sentence
# makes a large figure; limit on all panels together, for which cells shrink further and labels are skipped.
ONE_PANEL, PANEL, SMALLEST_CELL, LARGEST_CELL, LARGEST_GRID = 5.5, 2.6, 0.115, 0.36, 60
GAP, BAR_WIDTH, SHORTEST_BAR, LONGEST_BAR = 0.06, 0.16, 1.2, 3.5
SMALLEST_FONT, LARGEST_FONT, POINTS_PER_INCH = 6.5, 10, 72  # points
Which = int | str | None  # layer or head: its number, "all" for one panel each, `None` for the mean
KINDS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
# Weights and search take the square of this, and a figure of as many tokens has no room for their names.
MOST_TOKENS = 2000
READ_SOURCE, READ_TARGET, PREDICTED = "source tokens", "target tokens read so far", "target tokens, being predicted"


def draw_attention(
    weights: np.ndarray,
    row_tokens: list[str],
    column_tokens: list[str],
    title: str = "",
    row_label: str = "",
    column_label: str = "",
    panel_titles: list[str] | None = None,
    panels_per_row: int | None = None,
) -> Figure:
    """Draw attention weights as a heat map, or as a grid of heat maps of the same tokens with one color scale.

    The figure grows with the number of tokens, so that they stay legible; tokens of more than 16 characters are cut.
    Columns of a right-to-left language run from right to left. Characters without an installed font appear as code
    points.

    Args:
        weights: `(rows, columns)`, or `(panels, rows, columns)`.
        row_tokens, column_tokens: one for each row and column.
        panel_titles: one for each panel.
        panels_per_row: at most the number of panels; by default, the figure is neither very wide nor very high.

    Raises:
        ValueError: the shape of the weights does not match the tokens, or there are no weights.
    """
    panels = weights[None] if weights.ndim == 2 else weights
    count, rows, columns = panels.shape
    if (rows, columns) != (len(row_tokens), len(column_tokens)) or not panels.size:
        raise ValueError(
            f"Weights of shape {weights.shape} do not match {len(row_tokens)} row tokens and "
            f"{len(column_tokens)} column tokens."
        )
    heights = {width: math.ceil(count / width) for width in range(1, count + 1)}
    # By default, few gaps and an aspect ratio near 3 to 2.
    width = panels_per_row or min(heights, key=lambda w: max(w * columns / 1.5, heights[w] * rows) * w * heights[w])
    height = heights[width]
    cell = min(max((PANEL if count > 1 else ONE_PANEL) / max(rows, columns), SMALLEST_CELL), LARGEST_CELL)
    cell = min(cell, LARGEST_GRID / max(rows * height, columns * width))
    font_size = min(max(0.75 * cell * POINTS_PER_INCH, SMALLEST_FONT), LARGEST_FONT)
    step = math.ceil(font_size / POINTS_PER_INCH / cell)  # 1, unless the figure would be too large
    figure = Figure(dpi=PIXELS_PER_INCH, layout="constrained")
    all_axes = figure.subplots(height, width, squeeze=False).flatten()
    is_reversed = is_right_to_left(column_tokens)
    for axes, panel, name in zip(all_axes, panels, panel_titles or [""] * count):
        axes.imshow(panel, cmap="Blues", vmin=0, vmax=panels.max(), interpolation="nearest", aspect="auto")
        axes.set_title(name, fontsize=max(font_size, 8), pad=3)
        axes.vlines(np.arange(0.5, columns - 1), -0.5, rows - 0.5, color="0.9", linewidth=0.4)
        axes.hlines(np.arange(0.5, rows - 1), -0.5, columns - 0.5, color="0.9", linewidth=0.4)
        axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
        axes.xaxis.set_inverted(is_reversed)
        axes.spines[:].set_color("0.7")
    for axes in all_axes[count:]:
        axes.remove()
    figure.suptitle(title, fontsize=11)
    figure.supylabel(row_label, fontsize=10)
    figure.supxlabel(f"{column_label}, from right to left" if is_reversed else column_label, fontsize=10)
    tokens, families = drawable([*row_tokens, *column_tokens])
    style = {"size": font_size, "family": families, "parse_math": False}  # a token may be a dollar
    style |= {"rotation_mode": "anchor", "ha": "right", "va": "center_baseline"}  # a low `▁` moves no other letter

    def label(axis: Axis, tokens: list[str], **rotated) -> None:
        axis.set_ticks(range(0, len(tokens), step), tokens[::step], **style, **rotated)
        axis.set_tick_params(length=0)

    # Only the outermost panels have labels.
    last_row = width * (height - 1)
    for axes in all_axes[:count:width]:
        label(axes.yaxis, tokens[:rows])
    for axes in all_axes[last_row:count]:
        label(axes.xaxis, tokens[rows:], rotation=90)
    _lay_out(figure, np.array((width, height)), cell * np.array((columns, rows)))
    for axes in all_axes[max(count - width, 0) : last_row]:  # above gaps in the last row, which have room for labels
        label(axes.xaxis, tokens[rows:], rotation=90)
    return figure


def _lay_out(figure: Figure, grid: np.ndarray, panel: np.ndarray) -> None:
    """Add the color bar and size the figure so that each panel gets its size, or its title's if larger.

    `grid` and `panel` are (horizontal, vertical).
    """
    all_axes, (title, row_label, column_label) = figure.axes, figure.texts
    widest = max(axes.title.get_window_extent().width for axes in all_axes) / figure.dpi + GAP
    smallest = title.get_window_extent().width / figure.dpi, row_label.get_window_extent().height / figure.dpi
    width, height = np.maximum(grid * np.maximum(panel, (widest, 0)), np.maximum(smallest, (0, SHORTEST_BAR)))
    bar = min(height, LONGEST_BAR)
    size = {"shrink": bar / height, "aspect": bar / BAR_WIDTH, "pad": 2 * GAP / width}
    color_bar = figure.colorbar(all_axes[0].images[0], ax=all_axes, label="attention weight", format="%.2g", **size)
    color_bar.outline.set_edgecolor("0.7")
    layout = figure.get_layout_engine()
    layout.set(w_pad=GAP, h_pad=GAP, wspace=0, hspace=0)
    figure.set_size_inches(width + 2, height + 2)  # a first guess at the space for the rest
    layout.execute(figure)
    rest = figure.get_size_inches() * (1 - grid * all_axes[0].get_position().size)
    figure.set_size_inches(rest + (width, height))
    layout.execute(figure)
    figure.set_layout_engine("none")
    # Center titles and labels on the panels, not on the figure.
    first, right, lowest = (all_axes[index].get_position() for index in (0, grid[0] - 1, -1))
    title.set_x((first.x0 + right.x1) / 2)
    column_label.set_x((first.x0 + right.x1) / 2)
    row_label.set_y((lowest.y0 + first.y1) / 2)


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
    heads = getattr(model.config, "alignment_heads", None)
    return SentenceAttention(
        source_tokens,
        target_tokens,
        weights,
        alignment=alignments(weights.cross, source_mask, target_mask, heads=heads)[0],
        source_words=list(compress(source_tokens, source_mask[0])),
        target_words=list(compress(target_tokens[1:], target_mask[0])),
        translation=tokenizer.decode(target_ids[0], skip_special_tokens=True),
    )


def set_languages(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, given: dict[str, str]) -> dict[str, int]:
    """Set the languages of a multilingual tokenizer, and return the arguments of `generate()` for the target language.

    Args:
        tokenizer: one that no other thread uses, see [`private_copy`].
        given: `src_lang` and `tgt_lang`, if known.
    """
    if not is_multilingual(tokenizer):
        return {}
    for name, code in given.items():
        setattr(tokenizer, name, code)
    if "tgt_lang" not in given:
        return {}
    return {target_argument(tokenizer, decoder_start(model)): language_id(tokenizer, given["tgt_lang"])}


def text_errors(source: str, target: str | None) -> list[str]:
    """Errors about empty texts for [`sentence_attention`]."""
    errors = ["The text is empty. Enter a sentence to translate."] if is_blank(source) else []
    if target is not None and is_blank(target):
        errors.append("The target is empty. Enter a translation, or leave it out for the model's own.")
    return errors


def check_token_count(stack: nn.Module, ids: torch.Tensor, name: str) -> None:
    """Raise an `InputError` if a text has more tokens than an encoder or decoder has positions, or a figure shows.

    Args:
        stack: the encoder or decoder.
        ids: of the text, `(batch, length)`.
        name: what the error calls the text.
    """
    length, limit = ids.shape[1], position_limit(stack)
    if limit and length > limit:
        raise InputError(f"The {name} has {length} tokens, but the model has {limit} positions. Shorten it.")
    if length > MOST_TOKENS:
        raise InputError(f"The {name} has {length:,} tokens, but at most {MOST_TOKENS:,} can be shown. Shorten it.")


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

    Takes the arguments of `sentence_attention` and `attention_figure`, and raises their errors.
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

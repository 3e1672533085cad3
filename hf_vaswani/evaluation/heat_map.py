"""Draws attention weights as heat maps with tokens on both axes: one, or a grid with a shared color scale."""

import math

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from .figure_file import PIXELS_PER_INCH
from .token_text import drawable, is_right_to_left

# Inches: size of a single panel, and of one among several; limits on a cell, one per token, so that a long sentence
# makes a large figure; limit on all panels together, for which cells shrink further and labels are skipped.
ONE_PANEL, PANEL, SMALLEST_CELL, LARGEST_CELL, LARGEST_GRID = 5.5, 2.6, 0.115, 0.36, 60
GAP, BAR_WIDTH, SHORTEST_BAR, LONGEST_BAR = 0.06, 0.16, 1.2, 3.5
SMALLEST_FONT, LARGEST_FONT, POINTS_PER_INCH = 6.5, 10, 72  # points


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
    """Add the color bar and size the figure so that each panel gets its size, or that of its title if larger.

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

"""Attention weights as heat maps, with tokens at both axes: one, or a grid of them on one colour scale."""

import math
from typing import TYPE_CHECKING

import numpy as np

from .picture import new_figure
from .picture_text import drawable, is_right_to_left

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.text import Text

# Inches. A panel is about so long, alone or one of several; but a cell, one a token, is no larger and no smaller than
# these: a long sentence makes a large picture. Only where the panels together would be larger than the largest grid do
# cells shrink further, and then not every token has its label.
ONE_PANEL, PANEL, SMALLEST_CELL, LARGEST_CELL, LARGEST_GRID = 5.5, 2.6, 0.115, 0.36, 60
COLOUR_BAR = 0.16
SMALLEST_FONT, LARGEST_FONT = 6.5, 10  # points
POINTS_PER_INCH = 72


def draw_attention(
    weights: np.ndarray,
    row_tokens: list[str],
    column_tokens: list[str],
    title: str = "",
    row_label: str = "",
    column_label: str = "",
    panel_titles: list[str] | None = None,
    panels_a_row: int | None = None,
) -> "Figure":
    """Attention weights as a heat map, or several of the same tokens as a grid of them with one colour scale.

    The picture grows with the number of tokens, so that they stay legible; tokens of more than 16 characters are cut.
    Columns of a right-to-left language go from right to left. Characters for which no font is installed appear as
    their code points.

    Args:
        weights: `(rows, columns)`, or `(panels, rows, columns)`.
        row_tokens, column_tokens: as many as there are rows and columns.
        panel_titles: one a panel.
        panels_a_row: of the grid; by default such that the picture is neither very wide nor very high.

    Raises:
        ValueError: where weights and tokens are not as many, or there are none.
    """
    panels = weights[None] if weights.ndim == 2 else weights
    if panels.shape[1:] != (len(row_tokens), len(column_tokens)) or not panels.size:
        raise ValueError(
            f"Weights of shape {weights.shape} do not belong to {len(row_tokens)} row tokens and "
            f"{len(column_tokens)} column tokens."
        )
    tokens, families = drawable([*row_tokens, *column_tokens])
    rows, columns = tokens[: len(row_tokens)], tokens[len(row_tokens) :]
    panels_a_row = panels_a_row or _panels_a_row(*panels.shape)
    grid = math.ceil(len(panels) / panels_a_row), panels_a_row
    cell = _cell_size(len(rows), len(columns), grid)
    font_size = min(max(0.75 * cell * POINTS_PER_INCH, SMALLEST_FONT), LARGEST_FONT)
    step = math.ceil(font_size / POINTS_PER_INCH / cell)  # 1, unless the picture would be too large
    figure = new_figure(1, 1)  # its size follows from that of its parts
    figure.set_layout_engine("none")
    is_reversed = is_right_to_left(column_tokens)
    for index, panel in enumerate(panels):
        axes = figure.add_axes((0, 0, 1, 1))
        image = axes.imshow(panel, cmap="Blues", vmin=0, vmax=panels.max(), interpolation="nearest", aspect="auto")
        axes.set_title((panel_titles or [""] * len(panels))[index], fontsize=max(font_size, 8), pad=3)
        # The labels of the outermost panels are those of all.
        is_left, is_lowest = index % grid[1] == 0, index + grid[1] >= len(panels)
        _label(axes.yaxis, rows if is_left else [], step, font_size, families)
        _label(axes.xaxis, columns if is_lowest else [], step, font_size, families, rotation=90)
        _draw_cells(axes, len(rows), len(columns))
        if is_reversed:
            axes.invert_xaxis()
    column_label += ", from right to left" if is_reversed else ""
    _lay_out(figure, image, grid, (cell * len(columns), cell * len(rows)), title, row_label, column_label)
    return figure


def _panels_a_row(panels: int, rows: int, columns: int) -> int:
    """As many that the picture comes close to a screen's shape, 3 to 2, with few gaps in the grid."""

    def badness(panels_a_row: int) -> float:
        panels_a_column = math.ceil(panels / panels_a_row)
        longest_side = max(panels_a_row * columns / 1.5, panels_a_column * rows)
        return longest_side * panels_a_row * panels_a_column

    return min(range(1, panels + 1), key=badness)


def _cell_size(rows: int, columns: int, grid: tuple[int, int]) -> float:
    """Inches a token."""
    side = ONE_PANEL if grid == (1, 1) else PANEL
    cell = min(max(side / max(rows, columns), SMALLEST_CELL), LARGEST_CELL)
    return min(cell, LARGEST_GRID / max(rows * grid[0], columns * grid[1]))


def _label(axis: "Axis", tokens: list[str], step: int, font_size: float, families: list[str], **rotated) -> None:
    """Each token, or each of so many, beside its row or below its column."""
    axis.set_ticks(range(0, len(tokens), step), tokens[::step])
    axis.set_tick_params(length=0, labelsize=font_size)
    for text in axis.get_ticklabels():
        # By the baseline: a low `▁` moves no other letter.
        text.set(rotation_mode="anchor", ha="right", va="center_baseline", **rotated)
        text.set_fontfamily(families)
        text.set_parse_math(False)  # a token may be a dollar


def _draw_cells(axes: "Axes", rows: int, columns: int) -> None:
    """Faint lines between the cells."""
    line = {"color": "0.9", "linewidth": 0.4}
    axes.vlines(np.arange(0.5, columns - 1), -0.5, rows - 0.5, **line)
    axes.hlines(np.arange(0.5, rows - 1), -0.5, columns - 0.5, **line)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    axes.spines[:].set_color("0.7")


def _lay_out(
    figure: "Figure",
    image: "AxesImage",
    grid: tuple[int, int],
    panel: tuple[float, float],
    title: str,
    row_label: str,
    column_label: str,
) -> None:
    """Put the panels of a size, in inches, where their labels leave room, with title, axis labels and colour bar.

    matplotlib's own layouts shrink the panels instead, and the cells with them.
    """
    all_axes = figure.axes
    lines = {
        "title": figure.text(0, 0, title, fontsize=11, ha="center", va="top"),
        "rows": figure.text(0, 0, row_label, fontsize=10, ha="left", va="center", rotation=90),
        "columns": figure.text(0, 0, column_label, fontsize=10, ha="center", va="bottom"),
    }
    size = {name: _inches(text) for name, text in lines.items()}
    labels_left = max(_inches(text)[0] for axes in all_axes[:: grid[1]] for text in axes.get_yticklabels())
    labels_below = max(_inches(text)[1] for text in all_axes[-1].get_xticklabels())
    above = max(_inches(axes.title)[1] for axes in all_axes) + 0.08
    left, below = (
        0.1 + size["rows"][0] + 0.12 + labels_left + 0.08,
        0.1 + size["columns"][1] + 0.12 + labels_below + 0.08,
    )
    right, top = 0.2 + COLOUR_BAR + 0.9, 0.1 + size["title"][1] + 0.1
    # Titles of neighbours shall not touch where panels are small.
    widest = max(_inches(axes.title)[0] for axes in all_axes)
    between = max(0.12, widest + 0.1 - panel[0]), 0.12 + above
    inner = [count * length + (count - 1) * gap for count, length, gap in zip(grid[::-1], panel, between)]
    inner[1] += above
    outer = left + inner[0] + right, below + inner[1] + top
    width = max(outer[0], size["title"][0] + 0.2, size["columns"][0] + 0.2)
    height = max(outer[1], size["rows"][1] + 0.1 + top)
    left, below = left + (width - outer[0]) / 2, below + (height - outer[1]) / 2
    figure.set_size_inches(width, height)

    def place(axes: "Axes", x: float, y: float, w: float, h: float) -> None:
        axes.set_position((x / width, y / height, w / width, h / height))

    for index, axes in enumerate(all_axes):
        row, column = divmod(index, grid[1])
        x, y = left + column * (panel[0] + between[0]), below + (grid[0] - 1 - row) * (panel[1] + between[1])
        place(axes, x, y, *panel)
    bar = figure.add_axes((0, 0, 1, 1))
    figure.colorbar(image, cax=bar, label="attention weight", format="%.2g").outline.set_edgecolor("0.7")
    length = min(inner[1] - above, 3.5)
    place(bar, left + inner[0] + 0.2, below + (inner[1] - above - length) / 2, COLOUR_BAR, length)

    # In the middle of the panels, unless these are so small that the text would leave its room.
    def middle(start: float, length: float, text: float, room: float) -> float:
        return min(max(start + length / 2, text / 2 + 0.1), room - text / 2)

    lines["title"].set_position((middle(left, inner[0], size["title"][0], width - 0.1) / width, 1 - 0.1 / height))
    lines["rows"].set_position((0.1 / width, middle(below, inner[1], size["rows"][1], height - top) / height))
    lines["columns"].set_position((middle(left, inner[0], size["columns"][0], width - 0.1) / width, 0.1 / height))


def _inches(text: "Text") -> tuple[float, float]:
    """Width and height of a text as it will be drawn."""
    box = text.get_window_extent()
    return box.width / text.figure.dpi, box.height / text.figure.dpi

"""Learning curves: figures of losses, scores and learning rate from the logs of runs."""

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..errors import InputError
from ..files import collect_errors, reading
from .token_text import PIXELS_PER_INCH, figure_path_errors, save_figure

Record = dict[str, float | None]
Series = dict[str, tuple[np.ndarray, np.ndarray]]  # key of the log → steps and values


class Curve(NamedTuple):
    """One value of the log against optimizer steps."""

    key: str  # in the log
    label: str  # in the legend; {sentences} is the number of validation sentences translated
    style: dict[str, object]  # of the line, without its color
    best: Callable[[np.ndarray], int] | None = None  # index of the point to mark
    best_label: str = ""  # of that point's value, when runs are compared


class Panel(NamedTuple):
    """Curves that share an axis."""

    label: str  # of the axis, with its unit
    height: float  # relative to the other panels
    from_zero: bool  # otherwise the axis fits the values, on a log scale where they span a decade
    curves: tuple[Curve, ...]


MEASURED = {"marker": "o", "markersize": 4, "linewidth": 1.8}
BESIDE = {**MEASURED, "marker": "s", "linestyle": "--", "linewidth": 1.2}
PANELS = (
    Panel("loss (nats per target token)", 3, False, (
        Curve("loss", "training, with the recipe's label smoothing and dropout", {"linewidth": 1.2, "alpha": 0.7}),
        Curve("validation_loss", "validation, without either", MEASURED, np.nanargmin, "loss"),
    )),
    Panel("validation score (0 to 100)", 2, True, (
        Curve("validation_bleu", "BLEU, greedy{sentences}", MEASURED, np.nanargmax, "BLEU"),
        Curve("validation_chrf", "chrF, greedy{sentences}", BESIDE),
    )),
    Panel("learning rate", 1.2, True, (Curve("learning_rate", "learning rate", {"linewidth": 1.8}),)),
)  # fmt: skip
CURVES = [curve for panel in PANELS for curve in panel.curves]
SENTENCES = "validation_sentences"
LARGEST = 1e100  # beyond it, the limits of the axes may be infinite
LOG_SCALE_FROM = 10  # ratio of the largest to the smallest loss
NEUTRAL = "0.35"
# The palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), safe for color-blind readers, without its yellow,
# which is too faint on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# More colors than these come from a color map, without its dark ends. COLUMN: most legend entries in a single column.
MANY_COLORS, COLUMN = "turbo", 8


def draw_curves(logs: list[Path], path: Path, groups: list[str] | None = None) -> None:
    """Draw the curves of one or several runs in one figure.

    Args:
        logs: `log.jsonl` of each run, which may still be in progress.
        path: file to write, 1200 pixels wide; PNG, SVG or PDF by its suffix.
        groups: the group of each run; runs of one group share a color, and there may be any number of runs.

    Raises:
        InputError: a log cannot be read, the figure cannot be written, or there are too many runs.
    """
    errors = figure_path_errors(path)
    if groups is None and len(logs) > len(COLORS):
        errors.append(f"{len(logs)} runs are too many to tell apart. Choose at most {len(COLORS)}.")
    runs = {}
    for name, log in zip(_names(logs), logs):
        runs[name] = collect_errors(errors, partial(read_log, log))
    if errors:
        raise InputError.of(errors)
    save_figure(curves_figure(runs, dict(zip(runs, groups)) if groups else None), path)


def read_log(path: Path) -> list[Record]:
    """The records of a log. An incomplete last line, left by a killed run, is ignored.

    Raises:
        InputError: the file does not exist or lines are not records.
    """
    with reading(path, "Specify the log of a run."):
        lines = path.read_bytes().splitlines()
    records, errors = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if _is_record(record):
            records.append(record)
        elif number < len(lines):
            errors.append(
                f"{path}, line {number}: not a JSON object with a whole number 'update' and values that can be drawn. "
                "Delete the line."
            )
    if errors and not records:
        raise InputError(f"{path} is not the log of a run: no line is a record. Name the output folder of a run.")
    if errors:
        raise InputError.of(errors)
    return records


def _is_record(record: object) -> bool:
    """Whether the values of a line can be drawn: numbers, infinite or `None`, but not near the end of floats."""
    if not isinstance(record, dict) or not isinstance(record.get("update"), int):
        return False
    values = (record.get(key) for key in ("update", *(curve.key for curve in CURVES), SENTENCES))
    return all(
        value is None
        or isinstance(value, float | int)
        and (abs(value) <= LARGEST or isinstance(value, float) and not math.isfinite(value))
        for value in values
    )


def curves_figure(runs: dict[str, list[Record]], groups: dict[str, str] | None = None) -> Figure:
    """Draw the curves of one or several runs as a matplotlib figure.

    With one run, each curve has its own color; with several, each run or group of runs has. Panels without values are
    left out, except for the loss panel if there are no values at all.

    Args:
        runs: name of each run → its records; at most seven without groups.
        groups: name of each run → name of its group.
    """
    is_comparison = len(runs) > 1 or groups is not None
    groups = groups or {name: f"run {name}" for name in runs}
    members: dict[str, list[str]] = {}
    for name, group in groups.items():
        members.setdefault(group, []).append(name)
    colors = dict(zip(members, _palette(len(members))))
    series = {name: _series(records) for name, records in runs.items()}
    logged = {key for found in series.values() for key in found}
    panels = [panel for panel in PANELS if any(curve.key in logged for curve in panel.curves)] or PANELS[:1]
    heights = [panel.height for panel in panels]
    columns = 2 if len(members) > COLUMN else 1
    legend_lines = math.ceil(len(members) / columns) if is_comparison else 0
    figure = Figure((8, 1.3 * sum(heights) + 0.25 * legend_lines), dpi=PIXELS_PER_INCH, layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    last = max([1, *(record["update"] for records in runs.values() for record in records)])
    all_axes[-1].set(xlabel="optimizer steps", xlim=(0, 1.02 * last))
    all_axes[-1].xaxis.get_major_locator().set_params(integer=True)
    all_axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    for panel, axes in zip(panels, all_axes):
        run_colors = {name: colors[groups[name]] for name in runs} if is_comparison else {}
        _draw_panel(axes, panel, series, _sentences(runs), run_colors)
    figure.align_ylabels()
    if is_comparison:
        handles = [Line2D([], [], color=color, linewidth=3) for color in colors.values()]
        labels = [f"{group}{_summary([series[name] for name in names])}" for group, names in members.items()]
        place = {"loc": "outside upper center", "ncols": columns, "frameon": False}
        texts = figure.legend(handles, labels, **place).get_texts()
    else:
        texts = [figure.suptitle(name, fontsize="medium") for name in runs]
    for text in texts:
        text.set_parse_math(False)  # a name may contain a dollar
    return figure


def _series(records: list[Record]) -> Series:
    """The curves that have values. Values that are not finite become NaN, a gap in the line."""
    series = {}
    for curve in CURVES:
        points = [(record["update"], record[curve.key]) for record in records if curve.key in record]
        steps, values = np.array(points, dtype=float).reshape(-1, 2).T  # `None` becomes NaN
        if np.isfinite(values).any():
            series[curve.key] = steps, np.where(np.isfinite(values), values, np.nan)
    return series


def _best(curve: Curve, series: Series) -> tuple[float, float]:
    """Step and value of the best point, the earliest among equals."""
    steps, values = series[curve.key]
    return steps[curve.best(values)], values[curve.best(values)]


def _sentences(runs: dict[str, list[Record]]) -> str:
    """The number of sentences scored, for a label; "" where the logs do not say."""
    numbers = {record.get(SENTENCES) for run in runs.values() for record in run if "validation_bleu" in record}
    if not numbers or None in numbers:
        return ""
    return f", {' to '.join(f'{number:,.0f}' for number in sorted({min(numbers), max(numbers)}))} sentences"


def _palette(number: int) -> list[str]:
    """Colors for some number of runs or groups."""
    if number <= len(COLORS):
        return list(COLORS[:number])
    return [to_hex(color) for color in colormaps[MANY_COLORS](np.linspace(0.05, 0.95, number))]


def _draw_panel(axes: Axes, panel: Panel, runs: dict[str, Series], sentences: str, run_colors: dict[str, str]) -> None:
    """Draw the curves of all runs.

    Args:
        run_colors: the color of each run if several are compared; empty if each curve has its own color.
    """
    axes.set_ylabel(panel.label)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.14)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    lines, is_comparison = {}, bool(run_colors)
    for name, series in runs.items():
        for position, curve in enumerate(panel.curves):
            if curve.key in series:
                style = {"color": run_colors.get(name, COLORS[position]), **curve.style}
                label = curve.label.format(sentences=sentences)
                lines[label], *_ = axes.plot(*series[curve.key], label=f"{name}: {label}", **style)
                if curve.best:
                    _mark_best(axes, curve, series, style["color"], has_text=not is_comparison)
    smallest, largest = axes.dataLim.intervaly
    if not lines:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "not in the log", transform=axes.transAxes, ha="center", va="center", color=NEUTRAL)
    elif panel.from_zero:
        axes.set_ylim(0, 1.19 * largest or 1)  # room for the text above the best point
    elif smallest > 0 and largest >= LOG_SCALE_FROM * smallest:
        axes.set_yscale("log", subs=[])
        axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axes.yaxis.set_major_formatter("{x:g}")
    if lines and len(panel.curves) > 1:
        # Above the axes, where it covers no curve.
        place = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1}
        legend = axes.legend(lines.values(), lines.keys(), ncols=len(lines), frameon=False, **place)
        for handle in legend.legend_handles if is_comparison else []:
            handle.set_color(NEUTRAL)


def _mark_best(axes: Axes, curve: Curve, series: Series, color: str, has_text: bool) -> None:
    """Mark the best point with a star, and with step and value if there is only one run."""
    step, value = _best(curve, series)
    axes.plot(step, value, color=color, marker="*", markersize=14, markeredgecolor="white", ls="none", zorder=3)
    if has_text:
        # Towards the middle, below the lowest or above the highest point.
        x, horizontal = (6, "right") if step > sum(axes.get_xlim()) / 2 else (-6, "left")
        y, vertical = (-9, "top") if curve.best is np.nanargmin else (9, "bottom")
        place = {"xytext": (x, y), "textcoords": "offset points", "ha": horizontal, "va": vertical}
        axes.annotate(f"best {value:#.4g} at step {step:,.0f}", (step, value), color=color, **place)


def _summary(runs: list[Series]) -> str:
    """What follows the name of a run or a group of runs in the legend: its best values, or their range."""
    parts = []
    for curve in CURVES:
        values = [f"{_best(curve, series)[1]:#.4g}" for series in runs if curve.best and curve.key in series]
        if values:
            ends = dict.fromkeys([min(values, key=float), max(values, key=float)])
            parts.append(f"{curve.best_label} {' to '.join(ends)}")
    return ": best " * bool(parts) + ", ".join(parts)


def _names(logs: list[Path]) -> list[str]:
    """Names of runs: their folders' names, or paths where these are not unique; file paths within one folder."""
    folders = [log.resolve().parent for log in logs]
    names = [folder.name for folder in folders]
    return [
        str(log) if folders.count(folder) > 1 else str(log.parent) if names.count(name) > 1 else name
        for log, folder, name in zip(logs, folders, names)
    ]

"""Learning curves: the log of a training as one picture of losses, scores and learning rate; several logs overlaid."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .picture import COLOURS, new_figure, picture_faults, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, float | None]


@dataclass(frozen=True)
class Curve:
    """One value of the log against updates.

    Attributes:
        key: of the value in the log.
        label: what the legend calls it; {sentences} are those of the validation that were translated.
        style: of the line, without its colour.
        best: `min` or `max`, which picks the point to be marked.
        best_label: what a comparison calls its value.
    """

    key: str
    label: str
    style: dict[str, object]
    best: Callable | None = None
    best_label: str = ""


@dataclass(frozen=True)
class Panel:
    """Curves that share an axis.

    Attributes:
        label: of the axis, with its unit.
        height: relative to the other panels.
        from_zero: the axis starts at zero. Otherwise it fits the values, on a log scale where they span a decade.
    """

    label: str
    height: float
    from_zero: bool
    curves: tuple[Curve, ...]


MEASURED = {"marker": "o", "markersize": 4, "linewidth": 1.8}
BESIDE = {**MEASURED, "marker": "s", "linestyle": "--", "linewidth": 1.2}
PANELS = (
    Panel(
        "loss (nats per target token)",
        height=3,
        from_zero=False,
        curves=(
            Curve("loss", "training, with the recipe's label smoothing and dropout", {"linewidth": 1.2, "alpha": 0.7}),
            Curve("validation_loss", "validation, without either", MEASURED, min, "loss"),
        ),
    ),
    Panel(
        "validation score (0 to 100)",
        height=2,
        from_zero=True,
        curves=(
            Curve("validation_bleu", "BLEU, greedy{sentences}", MEASURED, max, "BLEU"),
            Curve("validation_chrf", "chrF, greedy{sentences}", BESIDE),
        ),
    ),
    Panel(
        "learning rate",
        height=1.2,
        from_zero=True,
        curves=(Curve("learning_rate", "learning rate", {"linewidth": 1.8}),),
    ),
)
SENTENCES = "validation_sentences"
KEYS = (*(curve.key for panel in PANELS for curve in panel.curves), SENTENCES)
LOG_SCALE_FROM = 10  # largest loss to smallest
NEUTRAL = "0.35"


def draw_curves(log: Path, picture: Path) -> None:
    """Draw the curves of one training.

    Args:
        log: `log.jsonl` of the training, which may still be running.
        picture: file to write, 1200 pixels wide; PNG, SVG or PDF by its suffix. It is replaced whole.

    Raises:
        InputError: where the log cannot be read, the picture cannot be written, or matplotlib is not installed.
    """
    draw_comparison([log], picture)


def draw_comparison(logs: list[Path], picture: Path) -> None:
    """Draw the curves of several trainings over each other; arguments and errors are those of `draw_curves`."""
    faults = picture_faults(picture)
    if len(logs) > len(COLOURS):
        faults.append(f"{len(logs)} trainings are too many to tell apart. Name at most {len(COLOURS)}.")
    runs = {}
    for name, log in zip(_names(logs), logs):
        try:
            runs[name] = read_log(log)
        except InputError as error:
            faults.append(str(error))
    if faults:
        raise InputError.of(faults)
    save_picture(curves_figure(runs), picture)


def read_log(path: Path) -> list[Record]:
    """The records of a log. A last line that is cut off, as a training leaves it that was killed, is left out.

    Raises:
        InputError: where the file does not exist or lines are no records.
    """
    if not path.is_file():
        raise InputError(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}. Name the log of a training.")
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    records, faults = [], []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            if not (isinstance(record, dict) and isinstance(record.get("update"), int)):
                raise ValueError
        except (ValueError, RecursionError):
            if number < len(lines):
                faults.append(f"{path}, line {number}: no JSON object with a whole number 'update'. Delete the line.")
            continue
        wrong = [key for key in KEYS if not isinstance(record.get(key), float | int | None)]
        faults += [
            f"{path}, line {number}: {key} is no number, but {record[key]!r}. Delete the line." for key in wrong
        ]
        records.append(record)
    if faults:
        raise InputError.of(faults)
    return records


def series(records: list[Record], key: str) -> tuple[list[int], list[float]]:
    """Updates and values of one key. Values that are no finite number are NaN, where a line has a gap."""
    points = [(record["update"], record[key]) for record in records if key in record]
    values = [value if value is not None and math.isfinite(value) else math.nan for _, value in points]
    return [update for update, _ in points], values


def curves_figure(runs: dict[str, list[Record]]) -> "Figure":
    """The picture as a matplotlib figure. Of one training, each curve has its colour; of several, each training has.

    Panels without a value are left out, but for the loss where there is none at all.

    Args:
        runs: the records of each training by its name; at most seven of them.
    """
    is_comparison = len(runs) > 1
    panels = [panel for panel in PANELS if _has_values(panel, runs)] or PANELS[:1]
    heights = [panel.height for panel in panels]
    figure = new_figure(8, 1.3 * sum(heights) + 0.25 * is_comparison * len(runs))
    all_axes = figure.subplots(len(panels), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    last = max((record["update"] for records in runs.values() for record in records), default=0)
    lowest = all_axes[-1]
    lowest.set_xlim(0, 1.02 * max(last, 1))
    lowest.xaxis.get_major_locator().set_params(integer=True)
    lowest.xaxis.set_major_formatter("{x:,.0f}")
    lowest.set_xlabel("updates")
    for panel, axes in zip(panels, all_axes):
        _draw_panel(axes, panel, runs, is_comparison)
    figure.align_ylabels()
    if is_comparison:
        handles = [
            _handle(colour, {"linewidth": 3}, _summary(name, records))
            for (name, records), colour in zip(runs.items(), COLOURS)
        ]
        texts = figure.legend(handles=handles, loc="outside upper center", frameon=False).get_texts()
    else:
        texts = [figure.suptitle(name, fontsize="medium") for name in runs]
    for text in texts:
        text.set_parse_math(False)  # a name may hold a dollar
    return figure


def _has_values(panel: Panel, runs: dict[str, list[Record]]) -> bool:
    values = [value for run in runs.values() for curve in panel.curves for value in series(run, curve.key)[1]]
    return not all(map(math.isnan, values))


def _sentences(runs: dict[str, list[Record]]) -> str:
    """How many sentences the scores are of, as it stands in a label; nothing where the logs do not say."""
    numbers = {record.get(SENTENCES) for run in runs.values() for record in run if "validation_bleu" in record}
    if not numbers or None in numbers:
        return ""
    least, most = min(numbers), max(numbers)
    return f", {least:,.0f} sentences" if least == most else f", {least:,.0f} to {most:,.0f} sentences"


def _draw_panel(axes: "Axes", panel: Panel, runs: dict[str, list[Record]], is_comparison: bool) -> None:
    axes.set_ylabel(panel.label)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.14)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    sentences = _sentences(runs)
    drawn, values = {}, []
    for run, (name, records) in enumerate(runs.items()):
        for position, curve in enumerate(panel.curves):
            updates, points = series(records, curve.key)
            finite = [point for point in points if not math.isnan(point)]
            if not finite:
                continue
            colour = COLOURS[run if is_comparison else position]
            label = curve.label.format(sentences=sentences)
            axes.plot(updates, points, color=colour, label=f"{name}: {label}", **curve.style)
            if curve.best:
                _mark_best(axes, *best_point(records, curve), colour, curve, has_text=not is_comparison)
            drawn[label] = _handle(NEUTRAL if is_comparison else colour, curve.style, label)
            values += finite
    if not drawn:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "not in the log", transform=axes.transAxes, ha="center", va="center", color=NEUTRAL)
    elif panel.from_zero:
        axes.set_ylim(0, 1.19 * max(values) or 1)  # room for the text above the best point
    elif min(values) > 0 and max(values) >= LOG_SCALE_FROM * min(values):
        _set_log_scale(axes)
    if drawn and len(panel.curves) > 1:
        # Above the axes, where it covers no curve.
        axes.legend(
            handles=list(drawn.values()), loc="lower right", bbox_to_anchor=(1, 1), ncols=len(drawn), frameon=False,
            borderaxespad=0.1,
        )  # fmt: skip


def best_point(records: list[Record], curve: Curve) -> tuple[int, float] | None:
    """Update and value of the best point of a curve, the first of equals; `None` where it has no finite value."""
    points = [(value, update) for update, value in zip(*series(records, curve.key)) if not math.isnan(value)]
    if not points:
        return None
    value, update = curve.best(points, key=lambda point: point[0])
    return update, value


def _mark_best(axes: "Axes", update: int, value: float, colour: str, curve: Curve, has_text: bool) -> None:
    """A star, with update and value beside it where no other training is in the way."""
    axes.plot(update, value, color=colour, marker="*", markersize=14, markeredgecolor="white", ls="none", zorder=3)
    if not has_text:
        return
    is_right = update > sum(axes.get_xlim()) / 2
    is_low = curve.best is min
    axes.annotate(
        f"best {value:#.4g} at update {update:,}",
        (update, value),
        xytext=(6 if is_right else -6, -9 if is_low else 9),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="top" if is_low else "bottom",
        color=colour,
    )


def _summary(name: str, records: list[Record]) -> str:
    """What the legend says of one training among several."""
    curves = [curve for panel in PANELS for curve in panel.curves if curve.best and best_point(records, curve)]
    best = ", ".join(f"{curve.best_label} {best_point(records, curve)[1]:#.4g}" for curve in curves)
    return f"run {name}: best {best}" if best else f"run {name}"


def _set_log_scale(axes: "Axes") -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def _handle(colour: str, style: dict[str, object], label: str):
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, **style)


def _names(logs: list[Path]) -> list[str]:
    """What trainings are called: their folders, with the whole path where several have one name; the files, where
    several are in one folder."""
    folders = [log.resolve().parent for log in logs]
    names = [folder.name for folder in folders]
    return [
        str(log) if folders.count(folder) > 1 else str(log.parent) if names.count(name) > 1 else name
        for log, folder, name in zip(logs, folders, names)
    ]

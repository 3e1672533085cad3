import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation import curves
from hf_vaswani.evaluation.curves import curves_figure, draw_curves, read_log
from hf_vaswani.evaluation.token_text import save_figure

RECORDS = [
    {"update": 50, "epoch": 0, "loss": 6.0, "learning_rate": 0.0005, "minutes": 0.1},
    {"update": 100, "epoch": 0, "loss": 4.0, "learning_rate": 0.001, "minutes": 0.2},
    {"update": 100, "validation_loss": 3.5, "validation_perplexity": 33.1, "validation_bleu": 5.25},
    {"update": 150, "epoch": 1, "loss": 3.0, "learning_rate": 0.0008, "minutes": 0.3},
    {"update": 200, "validation_loss": 2.125, "validation_bleu": 31.5, "validation_chrf": 50.0},
    {"update": 1300, "validation_loss": 2.5, "validation_bleu": 31.75, "validation_chrf": 51.0},
]


@pytest.fixture
def write_log(tmp_path):
    """Writes records, or raw lines, to the log of a run, and returns its path."""

    def write(folder: str, records: list):
        path = tmp_path / folder / "log.jsonl"
        path.parent.mkdir()
        lines = [record if isinstance(record, str) else json.dumps(record) + "\n" for record in records]
        path.write_text("".join(lines))
        return path

    return write


def lines(axes) -> dict[str, tuple[list, list]]:
    """The lines of the axes by label; lone markers have no label."""
    drawn = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in drawn}


def stars(axes) -> list[tuple[float, float]]:
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines() if line.get_marker() == "*"]


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def tick_labels(figure, axis) -> list[str]:
    figure.draw_without_rendering()
    return [label.get_text() for label in axis.get_ticklabels()]


def test_each_value_is_plotted_against_its_step():
    loss, score, rate = curves_figure({"run": RECORDS}).axes
    assert lines(loss) == {
        "run: training, with the recipe's label smoothing and dropout": ([50, 100, 150], [6.0, 4.0, 3.0]),
        "run: validation, without either": ([100, 200, 1300], [3.5, 2.125, 2.5]),
    }
    assert lines(score) == {
        "run: BLEU, greedy": ([100, 200, 1300], [5.25, 31.5, 31.75]),
        "run: chrF, greedy": ([200, 1300], [50.0, 51.0]),
    }
    assert lines(rate) == {"run: learning rate": ([50, 100, 150], [0.0005, 0.001, 0.0008])}


def test_best_validation_is_marked_with_value_and_step():
    loss, score, rate = curves_figure({"run": RECORDS}).axes
    assert stars(loss) == [(200, 2.125)] and texts(loss) == ["best 2.125 at step 200"]
    assert stars(score) == [(1300, 31.75)] and texts(score) == ["best 31.75 at step 1,300"]
    assert stars(rate) == []


def test_first_of_equally_good_points_is_the_best():
    [score] = curves_figure({"run": [{"update": u, "validation_bleu": 9.0} for u in (10, 20)]}).axes
    assert texts(score) == ["best 9.000 at step 10"]


def test_axis_labels_have_units_and_steps_have_separators():
    figure = curves_figure({"run": RECORDS})
    loss, score, rate = figure.axes
    assert loss.get_ylabel() == "loss (nats per target token)"
    assert score.get_ylabel() == "validation score (0 to 100)"
    assert rate.get_ylabel() == "learning rate" and rate.get_xlabel() == "optimizer steps"
    assert "1,000" in tick_labels(figure, rate.xaxis)
    assert legend(score) == ["BLEU, greedy", "chrF, greedy"]


def test_legend_says_that_only_training_loss_is_smoothed():
    assert legend(curves_figure({"run": RECORDS}).axes[0]) == [
        "training, with the recipe's label smoothing and dropout",
        "validation, without either",
    ]


@pytest.mark.parametrize(("smallest", "scale"), [(0.5, "log"), (0.7, "linear"), (0.0, "linear")])
def test_losses_spanning_a_decade_get_a_log_scale(smallest, scale):
    records = [{"update": 1, "loss": 6.0}, {"update": 2, "loss": smallest}]
    assert curves_figure({"run": records}).axes[0].get_yscale() == scale


@pytest.mark.parametrize("gap", [None, float("nan"), float("inf")])
def test_non_finite_value_is_a_gap(write_log, gap):
    path = write_log("run", [{"update": u, "validation_loss": v} for u, v in ((1, 3.0), (2, gap), (3, 2.0))])
    loss = curves_figure({"run": read_log(path)}).axes[0]
    np.testing.assert_array_equal(lines(loss)["run: validation, without either"][1], [3.0, np.nan, 2.0])
    assert texts(loss) == ["best 2.000 at step 3"]


@pytest.mark.parametrize("records", [[], RECORDS[:1], [{"update": 5, "loss": None}]])
def test_log_of_a_run_that_just_started_gives_a_figure(write_log, tmp_path, records):
    draw_curves([write_log("run", records)], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_empty_panel_is_omitted_and_the_figure_is_shorter():
    losses = [{name: value for name, value in record.items() if "bleu" not in name and "chrf" not in name}
              for record in RECORDS]  # fmt: skip
    figure = curves_figure({"run": losses})
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss (nats per target token)", "learning rate"]
    assert figure.axes[-1].get_xlabel() == "optimizer steps"
    assert figure.get_figheight() < curves_figure({"run": RECORDS}).get_figheight()
    assert len(curves_figure({"without": losses, "with": RECORDS}).axes) == 3


@pytest.mark.parametrize("records", [[], [{"update": 5, "loss": None}]])
def test_log_without_any_value_gives_a_figure_that_says_so(records):
    [loss] = curves_figure({"run": records}).axes
    assert texts(loss) == ["not in the log"]


def measured_on(*sentences):
    return [{"update": u, "validation_bleu": 9.0, "validation_sentences": n} for u, n in enumerate(sentences)]


@pytest.mark.parametrize(
    ("runs", "label"),
    [
        ({"run": measured_on(200, 200)}, "BLEU, greedy, 200 sentences"),
        ({"run": measured_on(200, 1000)}, "BLEU, greedy, 200 to 1,000 sentences"),
        ({"a": measured_on(200), "b": measured_on(500), "c": []}, "BLEU, greedy, 200 to 500 sentences"),
        ({"run": measured_on(200) + RECORDS}, "BLEU, greedy"),
    ],
)
def test_legend_gives_the_number_of_scored_sentences_if_the_log_has_it(runs, label):
    score = next(axes for axes in curves_figure(runs).axes if "score" in axes.get_ylabel())
    assert label in [name.partition(": ")[2] for name in lines(score)]


def test_truncated_last_line_is_ignored(write_log):
    assert read_log(write_log("run", [*RECORDS, '{"update": 1350, "lo'])) == RECORDS


def test_runs_are_overlaid_under_their_names(write_log, tmp_path):
    better = [{**record, "validation_loss": 1.5} for record in RECORDS]
    runs = {"a": RECORDS, "$b_$": better, "c": RECORDS[:2]}
    figure = curves_figure(runs)
    loss = figure.axes[0]
    assert lines(loss)["a: validation, without either"] == ([100, 200, 1300], [3.5, 2.125, 2.5])
    assert set(lines(loss)["$b_$: validation, without either"][1]) == {1.5}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "run a: best loss 2.125, BLEU 31.75",
        "run $b_$: best loss 1.500, BLEU 31.75",
        "run c",
    ]
    colors = {line.get_label()[0]: line.get_color() for line in loss.get_lines() if line.get_label()[0] in "a$c"}
    assert [handle.get_color() for handle in figure.legends[0].legend_handles] == list(colors.values())
    assert len(set(colors.values())) == 3
    logs = [write_log(name, records) for name, records in runs.items()]
    draw_curves(logs, tmp_path / "figure.svg")
    assert "run $b_$" in (tmp_path / "figure.svg").read_text()  # in a comment next to the drawn glyphs


def test_runs_in_folders_with_the_same_name_are_labeled_by_path(write_log, tmp_path):
    (tmp_path / "x").mkdir()
    logs = [write_log("run", RECORDS), write_log("x/run", RECORDS), write_log("other", RECORDS)]
    assert curves._names(logs) == [str(tmp_path / "run"), str(tmp_path / "x" / "run"), "other"]


def test_runs_in_one_folder_are_labeled_by_file(tmp_path):
    logs = [tmp_path / "run" / "a.jsonl", tmp_path / "run" / "b.jsonl", tmp_path / "other" / "log.jsonl"]
    assert curves._names(logs) == [str(logs[0]), str(logs[1]), "other"]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")])
def test_suffix_determines_the_format(write_log, tmp_path, suffix, start):
    path = tmp_path / f"figure.{suffix}"
    draw_curves([write_log("run", RECORDS)], path)
    assert path.read_bytes().startswith(start)


def test_png_is_1200_pixels_wide(write_log, tmp_path):
    draw_curves([write_log("run", RECORDS)], tmp_path / "figure.png")
    header = (tmp_path / "figure.png").read_bytes()[16:24]
    assert int.from_bytes(header[:4], "big") == 1200


def test_failed_write_keeps_the_old_figure_and_leaves_nothing_else(write_log, tmp_path, monkeypatch):
    log, path = write_log("run", RECORDS), tmp_path / "figures" / "figure.png"
    path.parent.mkdir()
    draw_curves([log], path)
    before = path.read_bytes()
    figure = curves_figure({"run": RECORDS[:1]})
    seen, write_bytes = [], Path.write_bytes

    def full_disk(part, content):
        write_bytes(part, content[:4])
        seen.append(path.read_bytes())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(InputError, match="No space left on device"):
        save_figure(figure, path)
    assert seen == [before] and path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_pyplot_is_not_needed(write_log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # makes its import fail
    draw_curves([write_log("run", RECORDS)], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()


def test_text_is_not_the_log_of_a_run(tmp_path):
    path = tmp_path / "text"
    path.write_text("a line\n" * 1000)
    with pytest.raises(InputError, match=f"^{path} is not the log of a run: no line is a record.[^\n]*$"):
        read_log(path)


def test_all_input_errors_are_reported_together(write_log, tmp_path):
    damaged = write_log("damaged", ["{}\n", '{"update": 2, "loss": "high"}\n', "[1]\n", '{"update": 4}\n'])
    with pytest.raises(InputError) as error:
        draw_curves([tmp_path / "absent.jsonl", damaged, tmp_path], tmp_path / "figure.jpeg")
    assert [line.replace(f"{tmp_path}/", "") for line in str(error.value).splitlines()] == [
        "figure.jpeg is not the name of a figure: it must end with one of .png, .svg, .pdf.",
        "absent.jsonl cannot be read: No such file or directory (absent.jsonl). Specify the log of a run.",
        *(
            f"damaged/log.jsonl, line {number}: not a JSON object with a whole number 'update' and values that can be "
            "drawn. Delete the line."
            for number in (1, 2, 3)
        ),
        f"{tmp_path} cannot be read: Is a directory ({tmp_path.name}). Specify the log of a run.",
    ]


def test_missing_output_folder_is_a_clear_error(write_log, tmp_path):
    with pytest.raises(InputError, match="its folder does not exist"):
        draw_curves([write_log("run", RECORDS)], tmp_path / "absent" / "figure.png")


def test_more_runs_than_colors_are_rejected(write_log, tmp_path):
    logs = [write_log(f"run{number}", RECORDS) for number in range(8)]
    with pytest.raises(InputError, match="Choose at most 7"):
        draw_curves(logs, tmp_path / "figure.png")


def test_runs_of_a_group_share_a_color_and_a_legend_entry(write_log, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: drawn.append(figure))
    better = [{**record, "validation_loss": 2.0} if record["update"] == 200 else record for record in RECORDS]
    logs = [write_log(name, records) for name, records in (("a1", RECORDS), ("b1", RECORDS), ("a2", better))]
    draw_curves(logs, tmp_path / "curves.png", groups=["a", "b", "a"])
    [figure] = drawn
    colors = {line.get_label().partition(":")[0]: line.get_color() for line in figure.axes[0].get_lines()}
    assert colors["a1"] == colors["a2"] != colors["b1"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "a: best loss 2.000 to 2.125, BLEU 31.75", "b: best loss 2.125, BLEU 31.75",
    ]  # fmt: skip


def test_many_groups_have_distinct_colors():
    runs = {f"run{number}": RECORDS for number in range(30)}
    figure = curves_figure(runs, {name: f"group {name}" for name in runs})
    lines_drawn = [line for line in figure.axes[0].get_lines() if "validation, without" in line.get_label()]
    assert len({line.get_color() for line in lines_drawn}) == 30


@pytest.mark.parametrize("value", ["1e308", "-1e308", "1" + 400 * "0"])
def test_numbers_beyond_any_axis_are_input_errors(write_log, tmp_path, value):
    log = write_log("huge", [f'{{"update": 1, "loss": {value}}}\n', '{"update": 2, "loss": 3.0}\n'])
    with pytest.raises(InputError, match="line 1: .* values that can be drawn"):
        draw_curves([log], tmp_path / "figure.png")
    log = write_log("far", ['{"update": 1%s, "loss": 1.0}\n' % (400 * "0"), '{"update": 2, "loss": 3.0}\n'])
    with pytest.raises(InputError, match="line 1: not a JSON object with a whole number 'update'"):
        draw_curves([log], tmp_path / "figure.png")

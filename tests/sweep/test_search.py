"""A search proposes its trials from the losses so far, and goes on where it stopped."""

import json
import math

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.sweep.request import SweepRequest
from hf_vaswani.sweep.search import Search, make_ends, parse_space
from hf_vaswani.sweep.sweep import run_sweep
from hf_vaswani.sweep.table import best_line

from .conftest import REFERENCES

pytest.importorskip("optuna")
SPACE = {"learning_rate": ["0.0001..0.1"], "encoder_layers": ["1..6"]}


def parsed(**texts):
    errors: list[str] = []
    return parse_space(texts, errors), errors


def searched(space, *known) -> Search:
    parts, errors = parsed(**space)
    assert not errors
    return Search(SweepRequest("quickstart", "out"), parts, list(known))


@pytest.mark.parametrize(
    "text, low, high, is_whole, is_log",
    [
        ("0.0005..0.01", 0.0005, 0.01, False, True),
        ("0.1..0.3", 0.1, 0.3, False, False),
        ("1..6", 1, 6, True, False),
        ("100..1000", 100, 1000, True, True),
        ("-1..1.5", -1.0, 1.5, False, False),
        ("0..1e3", 0.0, 1000.0, False, False),
    ],
)
def test_range_has_the_type_and_the_scale_of_its_ends(text, low, high, is_whole, is_log):
    space, errors = parsed(key=[text])
    assert not errors and (space["key"].low, space["key"].high, space["key"].log) == (low, high, is_log)
    assert isinstance(space["key"].low, int) is is_whole


@pytest.mark.parametrize("text", ["0.3..0.1", "1..1", "0..inf", "nan..1", "a..b", "5", ""])
def test_single_value_that_is_no_range_is_rejected(text):
    space, [error] = parsed(key=[text])
    assert space == {} and error.startswith(f"search: key={text}: write a range")


def test_ends_are_the_first_and_the_last_of_all_values():
    space, _ = parsed(rate=["0.1..0.3"], layers=["1..6"], norm=["post", "pre", "none"])
    assert [end.keys for end in make_ends(space)] == [
        {"rate": "0.1", "layers": "1", "norm": "post"}, {"rate": "0.3", "layers": "6", "norm": "none"},
    ]  # fmt: skip


def test_numbers_have_three_digits_and_stay_within_the_range():
    search = searched({"learning_rate": ["0.0012345..0.01"]})
    values = [float(search.propose().keys["learning_rate"]) for _ in range(10)]
    assert all(value == float(f"{value:.3g}") or value == 0.0012345 for value in values)
    assert len(set(values)) == 10 and all(0.0012345 <= value <= 0.01 for value in values)


def test_proposals_approach_the_lowest_loss():
    def train(search: Search, number: int) -> list[float]:
        losses = []
        for _ in range(number):
            trial = search.propose()
            [run] = trial.runs
            rate, layers = run.recipe.training.learning_rate, run.recipe.model["encoder_layers"]
            losses.append(abs(math.log10(rate) + 2.5) + abs(layers - 4) / 5)
            search.tell(trial, losses[-1])
        return losses

    search = searched(SPACE)
    losses = train(search, 40)
    assert sum(losses[30:]) < 0.6 * sum(losses[:10])
    assert [trial.name for trial in search.trials] == [f"trial_{number}" for number in range(1, 41)]
    # Another search that is told of these trials goes on near the lowest loss.
    later = searched(SPACE, *search.trials)
    for trial, loss in zip(search.trials, losses):
        later.tell(trial, loss)
    assert sum(train(later, 10)) < 0.8 * sum(losses[:10])
    assert later.trials[40].name == "trial_41"


def test_small_space_is_tried_completely_without_values_that_make_no_recipe():
    # With 3 heads, d_model 512 cannot be divided evenly.
    search = searched({"encoder_attention_heads": ["1..4"], "norm_position": ["post", "pre"]})
    tried = []
    while trial := search.propose():
        tried.append(tuple(trial.keys.values()))
        search.tell(trial, math.nan if len(tried) % 2 else float(tried[-1][0]))
    assert sorted(tried) == [(heads, norm) for heads in "124" for norm in ("post", "pre")]


@pytest.mark.slow
def test_first_row_is_the_recipe_and_a_stopped_search_goes_on(cluster, sweep_of, runs):
    runs.write("template", 3.0, REFERENCES)
    sweep = sweep_of(search=SPACE, trials=3, seeds=("1", "2"))
    report = run_sweep(sweep, jobs=2)
    assert [row.name for row in report.rows] == ["recipe", "trial_1", "trial_2", "trial_3"] and not report.failed
    assert [len(row.runs) for row in report.rows] == [2] * 4 and report.rows[0].full_loss == 9.0
    best = min(report.rows[1:], key=lambda row: float(row.keys["learning_rate"]))
    assert best_line(report).startswith(
        f"Lowest validation loss: {best.name} (learning_rate {best.keys['learning_rate']}, "
    )
    assert best_line(report) in (sweep.folder / "README.md").read_text()
    # As if it had been killed during the third trial: its values are known, but there are no results.
    for name in ("trial_3_seed_1", "trial_3_seed_2"):
        (sweep.folder / name / "results.json").unlink()
    runs.started()
    again = run_sweep(sweep_of(search=SPACE, trials=4, seeds=("1", "2")), jobs=2)
    assert [row.keys for row in again.rows][:4] == [row.keys for row in report.rows]
    assert len(again.rows) == 5 and not again.failed
    # Here, no run stores its recipe, by which finished ones are recognized, so their commands are started again.
    assert {line.split()[0] for line in runs.started()} >= {"trial_3_seed_1", "trial_4_seed_2"}


def test_trial_with_a_failed_seed_has_no_loss(sweep_of, runs):
    for name in ("recipe_seed_1", "recipe_seed_2", "trial_1_seed_1", "trial_1_seed_2", "trial_2_seed_2"):
        runs.write(name, 0.1 if name == "trial_2_seed_2" else 2.0, REFERENCES)
    sweep = sweep_of(search=SPACE, trials=2, seeds=("1", "2"))
    report = run_sweep(sweep, jobs=1)
    assert [run.folder.name for run in report.failed] == ["trial_2_seed_1"]
    assert [row.full_loss for row in report.rows] == [2.0, 2.0, math.inf]
    stored = json.loads((sweep.folder / "sweep.json").read_text())
    assert [row["name"] for row in stored["rows"]] == ["recipe", "trial_1", "trial_2"]


def test_search_of_tokenizers_is_rejected(sweep_of):
    with pytest.raises(InputError, match="vocab_size cannot be searched"):
        sweep_of(search={"vocab_size": ["1000..8000"]})
    sweep_of(search={"bpe_dropout": ["0.0..0.1"], "max_length": ["50..100"]})


def test_all_errors_are_reported_together(sweep_of):
    with pytest.raises(InputError) as error:
        sweep_of(search={"dropout": ["0.0..1.0"], "lr": ["1..2"]}, grid={"label_smoothing": ["0", "0.1"]})
    lines = str(error.value).splitlines()
    assert lines[0] == "a search proposes the values itself: use either --search, or a grid and rows"
    assert any("lr: " in line and "learning_rate" in line for line in lines)
    assert any("dropout must be in [0, 1), got 1.0" in line for line in lines)

"""A search proposes its trials from the losses so far, and resumes where it stopped."""

import json
import math
import random
from dataclasses import replace

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training.sweep import search as search_module
from hf_vaswani.training.sweep.request import SweepRequest, read_request
from hf_vaswani.training.sweep.search import check_search, propose, run_search
from hf_vaswani.training.sweep.space import parse_space
from tests.training.sweep.conftest import REFERENCES

pytest.importorskip("optuna")
TEXTS = {"learning_rate": "0.0001..0.1", "encoder_layers": "1..6"}


@pytest.fixture
def request_of(plan_of):
    """A request to search a space."""

    def request(texts=None, output: str = "out", **parts) -> SweepRequest:
        errors: list[str] = []
        plan = plan_of(output)
        space = parse_space(texts or TEXTS, "--search", errors)
        assert not errors
        return SweepRequest(plan.recipe, str(plan.folder), space=space, **parts)

    return request


@pytest.fixture
def losses(runs):
    """Writes the results of each trial with one seed; returns the losses."""
    found = {"recipe": 3.0} | {f"trial_{number}": 2 + random.Random(number).random() for number in range(1, 9)}
    for name, loss in found.items():
        runs.write(f"{name}_seed_1", loss, REFERENCES)
    return found


def rows(folder) -> dict:
    stored = json.loads((folder / "sweep.json").read_text())
    return {entry["name"]: entry["values"] for entry in stored["combinations"]}


def test_first_row_is_the_recipe_and_the_lowest_loss_is_named(request_of, losses):
    search = check_search(request_of(trials=5), [])
    report = run_search(search, jobs=2)
    assert [result.name for result in report.combinations] == ["recipe", *(f"trial_{i}" for i in range(1, 6))]
    assert report.combinations[0].values == {} and not report.failed
    for result in report.combinations[1:]:
        assert 0.0001 <= float(result.values["learning_rate"]) <= 0.1
        assert 1 <= int(result.values["encoder_layers"]) <= 6
    best = min(list(losses)[:6], key=losses.__getitem__)
    assert report.best is not None and report.best.name == best
    values = rows(search.plan.folder)[best]
    line = f"Lowest validation loss: {best} (learning_rate {values['learning_rate']}, "
    assert line in (search.plan.folder / "README.md").read_text()


def test_search_can_be_continued_with_more_trials(request_of, runs, losses):
    run_search(check_search(request_of(trials=2), []), jobs=2)
    runs.started()
    report = run_search(check_search(request_of(trials=4), []), jobs=2)
    assert [line.split()[0] for line in runs.started()] == ["trial_3_seed_1", "trial_4_seed_1"]
    assert len(report.combinations) == 5
    run_search(check_search(request_of(trials=4), []), jobs=2)
    assert runs.started() == []


def test_search_stopped_within_a_round_resumes_with_the_same_trials(request_of, runs, losses):
    run_search(check_search(request_of(trials=7), []), jobs=2)
    run_search(check_search(request_of(output="again", trials=3), []), jobs=2)
    folder = check_search(request_of(output="again", trials=7), []).plan.folder
    state = json.loads((folder / "state.json").read_text())
    del state["finished"]["trial_3_seed_1"]
    (folder / "state.json").write_text(json.dumps(state))
    run_search(check_search(request_of(output="again", trials=7), []), jobs=2)
    assert rows(folder) == rows(folder.with_name("out"))


def test_proposals_approach_the_lowest_loss(request_of):
    search = check_search(request_of(), [])

    def loss(trial) -> float:
        return abs(math.log10(float(trial["learning_rate"])) + 2.5) + abs(int(trial["encoder_layers"]) - 4) / 5

    trials: list[dict[str, str]] = []
    for _ in range(20):
        trials += propose(search, trials, [loss(trial) for trial in trials], 2)
    first, last = ([loss(trial) for trial in trials[place]] for place in (slice(10), slice(30, None)))
    assert sum(last) < 0.6 * sum(first)


def test_failed_trials_count_as_tried(request_of, runs, losses):
    for path in (runs.folder / "trial_2_seed_1").iterdir():
        path.unlink()
    (runs.folder / "trial_2_seed_1").rmdir()
    report = run_search(check_search(request_of(trials=4), []), jobs=1)
    assert [run.folder for run in report.failed] == ["trial_2_seed_1"] and len(report.combinations) == 5
    assert [line.split()[0] for line in runs.started()].count("trial_2_seed_1") == 1
    run_search(check_search(request_of(trials=4), []), jobs=1)
    assert [line.split()[0] for line in runs.started()] == ["trial_2_seed_1"]


def test_search_ends_once_all_combinations_have_been_tried(request_of, losses):
    texts = {"encoder_layers": "1..2", "norm_position": "post,pre"}
    report = run_search(check_search(request_of(texts, trials=8), []), jobs=3)
    tried = [tuple(result.values.values()) for result in report.combinations[1:]]
    assert sorted(tried) == [("1", "post"), ("1", "pre"), ("2", "post"), ("2", "pre")]


@pytest.mark.parametrize(
    "texts, number",
    [
        ({"encoder_layers": "1..4", "decoder_layers": "1..5"}, 20),
        ({"encoder_layers": "1,2,3,4", "dropout": "0,0.1,0.2,0.3"}, 16),
    ],
)
def test_small_space_is_tried_completely(request_of, texts, number):
    search = check_search(request_of(texts), [])
    trials: list[dict[str, str]] = []
    for _ in range(number):
        # The lowest loss is always at one end, which would otherwise be proposed again and again.
        trials += propose(search, trials, [sum(map(float, trial.values())) for trial in trials], 1)
    assert len({tuple(trial.values()) for trial in trials}) == len(trials) == number
    assert propose(search, trials, [1.0] * number, 1) == []


def test_large_machine_still_searches_in_several_rounds(request_of, losses, monkeypatch):
    monkeypatch.setattr(search_module, "runs_side_by_side", lambda plan: 64)
    asked = []
    monkeypatch.setattr(search_module, "propose", lambda *given: asked.append(given[-1]) or propose(*given))
    run_search(check_search(request_of(trials=4), []))
    assert asked == [0, 1, 1, 1, 1, 0]


def test_trial_with_a_failed_seed_has_no_loss(request_of, runs, losses):
    for number in range(1, 4):
        runs.write(f"trial_{number}_seed_2", losses[f"trial_{number}"], REFERENCES)
    runs.write("recipe_seed_2", 3.0, REFERENCES)
    runs.write("trial_2_seed_1", 0.1, REFERENCES)
    runs.write("trial_3_seed_1", math.nan, REFERENCES)
    for path in (runs.folder / "trial_2_seed_2").iterdir():
        path.unlink()
    (runs.folder / "trial_2_seed_2").rmdir()
    report = run_search(check_search(request_of(trials=3, seeds=(1, 2)), []), jobs=2)
    assert report.best is not None and report.best.name == "trial_1"


def test_search_with_incomparable_losses_is_rejected(request_of):
    with pytest.raises(InputError, match="cannot be compared across tokenizers"):
        check_search(request_of({"vocab_size": "1000..8000"}), [])
    check_search(request_of({"bpe_dropout": "0.0..0.1", "max_length": "50..100"}), [])


def test_values_that_make_an_invalid_recipe_are_not_trained(request_of, losses):
    # With 3 heads, d_model 512 cannot be divided evenly.
    report = run_search(check_search(request_of({"encoder_attention_heads": "1..4"}, trials=8), []), jobs=4)
    assert sorted(result.values["encoder_attention_heads"] for result in report.combinations[1:]) == ["1", "2", "4"]


def test_folder_with_trials_outside_the_space_is_rejected(request_of, losses):
    run_search(check_search(request_of(trials=3), []), jobs=2)
    with pytest.raises(InputError, match="trials outside this space"):
        check_search(request_of({"learning_rate": "0.05..0.1", "encoder_layers": "1..6"}), [])
    with pytest.raises(InputError, match="trials outside this space"):
        check_search(request_of({"learning_rate": "0.0001..0.1"}), [])
    check_search(request_of({"learning_rate": "0.0001..0.2", "encoder_layers": "1..7"}), [])


def test_all_errors_are_reported_together(request_of):
    request = replace(request_of({"dropout": "0.0..1.0", "lr": "1..2"}), grid={"label_smoothing": ["0", "0.1"]})
    with pytest.raises(InputError) as error:
        check_search(request, ["--seeds …"])
    lines = str(error.value).splitlines()
    assert lines[:2] == ["--seeds …", "a search proposes the values itself: use either --search, or a grid and rows"]
    assert any("lr: " in line and "learning_rate" in line for line in lines[2:])
    assert any("dropout must be in [0, 1), got 1.0" in line for line in lines[2:])


def test_too_many_runs_are_rejected_before_the_first(request_of):
    with pytest.raises(InputError, match="10,002 runs are too many"):
        check_search(request_of(trials=5000, seeds=(1, 2)), [])


def test_sweep_file_has_a_space_and_trials(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("recipe: quickstart\nsearch: {learning_rate: 0.001..0.1, dropout: [0.0, 0.1]}\ntrials: 7\n")
    errors: list[str] = []
    request = read_request(str(path), "out", [], None, [], errors, searches=["dropout=0.1..0.2"])
    assert not errors and request.trials == 7
    assert request.space == parse_space({"learning_rate": "0.001..0.1", "dropout": "0.1..0.2"}, "", [])
    path.write_text("recipe: quickstart\nsearch: {dropout: 0.1}\ntrials: many\n")
    read_request(str(path), "out", [], None, [], errors)
    assert len(errors) == 2 and "trials must be a whole number of at least 1, got 'many'" in errors[1] + errors[0]

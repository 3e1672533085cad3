"""What a sweep is asked to do, on the command line and in files, and every error in such a request."""

import pytest
import yaml

from hf_vaswani.errors import InputError
from hf_vaswani.presets import TABLE_3
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.sweep.plan import SweepPlan, make_plan
from hf_vaswani.training.sweep.request import SweepRequest, bundled_sweeps, read_request


def planned(source: str, *options: str, output_dir: str | None = "out", grids=(), seeds=None) -> SweepPlan:
    errors: list[str] = []
    request = read_request(source, output_dir, list(grids), seeds, list(options), errors)
    return make_plan(request, errors)


def errors_of(*arguments, **settings) -> list[str]:
    with pytest.raises(InputError) as error:
        planned(*arguments, **settings)
    return str(error.value).splitlines()


@pytest.fixture
def write_sweep(tmp_path):
    """Writes a sweep file from keys or text and returns its path."""

    def write(content) -> str:
        path = tmp_path / "sweep.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return str(path)

    return write


def test_every_combination_runs_with_every_seed_in_its_own_folder():
    plan = planned(
        "quickstart", "--max_steps", "7", grids=["training.learning_rate=0.001,2e-3", "dropout=0,0.1"], seeds="3,1"
    )
    assert [(run.name, run.recipe.training.learning_rate, run.recipe.model["dropout"]) for run in plan.runs[::2]] == [
        ("learning_rate-0.001_dropout-0_seed_3", 0.001, 0.0),
        ("learning_rate-0.001_dropout-0.1_seed_3", 0.001, 0.1),
        ("learning_rate-2e-3_dropout-0_seed_3", 0.002, 0.0),
        ("learning_rate-2e-3_dropout-0.1_seed_3", 0.002, 0.1),
    ]
    assert [run.recipe.training.seed for run in plan.runs] == [3, 1] * 4
    for run in plan.runs:
        assert run.recipe.training.output_dir == f"out/{run.name}" and run.recipe.training.max_steps == 7
        # Its process will read exactly what was checked.
        assert load_recipe("quickstart", run.options).to_dict() == run.recipe.to_dict()
    assert len({run.digest for run in plan.runs}) == 8


def test_grid_values_can_be_lists_null_and_quoted_text():
    plan = planned(
        "quickstart",
        grids=["freeze=[],[model.encoder.layers.0, model.encoder.layers.1]", "max_grad_norm=null,1", "name='a, b',c"],
    )
    first, last = plan.runs[0].recipe, plan.runs[-1].recipe
    assert (first.training.freeze, first.training.max_grad_norm, first.data.name) == ([], None, "a, b")
    assert last.training.freeze == ["model.encoder.layers.0", "model.encoder.layers.1"]
    assert (last.training.max_grad_norm, last.data.name) == (1.0, "c")


def test_sweep_file_has_grid_rows_seeds_and_recipe_keys(write_sweep):
    path = write_sweep({
        "recipe": "quickstart",
        "output_dir": "here",
        "grid": {"dropout": [0.0, 0.1]},
        "rows": {"short": {"training.max_steps": 5}, "frozen": {"freeze": ["model.encoder"], "name": None}},
        "seeds": [4, 5],
        "training": {"warmup_steps": 3},
        "num_beams": 2,
    })  # fmt: skip
    plan = planned(path, output_dir=None)
    assert [run.name for run in plan.runs] == [
        f"{row}_dropout-{value}_seed_{seed}"
        for row in ("short", "frozen")
        for value in ("0.0", "0.1")
        for seed in (4, 5)
    ]
    last = plan.runs[-1].recipe
    assert last.training.freeze == ["model.encoder"] and last.training.warmup_steps == 3
    assert last.generation.num_beams == 2 and last.training.output_dir == "here/frozen_dropout-0.1_seed_5"
    assert plan.runs[0].recipe.training.max_steps == 5


def test_command_line_overrides_the_file(write_sweep):
    path = write_sweep({"recipe": "quickstart", "grid": {"dropout": [0.1]}, "seeds": [1, 2], "max_steps": 9})
    plan = planned(path, "--max_steps", "7", grids=["dropout=0.2,0.3"], seeds="5")
    assert [run.name for run in plan.runs] == ["dropout-0.2_seed_5", "dropout-0.3_seed_5"]
    assert plan.runs[0].recipe.training.max_steps == 7


def test_sweep_without_a_grid_compares_seeds():
    assert [run.name for run in planned("quickstart", seeds="1,2").runs] == ["recipe_seed_1", "recipe_seed_2"]


def test_all_errors_are_reported_together():
    assert errors_of(
        "quickstart", "--max_steps", "abc", "--label_smoothing=0.1",
        grids=["learning_rat=1", "dropout=0.1,2,", "label_smoothing=0,0.1", "seed=1,2", "output_dir=a", "x"],
        seeds="1,-1,1", output_dir=None,
    ) == [
        "--grid x: write it as --grid key=value,value",
        "--seeds must be whole numbers from 0 to 4294967295, separated by commas, got '-1'",
        "grid: learning_rat: unknown key; did you mean 'learning_rate'?",
        "grid: seed cannot be swept: use --seeds",
        "grid: output_dir cannot be swept: each run has its own folder in --output_dir",
        "grid: dropout has an empty value",
        "--model.label_smoothing is given for all runs and also swept by the grid: choose one",
        "--output_dir is missing: the folder of the sweep, with a folder in it for each run",
        "training.max_steps must be a whole number or null, got 'abc'",
        "dropout-2_label_smoothing-0: model: VaswaniConfig: dropout must be in [0, 1), got 2.0",
        "dropout-2_label_smoothing-0.1: model: VaswaniConfig: dropout must be in [0, 1), got 2.0",
    ]  # fmt: skip


def test_keys_set_by_the_sweep_itself_are_rejected():
    assert errors_of("quickstart", "--seed=3", "--overwrite") == [
        "--training.overwrite cannot be given to a sweep: runs are resumed; to start over, delete the sweep's folder",
        "--training.seed cannot be given to a sweep: use --seeds",
    ]


def test_recipe_that_overwrites_its_runs_is_rejected(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {dataset: built-in}\ntraining: {overwrite: true}\n")
    [error] = errors_of(str(path))
    assert error.startswith("training.overwrite cannot be set in a sweep: runs are resumed")


def test_duplicate_combinations_keys_and_seeds_are_rejected():
    assert errors_of("quickstart", grids=["dropout=0.1,0.10"]) == [
        "dropout-0.10 is the same recipe as dropout-0.1: remove one of them"
    ]
    assert errors_of("quickstart", grids=["dropout=0.1,0.1"]) == ["dropout-0.1 is listed twice"]
    assert "grid: model.dropout is given twice" in errors_of("quickstart", grids=["dropout=0.1", "model.dropout=0.2"])
    assert errors_of("quickstart", grids=["dropout=0.1", "dropout=0.2"]) == [
        "--grid dropout is given twice: list all of its values in one option"
    ]
    assert errors_of("quickstart", seeds="1,2,1") == ["--seeds: 1 given twice"]


def test_missing_text_files_are_reported_once_before_any_run(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {train: absent.tsv, validation: absent.tsv}\n")
    errors = errors_of(str(path), grids=["dropout=0.1,0.2"])
    assert len(errors) == 2 and all("absent.tsv" in error for error in errors)


def test_too_many_runs_are_rejected():
    [error] = errors_of(
        "quickstart", grids=[f"max_steps={','.join(map(str, range(1, 200)))}"], seeds=",".join(map(str, range(99)))
    )
    assert error == "19,701 runs are too many for one sweep; the maximum is 10,000"


def test_errors_in_a_sweep_file_name_the_file(write_sweep):
    path = write_sweep("recipe: quickstart\ngrid: {dropout: 0.1}\nrows: {'a/b': {}, c: 3}\nseeds: x\n")
    assert errors_of(path) == [
        f"{path}: grid: dropout needs a list of values, such as [1, 2], got 0.1",
        f"{path}: rows: 'a/b' cannot be the name of a row: use letters and digits, with . _ + - only in between",
        f"{path}: rows: c needs keys and values, got 3",
        f"{path}: seeds must be whole numbers from 0 to 4294967295, separated by commas, got 'x'",
    ]
    path = write_sweep("recpe: quickstart\ngrid: {dropout: [0.1]}\n")
    assert errors_of(path) == [f"{path}: recipe is missing: the name of a recipe, or of its file. Is 'recpe' a typo?"]


def test_trials_in_a_sweep_file_need_a_search(write_sweep):
    path = write_sweep("recipe: quickstart\ngrid: {dropout: [0.1]}\ntrials: 5\n")
    assert errors_of(path) == [f"{path}: trials is the number of combinations of a search: add search, or remove it"]


def test_row_and_grid_that_set_the_same_key_are_rejected():
    request = SweepRequest("quickstart", "out", {"a": {"dropout": "0.1", "dropot": "1"}}, {"dropout": ["0"]}, (1,))
    with pytest.raises(InputError) as error:
        make_plan(request, [])
    assert str(error.value).splitlines()[:2] == [
        "row a: dropot: unknown key; did you mean 'dropout'?",
        "row a: model.dropout is also swept by the grid: choose one",
    ]


def test_bundled_sweep_of_table_3_has_all_of_its_rows():
    assert list(bundled_sweeps()) == ["paper_table3_rows"]
    request = read_request("paper_table3_rows", None, [], None, [], [])
    presets = [row.get("preset") for row in request.rows.values()]
    assert presets == [None, *TABLE_3, "big"]
    assert request.rows["big"]["max_steps"] == "300000"
    for row, values in request.rows.items():
        recipe = load_recipe(request.recipe, [f"--{key}={text}" for key, text in values.items()])
        named = {key: value for key, value in TABLE_3.get(values.get("preset"), {}).items() if "vocab_size" not in key}
        assert named.items() <= recipe.model.items(), row

"""What a sweep is asked to do, on the command line and in files, and every error in such a request."""

from argparse import Namespace

import pytest
import yaml

from hf_vaswani.errors import InputError
from hf_vaswani.presets import TABLE_3
from hf_vaswani.sweep.request import (
    Row,
    SweepRequest,
    bundled_sweeps,
    combination_name,
    combine,
    make_text,
    read_request,
    split_values,
)
from hf_vaswani.sweep.sweep import check_sweep
from hf_vaswani.sweep.table import Sweep
from hf_vaswani.training.recipe.recipe import load_recipe


def written(source: str, *options: str, output_dir=None, grids=(), searches=(), seeds=None) -> Namespace:
    """The arguments of a command line."""
    return Namespace(
        recipe=source, options=list(options), output_dir=output_dir, grid=list(grids), search=list(searches),
        seeds=seeds, trials=None,
    )  # fmt: skip


def checked(source: str, *options: str, output_dir: str | None = "out", **given) -> Sweep:
    errors: list[str] = []
    return check_sweep(read_request(written(source, *options, output_dir=output_dir, **given), errors), errors)


def runs_of(*arguments, **given) -> list:
    return [run for row in checked(*arguments, **given).rows for run in row.runs]


def errors_of(*arguments, **given) -> list[str]:
    with pytest.raises(InputError) as error:
        checked(*arguments, **given)
    return str(error.value).splitlines()


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_sweep(tmp_path):
    """Writes a sweep file from keys or text and returns its path."""

    def write(content) -> str:
        path = tmp_path / "sweep.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.2", ["0.1", "0.2"]),
        ("a", ["a"]),
        ("[a, b],[],[c]", ["[a, b]", "[]", "[c]"]),
        ("{x: {source: a, target: b}},{}", ["{x: {source: a, target: b}}", "{}"]),
        ("'a, b',\"c\",d", ["a, b", "c", "d"]),
        ("['a]', b],c", ["['a]', b]", "c"]),
        ("don't,can't", ["don't", "can't"]),
        (" a , b ", ["a", "b"]),
        ("null,true,1e-9", ["null", "true", "1e-9"]),
        ("", []),
        ("a,,b", []),
        ("[", []),
    ],
)
def test_values_are_split_at_commas_outside_brackets_and_quotes(text, values):
    assert split_values(text) == values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0.5, "0.5"),
        (3, "3"),
        ("no", "no"),
        (["a", 1], '["a", 1]'),
        ({"é": 1}, '{"é": 1}'),
    ],
)
def test_values_of_a_file_are_written_as_on_the_command_line(value, text):
    assert make_text(value) == text


def test_rows_and_grid_are_combined_with_the_last_key_changing_fastest():
    found = combine({"small": {"d_model": "8"}, "large": {}}, {"dropout": ["0", "0.1"], "seedless": ["x"]})
    assert found == [
        Row("small_dropout-0_seedless-x", {"d_model": "8", "dropout": "0", "seedless": "x"}),
        Row("small_dropout-0.1_seedless-x", {"d_model": "8", "dropout": "0.1", "seedless": "x"}),
        Row("large_dropout-0_seedless-x", {"dropout": "0", "seedless": "x"}),
        Row("large_dropout-0.1_seedless-x", {"dropout": "0.1", "seedless": "x"}),
    ]
    assert combine({}, {}) == [Row("recipe", {})]


def test_combination_names_are_distinct_valid_file_names():
    names = [
        combination_name("", {"data.train": text}) for text in ("a/b.tsv", "a:b.tsv", "x" * 300, "x" * 301, "../..")
    ]
    assert len(set(names)) == 5
    assert all("/" not in name and ":" not in name and len(name) < 100 for name in names)
    assert names[0].startswith("train-a-b.tsv-")
    assert combination_name("", {"training.license": "mit", "dropout": "0.1"}) == "license-mit_dropout-0.1"


def test_every_combination_runs_with_every_seed_in_its_own_folder():
    runs = runs_of(
        "quickstart", "--max_steps", "7", grids=["training.learning_rate=0.001,2e-3", "dropout=0,0.1"], seeds="3,1,3"
    )
    assert [
        (run.folder.name, run.recipe.training.learning_rate, run.recipe.model["dropout"]) for run in runs[::2]
    ] == [
        ("learning_rate-0.001_dropout-0_seed_3", 0.001, 0.0),
        ("learning_rate-0.001_dropout-0.1_seed_3", 0.001, 0.1),
        ("learning_rate-2e-3_dropout-0_seed_3", 0.002, 0.0),
        ("learning_rate-2e-3_dropout-0.1_seed_3", 0.002, 0.1),
    ]
    assert [run.recipe.training.seed for run in runs] == [3, 1] * 4
    for run in runs:
        assert run.recipe.training.output_dir == f"out/{run.folder.name}" and run.recipe.training.max_steps == 7
        # Its process will read exactly what was checked.
        assert load_recipe("quickstart", run.options).to_dict() == run.recipe.to_dict()


def test_grid_values_can_be_lists_null_and_quoted_text():
    runs = runs_of(
        "quickstart",
        grids=["freeze=[],[model.encoder.layers.0, model.encoder.layers.1]", "max_grad_norm=null,1", "name='a, b',c"],
    )
    first, last = runs[0].recipe, runs[-1].recipe
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
    runs = runs_of(path, output_dir=None)
    assert [run.folder.name for run in runs] == [
        f"{row}_dropout-{value}_seed_{seed}"
        for row in ("short", "frozen")
        for value in ("0.0", "0.1")
        for seed in (4, 5)
    ]
    last = runs[-1].recipe
    assert last.training.freeze == ["model.encoder"] and last.training.warmup_steps == 3
    assert last.generation.num_beams == 2 and last.training.output_dir == "here/frozen_dropout-0.1_seed_5"
    assert runs[0].recipe.training.max_steps == 5


def test_command_line_overrides_the_file(write_sweep):
    path = write_sweep({"recipe": "quickstart", "grid": {"dropout": [0.1]}, "seeds": [1, 2], "max_steps": 9})
    runs = runs_of(path, "--max_steps", "7", grids=["dropout=0.2,0.3"], seeds="5")
    assert [run.folder.name for run in runs] == ["dropout-0.2_seed_5", "dropout-0.3_seed_5"]
    assert runs[0].recipe.training.max_steps == 7


def test_sweep_without_a_grid_compares_seeds():
    assert [run.folder.name for run in runs_of("quickstart", seeds="1,2")] == ["recipe_seed_1", "recipe_seed_2"]


def test_all_errors_are_reported_together():
    lines = errors_of(
        "quickstart", "--max_steps", "abc",
        grids=["learning_rat=1", "dropout=0.1,2", "seed=1,2", "label_smoothing=0,,1", "x"],
        seeds="1,-1", output_dir=None,
    )  # fmt: skip
    assert lines[:7] == [
        "--grid label_smoothing=0,,1: write it as --grid key=value,value; quote special characters",
        "--grid x: write it as --grid key=value,value; quote special characters",
        "seed is set by the sweep itself",
        "--output_dir is missing: the folder of the sweep, with a folder in it for each run",
        "--learning_rat: unknown key; did you mean 'learning_rate'?",
        "training.max_steps must be a whole number or null, got 'abc'",
        "training.seed must be in [0, 4294967296), got -1",
    ]
    assert any(line.startswith("learning_rat-1_dropout-2_") and "dropout must be in [0, 1)" in line for line in lines)


@pytest.mark.parametrize("option", ["--seed=3", "--overwrite", "--push-to-hub", "--training.output_dir=x"])
def test_keys_set_by_the_sweep_itself_are_rejected(option):
    [error] = errors_of("quickstart", option)
    assert error.endswith(" is set by the sweep itself")


def test_recipe_that_overwrites_its_runs_is_resumed_all_the_same(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {dataset: built-in}\ntraining: {overwrite: true}\n")
    assert [run.recipe.training.overwrite for run in runs_of(str(path))] == [False]


def test_errors_in_a_sweep_file_name_the_file(write_sweep):
    path = write_sweep("recipe: quickstart\ngrid: {dropout: 0.1}\nrows: {c: 3}\nseeds: x\ntrials: many\n")
    lines = errors_of(path)
    assert len(lines) == 4 and all(line.startswith(f"{path}: ") for line in lines)
    path = write_sweep("grid: {dropout: [0.1]}\n")
    assert errors_of(path) == [f"{path}: recipe is missing: the name of a recipe, or its file."]


def test_trials_need_a_search(write_sweep):
    path = write_sweep("recipe: quickstart\ngrid: {dropout: [0.1]}\ntrials: 5\n")
    assert errors_of(path) == ["--trials is the number of combinations of a search: add --search, or leave it out"]


def test_sweep_file_has_a_space_and_trials(write_sweep):
    path = write_sweep("recipe: quickstart\nsearch: {learning_rate: 0.001..0.1, dropout: [0.0, 0.1]}\ntrials: 7\n")
    errors: list[str] = []
    request = read_request(written(path, searches=["dropout=0.1..0.2"]), errors)
    assert not errors and request.trials == 7
    assert request.search == {"learning_rate": ["0.001..0.1"], "dropout": ["0.1..0.2"]}


def test_folder_with_something_else_is_rejected(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    for place in ("full", "full/mine.txt"):
        [error] = errors_of("quickstart", output_dir=str(tmp_path / place))
        assert "exists and is not an empty folder" in error


def test_bundled_sweep_of_table_3_has_all_of_its_rows():
    assert list(bundled_sweeps()) == ["paper_table3_rows"]
    request = read_request(written("paper_table3_rows"), [])
    assert isinstance(request, SweepRequest)
    presets = [row.get("preset") for row in request.rows.values()]
    assert presets == [None, *TABLE_3, "big"]
    assert request.rows["big"]["max_steps"] == "300000"
    for row, values in request.rows.items():
        recipe = load_recipe(request.recipe, [f"--{key}={text}" for key, text in values.items()])
        named = {key: value for key, value in TABLE_3.get(values.get("preset"), {}).items() if "vocab_size" not in key}
        assert named.items() <= recipe.model.items(), row

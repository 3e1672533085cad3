"""`scripts/sweep.py`, with runs that are copied instead of trained."""

import json
import math
import signal

import pytest
import yaml

from hf_vaswani.cli import main
from hf_vaswani.ledger import exclusive
from hf_vaswani.presets import TABLE_3
from hf_vaswani.training.recipe.recipe import load_recipe
from tests.fake_runs import GRID_TEXTS, REFERENCES, FakeRuns

from .conftest import SCRIPTS, load_script

script = load_script("sweep")
GRID = {"dropout": [0.0, 0.1]}
SPACE = {"learning_rate": "0.0001..0.1", "encoder_layers": "1..6"}


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    """The prepared results; Ctrl-C works again after the test."""
    fake, before = FakeRuns(tmp_path / "results"), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(script, "TRAIN", (str(fake.script),))
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.chdir(tmp_path)
    yield fake
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def written(runs):
    losses = dict(zip(GRID_TEXTS, (3.0, 3.5, 2.0, 2.25)))
    return {name: runs.write(name, losses[name], texts) for name, texts in GRID_TEXTS.items()}


@pytest.fixture
def recipe(write_lines, tmp_path):
    """A recipe whose test set has the references."""
    text = write_lines("text.x", [str(i) for i in range(len(REFERENCES))])
    test = write_lines("test.x", [f"test {i}" for i in range(len(REFERENCES))])
    references = write_lines("text.y", REFERENCES)
    splits = "".join(
        f"  {split}_source: {text}\n  {split}_target: {references}\n" for split in ("train", "validation")
    )
    path = tmp_path / "recipe.yaml"
    path.write_text(f"data:\n{splits}  test_source: {test}\n  test_target: {references}\n")
    return str(path)


@pytest.fixture
def sweep(recipe, tmp_path, capsys):
    """Runs a sweep; returns its exit status, what it printed, and `sweep.json`."""

    def run(*options: str, **keys):
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump({"recipe": recipe, "output_dir": "out"} | keys, sort_keys=False))
        status = main([str(path), *options], script.make_parser())
        printed, result = capsys.readouterr(), tmp_path / "out" / "sweep.json"
        return status, printed, json.loads(result.read_text()) if result.exists() else None

    return run


def started(runs: FakeRuns) -> list[str]:
    return [line.split()[0] for line in runs.started()]


def make_rows(**keys):
    """The rows of a sweep, each as its name, and the recipes of its runs."""
    sweep = script.Sweep.model_validate({"recipe": "quickstart", "output_dir": "out", **keys})
    return [
        (row.name, [load_recipe(sweep.recipe, sweep.options(row, run)) for run in row.runs])
        for row in sweep.make_rows()
    ]


def test_grid_is_trained_with_every_seed_and_compared(sweep, runs, written, tmp_path):
    status, printed, result = sweep(grid=GRID, seeds=[1, 2])
    assert status == 0 and started(runs) == list(GRID_TEXTS)
    assert [run["folder"] for row in result["rows"] for run in row["runs"]] == list(GRID_TEXTS)
    assert [row["spreads"]["test BLEU"][0] for row in result["rows"]] == pytest.approx(
        [sum(list(written.values())[at : at + 2]) / 2 for at in (0, 2)]
    )
    lines = printed.out.splitlines()
    assert " ".join(lines[0].split()) == (
        "dropout runs parameters steps minutes validation loss test BLEU test Δ BLEU p test chrF2"
    )
    assert "Lowest validation loss: dropout 0.1, 2.1250." in lines
    assert lines[-3:] == ["out/README.md", "out/sweep.json", "out/curves.png"]
    assert (tmp_path / "out" / "README.md").read_text().startswith("# Sweep of ")


def test_combinations_have_the_last_key_changing_fastest():
    rows = make_rows(
        rows={"short": {"max_steps": 5}, "long": None}, grid={"learning_rate": ["0.001", "2e-3"], "dropout": [0, 0.1]},
        seeds=[3, 1, 3], max_steps=9,
    )  # fmt: skip
    assert [name for name, _ in rows] == [
        f"{row}_learning_rate-{rate}_dropout-{dropout}"
        for row in ("short", "long")
        for rate in ("0.001", "2e-3")
        for dropout in ("0", "0.1")
    ]
    assert [recipe.training.seed for _, recipes in rows for recipe in recipes] == [3, 1] * 8
    name, [recipe, _] = rows[3]
    assert (recipe.training.max_steps, recipe.training.learning_rate, recipe.model["dropout"]) == (5, 0.002, 0.1)
    assert recipe.training.output_dir == f"out/{name}_seed_3"
    assert rows[-1][1][0].training.max_steps == 9
    assert [name for name, _ in make_rows()] == ["recipe"]


def test_grid_values_can_be_lists_null_and_text_with_commas():
    rows = make_rows(
        grid={"freeze": [[], ["model.encoder.layers.0"]], "max_grad_norm": [None, 1], "name": ["a, b", "null"]}
    )
    recipes = [recipe for _, [recipe] in rows]
    assert [recipe.training.freeze for recipe in recipes[::4]] == [[], ["model.encoder.layers.0"]]
    assert [recipe.training.max_grad_norm for recipe in recipes[:3:2]] == [None, 1.0]
    assert recipes[0].data.name == "a, b"


def test_names_of_combinations_are_distinct_valid_file_names():
    texts = ["a/b.tsv", "a:b.tsv", "x" * 300, "x" * 301, "../.."]
    sweep = script.Sweep(recipe="quickstart", output_dir="out", grid={"data.train": texts})
    names = [row.name for row in sweep.make_rows()]
    assert len(set(names)) == 5 and names[0].startswith("train-a-b.tsv-")
    assert all("/" not in name and ":" not in name and len(name) < 100 for name in names)


def test_options_replace_keys_of_the_file(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("recipe: quickstart\noutput_dir: out\ngrid: {dropout: [0.1]}\nseeds: [1, 2]\nmax_steps: 9\n")
    options = ["--seeds", "[5]", "--streaming", "--max-steps=-1", "--grid={dropout: [0.2, 0.3]}", "--name", "a=b"]
    sweep = script.read_sweep(path, options)
    assert (sweep.seeds, sweep.grid) == ([5], {"dropout": [0.2, 0.3]})
    assert sweep.model_extra == {"max_steps": -1, "streaming": True, "name": "a=b"}


def test_recipe_that_overwrites_its_runs_is_resumed_all_the_same(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {dataset: built-in}\ntraining: {overwrite: true}\n")
    [(_, [recipe])] = make_rows(recipe=str(path))
    assert recipe.training.overwrite is False


def test_finished_runs_are_not_started_again_when_seeds_are_added(sweep, runs, written):
    sweep(grid=GRID)
    assert started(runs) == ["dropout-0.0_seed_1", "dropout-0.1_seed_1"]
    assert sweep(grid=GRID)[0] == 0 and started(runs) == []
    _, _, result = sweep("--seeds", "[1,2]", grid=GRID)
    assert started(runs) == ["dropout-0.0_seed_2", "dropout-0.1_seed_2"]
    assert [len(row["runs"]) for row in result["rows"]] == [2, 2]
    # Only the command of a run knows whether another value changes its result.
    sweep("--num_beams=2", grid=GRID)
    assert started(runs) == ["dropout-0.0_seed_1", "dropout-0.1_seed_1"]


def test_failed_run_is_reported_affects_no_other_and_is_tried_again(sweep, runs, written, tmp_path):
    (runs.folder / "dropout-0.0_seed_1").rename(tmp_path / "later")
    status, printed, result = sweep(grid=GRID, seeds=[1, 2], jobs=2)
    assert status == 1
    assert "error: 1 run failed: dropout-0.0_seed_1. Run the same command to retry." in printed.err
    assert [run["error"] for row in result["rows"] for run in row["runs"]] == [
        "exit status 3: this run fails", None, None, None,
    ]  # fmt: skip
    assert "- dropout-0.0_seed_1 failed: exit status 3: this run fails\n" in (tmp_path / "out/README.md").read_text()
    runs.started()
    (tmp_path / "later").rename(runs.folder / "dropout-0.0_seed_1")
    assert sweep(grid=GRID, seeds=[1, 2])[0] == 0
    assert started(runs) == ["dropout-0.0_seed_1"]


def test_cores_are_divided_among_runs_side_by_side(sweep, runs, written, monkeypatch):
    monkeypatch.setattr(script, "available_cores", lambda: 6)
    sweep(grid=GRID, jobs=2)
    assert [line.split()[1] for line in runs.started()] == ["3", "3"]
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    sweep(grid=GRID, seeds=[2], jobs=2)
    assert [line.split()[1] for line in runs.started()] == ["4", "4"]


def test_gpus_are_given_to_runs_in_turn(monkeypatch):
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    monkeypatch.setattr(script.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")

    def slots(**keys):
        machines = script.Machines(script.Sweep(recipe="quickstart", output_dir="out", **keys))
        return [machines.slots.get()["CUDA_VISIBLE_DEVICES"] for _ in range(machines.jobs)]

    assert slots() == ["3", "5"] and slots(jobs=3) == ["3", "5", "3"]


def test_search_begins_with_the_recipe_and_repeats_its_trials_when_it_is_run_again(sweep, runs, tmp_path):
    runs.write("template", 3.0, REFERENCES)
    status, printed, result = sweep(search=SPACE, trials=3, seeds=[1, 2])
    names = [row["name"] for row in result["rows"]]
    assert status == 0 and names[0] == "recipe" and len(set(names)) == 4
    assert result["rows"][0]["spreads"]["validation loss"][0] == 9.0
    best = min(result["rows"][1:], key=lambda row: float(row["keys"]["learning_rate"]))
    assert f"Lowest validation loss: learning_rate {best['keys']['learning_rate']}, " in printed.out
    # As if it had been killed during the third trial.
    for seed in "12":
        (tmp_path / "out" / f"{names[3]}_seed_{seed}" / "results.json").unlink()
    runs.started()
    _, _, again = sweep(search=SPACE, trials=4, seeds=[1, 2])
    assert [row["name"] for row in again["rows"]][:4] == names and len(again["rows"]) == 5
    last = again["rows"][4]["name"]
    assert started(runs) == sorted(f"{name}_seed_{seed}" for name in (names[3], last) for seed in "12")


def run_search(loss, sampler="tpe", trials=40, jobs=1, **space):
    """The keys of the trials of a search whose runs have losses by their keys."""
    sweep = script.Sweep(
        recipe="quickstart", output_dir="out", search=space, sampler=sampler, trials=trials, jobs=jobs
    )
    machines = script.Machines(sweep)
    machines.train = lambda rows: [setattr(row, "runs", []) for row in rows]
    losses = {}

    class Row(script.Variant):
        mean_loss = property(lambda row: losses.setdefault(row.name, loss(row.keys)))

    make_row = script.Sweep.make_row
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script.Sweep, "make_row", lambda *arguments: Row(*vars(make_row(*arguments)).values()))
        return [row.keys for row in script.search(sweep, script.make_space(sweep), machines)], list(losses.values())


def distance(keys: dict[str, str]) -> float:
    return abs(math.log10(float(keys["learning_rate"])) + 2.5) + abs(int(keys["encoder_layers"]) - 4) / 5


@pytest.mark.parametrize("jobs", [1, 4])
def test_proposals_approach_the_lowest_loss(jobs):
    _, losses = run_search(distance, jobs=jobs, **SPACE)
    assert sum(losses[-10:]) < 0.6 * sum(losses[:10])


def test_random_search_does_not_depend_on_losses():
    tried, _ = run_search(distance, sampler="random", trials=10, **SPACE)
    assert tried == run_search(lambda keys: 1.0, sampler="random", trials=10, **SPACE)[0]
    assert len({keys["learning_rate"] for keys in tried}) == 10


def test_numbers_have_three_digits_and_their_range_the_type_of_its_ends():
    tried, _ = run_search(lambda keys: 1.0, trials=10, learning_rate="0.0012..0.5", encoder_layers="1..3")
    rates = [float(keys["learning_rate"]) for keys in tried]
    assert all(rate == float(f"{rate:.3g}") and 0.0012 <= rate <= 0.5 for rate in rates)
    assert {keys["encoder_layers"] for keys in tried} == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("key", "text", "ends", "is_log"),
    [
        ("learning_rate", "0.0005..0.01", (0.0005, 0.01), True),
        ("dropout", "0..0.3", (0.0, 0.3), False),
        ("warmup_steps", "100..1000", (100, 1000), True),
        ("warmup_steps", "100..999", (100, 999), False),
    ],
)
def test_wide_range_is_searched_on_a_logarithmic_scale(key, text, ends, is_log):
    part = script.make_space(script.Sweep(recipe="quickstart", output_dir="out", search={key: text}))[key]
    assert ((part.low, part.high), part.log) == (ends, is_log) and type(part.low) is type(ends[0])


def test_values_that_make_no_recipe_are_left_out_of_a_search():
    # With 3 heads, d_model 512 cannot be divided evenly.
    tried, _ = run_search(
        lambda keys: float(keys["encoder_attention_heads"]), encoder_attention_heads="1..4",
        norm_position=["post", "pre"],
    )  # fmt: skip
    assert {keys["encoder_attention_heads"] for keys in tried} == {"1", "2", "4"}


def test_failed_trial_has_no_loss_and_the_search_goes_on(sweep, runs):
    runs.write("recipe_seed_1", 2.0, REFERENCES)
    status, _, result = sweep(search=SPACE, trials=2)
    assert status == 1 and [row["spreads"].get("validation loss") for row in result["rows"]] == [
        [2.0, None],
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"grid": {"learning_rat": [1]}}, "did you mean 'learning_rate'?"),
        ({"grid": {"dropout": [0.1, 2]}}, "dropout must be in [0, 1)"),
        ({"grid": {"dropout": 0.1}}, "sweep.yaml: grid.dropout: "),
        ({"rows": {"a": {"training.seed": 3}}}, "training.seed is set by the sweep itself"),
        ({"overwrite": True}, "overwrite is set by the sweep itself"),
        ({"seeds": [-1]}, "training.seed must be in [0, 4294967296), got -1"),
        ({"seeds": "x"}, "sweep.yaml: seeds: "),
        ({"output_dir": None}, "sweep.yaml: output_dir: "),
        ({"search": {"dropout": "0.3..0.1"}}, "write a range"),
        ({"search": {"dropout": "0.3"}}, "write a range"),
        ({"search": {"dropout": "0.1..nan"}}, "dropout must be in [0, 1), got nan"),
        ({"search": {"lr": "0.1..0.2"}}, "here it is 'learning_rate'"),
        ({"search": SPACE, "grid": GRID}, "a search proposes the values itself"),
        ({"sampler": "best"}, "sweep.yaml: sampler: "),
    ],
)
def test_error_is_reported_before_anything_is_written(keys, message, sweep, tmp_path):
    status, printed, _ = sweep(**keys)
    assert status == 2 and not (tmp_path / "out").exists()
    assert message in printed.err and all(line.startswith("error: ") for line in printed.err.splitlines())


def test_errors_of_all_rows_are_reported_together(sweep):
    status, printed, _ = sweep("--max_steps=abc", grid={"dropout": [0.1, 2], "learning_rat": [1]})
    assert len(printed.err.splitlines()) == 3


@pytest.mark.parametrize("content", ["", "[1]", "recipe: [", "3", "recipe: quickstart"])
def test_file_that_is_no_sweep_is_an_error(content, tmp_path, capsys):
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    assert main([str(path)], script.make_parser()) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}")


def test_command_line_names_the_script(capsys):
    with pytest.raises(SystemExit):
        main(["sweep", "quickstart"])
    assert "'sweep' is not a command; it is a script: python scripts/sweep.py" in capsys.readouterr().err


def test_second_sweep_in_a_folder_is_rejected(sweep, runs, tmp_path):
    with exclusive(tmp_path / "out"):
        status, printed, _ = sweep(grid=GRID)
    assert status == 2 and "Another command is using" in printed.err and runs.started() == []


def test_folder_with_another_readme_is_rejected(sweep, runs, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("mine")
    status, printed, _ = sweep(grid=GRID)
    assert status == 2 and "exists and is not an empty folder" in printed.err and runs.started() == []
    assert (tmp_path / "out" / "README.md").read_text() == "mine"


def test_bundled_sweep_of_table_3_has_all_of_its_rows():
    content = yaml.safe_load((SCRIPTS / "recipes" / "sweeps" / "paper_table3_rows.yaml").read_text())
    presets = [row.get("preset") for row in content["rows"].values()]
    assert presets == [None, *TABLE_3, "big"] and content["rows"]["big"]["max_steps"] == 300000
    for (_, [recipe]), preset in zip(make_rows(**content), presets):
        named = {key: value for key, value in TABLE_3.get(preset, {}).items() if "vocab_size" not in key}
        assert named.items() <= recipe.model.items(), preset

"""`hf-vaswani sweep`: its options and exit status."""

import pytest

from hf_vaswani.cli import _parser, main
from tests.sweep.conftest import runs, sweep_of  # noqa: F401


def parsed(*arguments: str):
    options = _parser().parse_args(["sweep", *arguments])
    return options.recipe, options.grid, options.seeds, options.output_dir, options.jobs, options.options


def test_sweep_options_are_distinguished_from_recipe_keys():
    expected = ("r.yaml", ["a=1,2", "b=-1,3"], "1,2", "out", 2, ["--max_steps", "5", "--streaming", "--lr=3"])
    assert expected == parsed(
        "r.yaml", "--grid", "a=1,2", "--max_steps", "5", "--seeds=1,2", "--streaming", "--output-dir", "out",
        "--jobs", "2", "--grid=b=-1,3", "--lr=3",
    )  # fmt: skip


def test_missing_recipe_is_reported_with_an_example(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["sweep", "--grid", "dropout=0,1"])
    assert exit_info.value.code == 2
    assert "error: the recipe is missing: it comes first, as in: hf-vaswani sweep" in capsys.readouterr().err


def test_errors_are_one_line_each_and_nothing_is_written(tmp_path, capsys):
    folder = tmp_path / "out"
    assert main(["sweep", "quickstart", "--grid", "lr=1", "--seeds", "x", "--output_dir", str(folder)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error"] * 2
    assert "here it is 'learning_rate'" in lines[0]
    assert not folder.exists()


def test_trials_without_a_search_are_rejected(sweep_of, capsys):  # noqa: F811
    sweep = sweep_of()
    assert main(["sweep", sweep.request.recipe, "--trials", "3", "--output_dir", str(sweep.folder)]) == 2
    assert "--trials is the number of combinations of a search" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--grid", "--search", "--trials", "--seeds", "--output_dir", "--jobs"])
@pytest.mark.parametrize(
    "value",
    ["", "=", "a", "dropout=", "dropout=[", "dropout=,", "٣", "nan", "\udcff", "x" * 300, "1e9", "../..", "a\nb=1"],
)
def test_odd_values_never_cause_a_traceback(option, value, sweep_of, runs, tmp_path, capsys):  # noqa: F811
    odd = tmp_path / "odd"
    odd.mkdir()
    arguments = ["sweep", sweep_of().request.recipe, f"--output_dir={odd}/out", f"{option}={value}"]
    if option == "--output_dir":
        arguments[-1] = f"--output_dir={odd}/{value}"
    try:
        status = main(arguments)
    except SystemExit as exit_info:
        status = exit_info.code
    error = capsys.readouterr().err
    # Here, the runs themselves fail.
    assert status in (1, 2) and "error: " in error and "Traceback" not in error
    assert status == 1 or not list(odd.iterdir())

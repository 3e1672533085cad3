"""A complete sweep, whose runs are copied instead of trained."""

import json
import math

import pytest
import sacrebleu

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.seed_bootstrap import seed_bootstrap
from hf_vaswani.sweep.sweep import run_sweep
from hf_vaswani.sweep.table import best_line, result_table
from hf_vaswani.training.checkpoints.artifacts import locked_output

from .conftest import FAIR, GOOD, POOR, REFERENCES
from .conftest import GRID_TEXTS as TEXTS

GRID = {"dropout": ["0.0", "0.1"]}


@pytest.fixture
def written(runs, sweep_of):
    """The BLEU of each of four runs."""
    losses = dict(zip(TEXTS, (3.0, 3.5, 2.0, 2.25)))
    sweep = sweep_of(grid=GRID, seeds=("1", "2"))
    return {name: runs.write(name, losses[name], texts, sweep) for name, texts in TEXTS.items()}


def names(started: list[str]) -> list[str]:
    return [line.split()[0] for line in started]


def cells(table: str) -> list[dict[str, str]]:
    """The rows of a Markdown table."""
    header, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines())
    return [dict(zip(header, row)) for row in rows]


def test_table_has_means_spreads_and_differences_from_the_first_combination(sweep_of, runs, written):
    sweep = sweep_of(grid=GRID, seeds=("1", "2"))
    report = run_sweep(sweep, jobs=2)
    a, b, c, d = written.values()
    # The sample standard deviation of two values is their difference divided by the square root of two.
    first, second = cells(result_table(report))
    assert first["dropout"] == "0.0" and first["runs"] == "2" and first["parameters"] == "1,234"
    assert first["validation loss"] == "3.2500 ± 0.3536" and first["steps"] == "3" and first["minutes"] == "0.5"
    assert first["test BLEU"] == f"{(a + b) / 2:.2f} ± {abs(a - b) / math.sqrt(2):.2f}"
    chrf = [sacrebleu.corpus_chrf(texts, [REFERENCES]).score for texts in (GOOD, REFERENCES)]
    assert second["test chrF2"] == f"{sum(chrf) / 2:.2f} ± {abs(chrf[0] - chrf[1]) / math.sqrt(2):.2f}"
    [expected] = seed_bootstrap([[POOR, FAIR], [GOOD, REFERENCES]], REFERENCES)
    assert expected.value == pytest.approx((c + d) / 2 - (a + b) / 2)
    assert first["test Δ BLEU"] == "" == first["p"]
    assert second["test Δ BLEU"] == f"{expected.value:+.2f} [{expected.low:+.2f}, {expected.high:+.2f}]"
    assert second["p"] == f"{expected.p_value:.3f}"
    assert best_line(report) == "Lowest validation loss: dropout 0.1, 2.1250."

    stored = json.loads((sweep.folder / "sweep.json").read_text())
    assert [run["folder"] for row in stored["rows"] for run in row["runs"]] == list(TEXTS)
    assert stored["rows"][0]["runs"][1]["values"]["test BLEU"] == written["dropout-0.0_seed_2"]
    assert stored["rows"][0]["spreads"]["validation loss"] == pytest.approx([3.25, math.sqrt(0.125)])
    assert stored["rows"][1]["differences"]["test"]["low"] == pytest.approx(expected.low)
    page = (sweep.folder / "README.md").read_text()
    assert result_table(report) in page and best_line(report) in page
    assert "![Learning curves of all runs](curves.png)" in page
    assert (sweep.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert runs.started() == [f"{name} 1 None" for name in TEXTS]


@pytest.mark.slow
def test_finished_runs_are_not_started_again_when_seeds_are_added(sweep_of, runs, written):
    run_sweep(sweep_of(grid=GRID, seeds=("1",)), jobs=2)
    assert names(runs.started()) == ["dropout-0.0_seed_1", "dropout-0.1_seed_1"]
    assert not run_sweep(sweep_of(grid=GRID, seeds=("1",)), jobs=2).failed
    assert runs.started() == []
    run_sweep(sweep_of(grid=GRID, seeds=("1", "2")), jobs=2)
    assert names(runs.started()) == ["dropout-0.0_seed_2", "dropout-0.1_seed_2"]
    # A key that may change when a run is resumed.
    run_sweep(sweep_of(grid=GRID, seeds=("1",), options=("--num_beams=2",)), jobs=2)
    assert names(runs.started()) == ["dropout-0.0_seed_1", "dropout-0.1_seed_1"]


def test_failed_run_is_reported_affects_no_other_and_is_tried_again(cluster, sweep_of, runs, written, capsys):
    for path in (runs.folder / "dropout-0.0_seed_1").iterdir():
        path.unlink()
    (runs.folder / "dropout-0.0_seed_1").rmdir()
    sweep = sweep_of(grid=GRID, seeds=("1", "2"))
    arguments = ["sweep", sweep.request.recipe, "--grid", "dropout=0.0,0.1", "--seeds=1,2", "--jobs=1"]
    arguments += ["--output_dir", str(sweep.folder)]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert "error: 1 of 4 runs failed: dropout-0.0_seed_1. Their logs are in " in captured.err
    first, second = cells(captured.out.partition("\n\n")[0])
    assert first["runs"] == "1 of 2" and first["test BLEU"] == f"{written['dropout-0.0_seed_2']:.2f}"
    assert second["runs"] == "2" and second["test Δ BLEU"] != "–"
    page = (sweep.folder / "README.md").read_text()
    assert "- dropout-0.0_seed_1 failed: exit status 3: this run fails\n" in page
    # Each run that is started has a core of its own.
    assert all(line.split()[1] in ("1", "2") for line in runs.started())
    runs.write("dropout-0.0_seed_1", 3.0, POOR)
    assert main(arguments) == 0
    assert names(runs.started()) == ["dropout-0.0_seed_1"]
    out = capsys.readouterr().out.splitlines()
    assert out[-3:] == [str(sweep.folder / name) for name in ("README.md", "sweep.json", "curves.png")]


def test_combination_without_finished_runs_has_no_values(sweep_of, runs, written):
    report = run_sweep(sweep_of(grid={"dropout": ["0.2", "0.1"]}), jobs=2)
    first, second = cells(result_table(report))
    assert first["runs"] == "0 of 1" and first["validation loss"] == "–" == second["test Δ BLEU"]
    assert [run.folder.name for run in report.failed] == ["dropout-0.2_seed_1"]
    assert best_line(report) == ""


def test_translations_that_differ_from_those_scored_are_not_compared(sweep_of, runs, written):
    path = runs.folder / "dropout-0.1_seed_1" / "test_translations.txt"
    path.write_text(path.read_text().replace("rock", "hill"))
    report = run_sweep(sweep_of(grid=GRID), jobs=2)
    assert report.rows[1].differences == {}
    [note] = report.notes
    assert "dropout-0.1_seed_1/test_translations.txt: not compared" in note


def test_different_test_sets_are_not_compared(sweep_of, runs, written, write_lines):
    other = write_lines("other.y", [f"{text} !" for text in REFERENCES])
    text = sweep_of().rows[0].runs[0].recipe.data.test_target
    sweep = sweep_of(grid={"test_target": [text, other]})
    first, second = (f"{row.name}_seed_1" for row in sweep.rows)
    runs.write(first, 2.0, GOOD)
    score = sacrebleu.corpus_bleu(POOR, [[f"{text} !" for text in REFERENCES]]).score
    runs.write(second, 2.0, POOR, tests={"test": {"sentences": len(POOR), "bleu": score, "chrf2": 50.0}})
    [note] = run_sweep(sweep, jobs=2).notes
    assert note.endswith("/test_translations.txt: not compared, as it was scored on another text or in another way.")


def test_losses_of_different_vocabularies_are_not_ranked(sweep_of, runs, written):
    runs.write("dropout-0.1_seed_1", 2.0, GOOD, vocab={"b": 1})
    report = run_sweep(sweep_of(grid=GRID), jobs=2)
    assert not report.losses_compare and best_line(report) == ""


def test_second_sweep_in_a_folder_is_rejected(sweep_of, runs):
    sweep = sweep_of()
    sweep.folder.mkdir()
    with locked_output(sweep.folder), pytest.raises(InputError, match="Another command is using"):
        run_sweep(sweep)
    assert runs.started() == []


def test_damaged_results_are_reported_with_a_remedy_that_works(sweep_of, runs, written):
    sweep = sweep_of(grid=GRID)
    run_sweep(sweep, jobs=2)
    runs.started()
    (sweep.folder / "sweep.json").write_text('{"rows": ')
    with pytest.raises(InputError, match="Replace its content with {}"):
        sweep_of(grid=GRID)
    (sweep.folder / "sweep.json").write_text("{}")
    assert not run_sweep(sweep_of(grid=GRID), jobs=2).failed
    assert runs.started() == []


def test_sweep_of_another_kind_is_rejected(sweep_of, runs, written):
    pytest.importorskip("optuna")
    run_sweep(sweep_of(grid=GRID), jobs=2)
    with pytest.raises(InputError, match="contains another sweep"):
        sweep_of(search={"dropout": ["0.0..0.3"]})


def test_cores_are_divided_among_the_runs_of_a_sweep(monkeypatch):
    pytest.importorskip("ray")
    from hf_vaswani.sweep import trials

    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(trials.ray, "cluster_resources", lambda: {"CPU": 8.0, "GPU": 2.0})
    monkeypatch.setattr(trials.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 8.0}}])
    divide = trials.divide_machines
    assert divide(0, None, 2) == ({"num_cpus": 4}, 2, 4)
    assert divide(0, None, 40) == ({"num_cpus": 1}, 8, 1)
    assert divide(0, 3, 40) == ({"num_cpus": 2}, 3, 2)
    assert divide(0, 16, 40) == ({"num_cpus": 0.5}, 16, 1)
    assert divide(3, None, 40) == ({"num_cpus": 3}, 2, None)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert divide(0, None, 6) == ({"num_cpus": 4}, 2, 4)
    # On several machines, no run has more cores than one of them.
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(trials.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2.0}}] * 4)
    assert divide(0, None, 2) == ({"num_cpus": 2}, 2, 2)
    monkeypatch.delenv("ACCELERATE_USE_CPU")
    assert divide(0, None, 40) == ({"num_cpus": 0, "num_gpus": 1.0}, 2, None)
    assert divide(0, 3, 40) == ({"num_cpus": 0, "num_gpus": 0.5}, 3, None)

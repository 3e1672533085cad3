"""A complete sweep, whose runs are copied instead of trained."""

import json
import math
import signal
import threading

import pytest
import sacrebleu
import yaml

from hf_vaswani.errors import InputError, TrainingInterrupted
from hf_vaswani.evaluation.seed_bootstrap import seed_bootstrap
from hf_vaswani.training.sweep import folder as folder_module
from hf_vaswani.training.sweep import slots as slots_module
from hf_vaswani.training.sweep.folder import content_errors, open_folder, place_errors
from hf_vaswani.training.sweep.plan import losses_compare
from hf_vaswani.training.sweep.slots import Slot, slots
from hf_vaswani.training.sweep.sweep import failure, run_sweep
from hf_vaswani.training.sweep.table import result_table

from .conftest import REFERENCES

GRID = {"dropout": ["0.0", "0.1"]}
POOR = [text.replace("stands on", "lies at") if i % 2 else text for i, text in enumerate(REFERENCES)]
GOOD = [text.replace("hill", "rock") if i % 4 == 1 else text for i, text in enumerate(REFERENCES)]
FAIR = [text.replace("hill", "rock") if i % 2 == 1 else text for i, text in enumerate(REFERENCES)]
TEXTS = {
    "dropout-0.0_seed_1": POOR, "dropout-0.0_seed_2": FAIR,
    "dropout-0.1_seed_1": GOOD, "dropout-0.1_seed_2": REFERENCES,
}  # fmt: skip


@pytest.fixture
def written(runs):
    """The BLEU of each of four runs."""
    losses = dict(zip(TEXTS, (3.0, 3.5, 2.0, 2.25)))
    return {name: runs.write(name, losses[name], texts) for name, texts in TEXTS.items()}


def test_table_has_means_spreads_and_differences_from_the_first_combination(plan_of, runs, written):
    plan = plan_of(grid=GRID, seeds=(1, 2))
    report = run_sweep(plan, jobs=2)
    first, second = report.combinations
    a, b, c, d = written.values()
    assert first.tests["test"].bleu.mean == pytest.approx((a + b) / 2)
    # The sample standard deviation of two values is their difference divided by the square root of two.
    assert first.tests["test"].bleu.deviation == pytest.approx(abs(a - b) / math.sqrt(2))
    assert first.tests["test"].bleu.values == [a, b]
    assert second.tests["test"].chrf2.values == pytest.approx(
        [sacrebleu.corpus_chrf(texts, [REFERENCES]).score for texts in (GOOD, REFERENCES)]
    )
    assert (first.validation_loss.mean, first.validation_loss.deviation) == pytest.approx((3.25, math.sqrt(0.125)))
    assert first.tests["test"].difference is None
    difference = second.tests["test"].difference
    assert difference.value == pytest.approx((c + d) / 2 - (a + b) / 2)
    [expected] = seed_bootstrap([[POOR, FAIR], [GOOD, REFERENCES]], REFERENCES)
    assert (difference.low, difference.high, difference.p_value) == pytest.approx(
        (expected.low, expected.high, expected.p_value)
    )
    header, _, *rows = (line.strip("| ").split("|") for line in result_table(report).splitlines())
    table = [dict(zip(map(str.strip, header), map(str.strip, row))) for row in rows]
    assert table[0]["dropout"] == "0.0" and table[0]["runs"] == "2" and table[0]["parameters"] == "1,234"
    assert table[0]["validation loss"] == "3.2500 ± 0.3536"
    assert table[0]["test BLEU"] == f"{(a + b) / 2:.2f} ± {abs(a - b) / math.sqrt(2):.2f}"
    assert table[1]["test Δ BLEU"] == f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"
    assert table[0]["steps"] == "3" and table[0]["minutes"] == "0.5"


def test_written_files_agree_with_the_report(plan_of, runs, written):
    plan = plan_of(grid=GRID, seeds=(1, 2))
    report = run_sweep(plan, jobs=2)
    stored = json.loads((plan.folder / "sweep.json").read_text())
    assert [run["folder"] for entry in stored["combinations"] for run in entry["runs"]] == list(TEXTS)
    assert stored["combinations"][0]["runs"][1]["tests"]["test"]["bleu"] == written["dropout-0.0_seed_2"]
    page = (plan.folder / "README.md").read_text()
    assert result_table(report) in page and "![Learning curves of all runs](curves.png)" in page
    assert (plan.folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_finished_runs_are_not_started_again_when_seeds_are_added(plan_of, runs, written):
    run_sweep(plan_of(grid=GRID, seeds=(1,)), jobs=2)
    assert [line.split()[0] for line in runs.started()] == ["dropout-0.0_seed_1", "dropout-0.1_seed_1"]
    again = run_sweep(plan_of(grid=GRID, seeds=(1,)), jobs=2)
    assert runs.started() == [] and not again.failed
    plan = plan_of(grid=GRID, seeds=(1, 2))
    assert content_errors(plan) == []
    run_sweep(plan, jobs=2)
    assert [line.split()[0] for line in runs.started()] == ["dropout-0.0_seed_2", "dropout-0.1_seed_2"]


def test_finished_runs_are_started_again_after_an_allowed_change_of_a_key(plan_of, runs, written):
    run_sweep(plan_of(grid=GRID), jobs=2)
    runs.started()
    run_sweep(plan_of(grid=GRID, options=("--num_beams=2",)), jobs=2)
    assert len(runs.started()) == 2


def test_failed_run_is_reported_and_affects_no_other(plan_of, runs, written, capsys):
    for name in ("dropout-0.0_seed_1",):
        for path in (runs.folder / name).iterdir():
            path.unlink()
        (runs.folder / name).rmdir()
    plan = plan_of(grid=GRID, seeds=(1, 2))
    report = run_sweep(plan, jobs=1)
    [failed] = report.failed
    assert (failed.folder, failed.exit_code, failed.error) == ("dropout-0.0_seed_1", 3, "this run fails")
    assert "dropout-0.0_seed_1: failed (1 of 4), exit status 3: this run fails" in capsys.readouterr().err
    assert [result.tests["test"].bleu.values for result in report.combinations] == [
        [written["dropout-0.0_seed_2"]], [written["dropout-0.1_seed_1"], written["dropout-0.1_seed_2"]],
    ]  # fmt: skip
    assert "| 0.0     | 1 of 2 |" in result_table(report)
    page = (plan.folder / "README.md").read_text()
    assert "- dropout-0.0_seed_1: exit status 3: this run fails" in page
    assert str(failure(report, plan.folder)).startswith("1 of 4 runs failed: dropout-0.0_seed_1.")
    runs.started()
    runs.write("dropout-0.0_seed_1", 3.0, POOR)
    report = run_sweep(plan, jobs=1)
    assert [line.split()[0] for line in runs.started()] == ["dropout-0.0_seed_1"]
    assert not report.failed and failure(report, plan.folder) is None


def test_combination_without_finished_runs_has_no_values(plan_of, runs, written):
    report = run_sweep(plan_of(grid={"dropout": ["0.2", "0.1"]}), jobs=2)
    assert report.combinations[0].validation_loss is None
    assert report.notes == ["No run of dropout-0.2 is finished: there is nothing to compare the others with."]
    assert report.combinations[1].tests["test"].difference is None


def test_translations_that_differ_from_those_scored_are_not_compared(plan_of, runs, written):
    path = runs.folder / "dropout-0.1_seed_1" / "test_translations.txt"
    path.write_text(path.read_text().replace("rock", "hill"))
    report = run_sweep(plan_of(grid=GRID), jobs=2)
    assert report.combinations[1].tests["test"].difference is None
    [note] = report.notes
    assert "dropout-0.1_seed_1/test_translations.txt is not what its run scored" in note


def test_different_test_sets_are_not_compared(plan_of, runs, written, write_lines):
    other = write_lines("other.y", [f"{text} !" for text in REFERENCES])
    text = str(plan_of().runs[0].recipe.data.test_target)
    plan = plan_of(grid={"test_target": [text, other]})
    for run, texts in zip(plan.runs, (GOOD, POOR)):
        runs.write(run.name, 2.0, texts)
    report = run_sweep(plan, jobs=2)
    assert report.notes == [
        f"{plan.combinations[1].name} has a different test set test, or computes BLEU differently."
    ]


def test_signal_stops_the_runs(plan_of, runs, written):
    (runs.folder / "wait").touch()
    plan = plan_of(grid=GRID)
    timer = threading.Timer(1.5, signal.raise_signal, [signal.SIGTERM])
    timer.start()
    with pytest.raises(TrainingInterrupted, match="Run the same command again to resume") as stop:
        run_sweep(plan, jobs=1)
    assert stop.value.signal == signal.SIGTERM
    assert len(runs.started()) == 1
    (runs.folder / "wait").unlink()
    assert not run_sweep(plan, jobs=2).failed


def test_second_sweep_in_a_folder_waits_and_is_rejected(plan_of, monkeypatch, capsys):
    monkeypatch.setattr(folder_module, "ENDING", 0.1)
    plan = plan_of()
    with open_folder(plan), pytest.raises(InputError, match="Another sweep is training in"), open_folder(plan):
        pass
    assert capsys.readouterr().err.count("waiting for its runs to end") == 1


def test_folder_without_a_sweep_is_rejected(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "is not empty and contains no sweep" in place_errors(tmp_path / "full")[0]
    assert "is a file" in place_errors(tmp_path / "full" / "mine.txt")[0]
    assert place_errors(tmp_path / "new") == []


def test_sweep_with_different_settings_is_rejected(plan_of, runs, written):
    run_sweep(plan_of(grid=GRID, seeds=(1, 2)), jobs=2)
    [error] = content_errors(plan_of(grid={"dropout": ["0.1", "0.3"]}, seeds=(1,)))
    assert "contains a sweep with more than this one (combination dropout-0.0, seed 2)" in error
    # As a run stores its recipe once it has a checkpoint.
    plan = plan_of(grid=GRID, seeds=(1, 2), options=("--d_model=64",))
    for run in plan.runs[:2]:
        (run.folder / "checkpoints" / "update-00000005").mkdir(parents=True)
        stored = run.recipe.to_dict() | {"model": {**run.recipe.model, "d_model": 32}}
        (run.folder / "training_recipe.yaml").write_text(yaml.safe_dump(stored))
    assert content_errors(plan) == [
        f"--output_dir {plan.folder} contains runs of another recipe (model.d_model was 32 and is now 64): "
        "dropout-0.0_seed_1 and 1 more. Choose another folder."
    ]


def test_cores_are_divided_among_the_runs_of_a_sweep(plan_of, runs, monkeypatch):
    monkeypatch.setattr(slots_module, "available_cores", lambda: 8)
    assert slots(plan_of(grid=GRID), None) == [Slot(threads=4)] * 2
    assert slots(plan_of(grid=GRID, seeds=tuple(range(20))), None) == [Slot(threads=1)] * 8
    assert slots(plan_of(grid=GRID, seeds=(1, 2)), 3) == [Slot(threads=2)] * 3
    assert slots(plan_of(grid=GRID), 3) == [Slot(threads=4)] * 2
    assert slots(plan_of(grid=GRID, options=("--cpu_threads=3",)), None) == [Slot()] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert slots(plan_of(grid=GRID, seeds=(1, 2, 3)), None) == [Slot(threads=4)] * 2


def test_each_gpu_gets_a_run(plan_of, runs, written, monkeypatch):
    monkeypatch.setattr(slots_module, "gpus", lambda: ["2", "5"])
    plan = plan_of(grid=GRID, seeds=(1, 2))
    assert slots(plan, None) == [Slot("2"), Slot("5")]
    assert slots(plan, 3) == [Slot("2"), Slot("5"), Slot("2")]
    run_sweep(plan, jobs=2)
    assert {line.split()[2] for line in runs.started()} == {"2", "5"}


def test_gpus_are_those_that_this_process_sees(monkeypatch):
    monkeypatch.delenv("ACCELERATE_USE_CPU", raising=False)
    monkeypatch.setattr(slots_module.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-abc")
    assert slots_module.gpus() == ["3", "GPU-abc"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert slots_module.gpus() == ["0", "1"]
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert slots_module.gpus() == []


def test_damaged_state_is_reported_with_a_remedy_that_works(plan_of, runs, written):
    plan = plan_of(grid=GRID)
    run_sweep(plan, jobs=2)
    (plan.folder / "state.json").write_text('{"combinations": ')
    [error] = content_errors(plan)
    assert "Replace its content with {}" in error
    (plan.folder / "state.json").write_text("{}")
    assert content_errors(plan) == [] and place_errors(plan.folder) == []
    assert not run_sweep(plan, jobs=2).failed


def test_losses_of_different_vocabularies_are_not_ranked(plan_of, runs):
    plan = plan_of(grid={"vocab_size": ["100", "200"]})
    for number, run in enumerate(plan.runs):
        runs.write(run.name, 2.0 - number, REFERENCES)
    report = run_sweep(plan, jobs=2)
    assert report.best is None and "Lowest validation loss" not in (plan.folder / "README.md").read_text()


def test_losses_of_runs_whose_vocabularies_come_from_different_texts_are_not_ranked(plan_of, write_lines):
    text = {name: write_lines(f"{name}.txt", ["a b c", "d e"]) for name in ("one", "two")}
    plan = plan_of(grid={"train_source": [*text.values()]})
    recipes = [run.recipe for run in plan.runs]
    assert not losses_compare(recipes)
    same = [recipe.tokenizer.model_copy(update={"path": "outputs/tokenizer"}) for recipe in recipes]
    assert losses_compare([r.model_copy(update={"tokenizer": tokenizer}) for r, tokenizer in zip(recipes, same)])


def test_line_missing_at_the_end_of_a_text_is_found_before_any_run(plan_of, write_lines):
    write_lines("text.y", [*REFERENCES, "one more"])
    with pytest.raises(InputError, match=r"data.train: .*text.x has \d+ lines and .*text.y has"):
        plan_of(grid=GRID, reads_inputs=True)


@pytest.mark.parametrize("key", ["start_from", "tokenizer.path", "distill_from", "rerank_with"])
def test_model_that_a_combination_names_and_that_is_missing_is_found_before_any_run(plan_of, tmp_path, key):
    with pytest.raises(InputError, match=rf"{key}.*absent"):
        plan_of(grid={key: ["null", str(tmp_path / "absent")]}, reads_inputs=True)


def test_changed_text_in_the_same_files_is_noted(plan_of, runs):
    plan = plan_of(seeds=(1, 2, 3))
    for run, digest in zip(plan.runs, "aab"):
        trail = {"texts": {"train": {"digest": digest}, "validation": {"digest": "c"}}, "environments": [{}]}
        runs.write(run.name, 2.0, REFERENCES, trail=trail)
    assert run_sweep(plan, jobs=2).notes == [
        "recipe_seed_3 had different train text than recipe_seed_1, from the same files. "
        "Train one of them again before you compare them."
    ]

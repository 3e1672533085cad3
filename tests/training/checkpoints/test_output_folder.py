"""The output folder: which run it belongs to, and that no second run writes to it."""

import json
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError, TrainingError
from hf_vaswani.files import file_digest
from hf_vaswani.training.checkpoints.checkpoint import DIGEST, DIGESTS_FILE, OPTIMIZER_FILE
from hf_vaswani.training.train import train

from ..helpers import files_in, losses, records

WRITER = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_second_run_in_a_folder_is_rejected_while_the_first_is_running(recipe, tmp_path):
    folder = train(recipe("--max_steps=3")).folder
    unfinished = folder / "checkpoints" / "update-00000099.part"  # what the other run is writing
    unfinished.mkdir()
    (unfinished / "model.safetensors").touch()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(folder)], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with pytest.raises(InputError, match="Another command is using"):
            train(recipe())
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    finally:
        other.kill()
        other.wait()
    assert train(recipe()).steps == 12


def test_resuming_in_a_different_precision_is_rejected(recipe):
    train(recipe("--max_steps=3"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
        with pytest.raises(InputError, match="mixed precision was no and is now bf16"):
            train(recipe("--mixed_precision=auto"))


def test_changed_eval_sentences_are_rejected_if_they_choose_the_best_weights(recipe):
    options = ("--metric_for_best_model=bleu", "--keep_best=1")
    train(recipe(*options, "--max_steps=6", "--eval_sentences=4"))
    with pytest.raises(InputError, match="training.eval_sentences was 4 and is now 8"):
        train(recipe(*options, "--eval_sentences=8"))


@pytest.mark.slow
def test_changed_save_steps_keep_the_existing_checkpoints(recipe):
    train(recipe("--save_total_limit=9", "--max_steps=8", "--save_steps=2"))
    folder = train(recipe("--save_total_limit=9", "--save_steps=3")).folder
    updates = [int(path.name[7:]) for path in sorted((folder / "checkpoints").iterdir())]
    assert updates == [2, 4, 6, 8, 9, 12]


def test_best_weights_of_a_run_without_checkpoints_are_not_deleted_by_another_run(recipe):
    options = ("--eval_steps=4", "--keep_best=2")
    folder = train(recipe(*options)).folder
    for path in (*(folder / "checkpoints").iterdir(), folder / "results.json", folder / "model.safetensors"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    kept = sorted((folder / "best").iterdir())
    with pytest.raises(InputError, match="contains a run of another recipe .model.d_model was"):
        train(recipe(*options, "--d_model=8"))
    assert sorted((folder / "best").iterdir()) == kept
    train(recipe(*options))
    assert sorted((folder / "best").iterdir()) == kept


@pytest.mark.slow
def test_only_checkpoint_is_found_if_it_was_being_replaced(recipe):
    folder = train(recipe("--max_steps=4", "--average_last=1", "--save_total_limit=1")).folder
    [path] = (folder / "checkpoints").iterdir()
    path.rename(path.with_name(f"{path.name}.old"))
    train(recipe("--average_last=1", "--save_total_limit=1"))
    assert len(losses(folder)) == 12


def test_what_a_killed_run_left_is_removed_by_the_next_one(recipe, tmp_path):
    left = ".training_recipe.yaml.0123456789abcdef.part"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / left).touch()
    options = ("--average_last=1", "--save_total_limit=1")
    folder = train(recipe("--max_steps=4", *options)).folder
    [path] = (folder / "checkpoints").iterdir()
    shutil.copytree(path, path.with_name("update-00000003"))
    (folder / "architecture" / ".config.json.0123456789abcdef.part").touch()
    train(recipe("--max_steps=4", *options))
    assert not list(folder.rglob("*.part"))
    assert list((folder / "checkpoints").iterdir()) == [path]


@pytest.mark.slow
def test_damaged_log_lines_are_dropped_when_the_log_is_truncated(recipe):
    folder = train(recipe("--max_steps=5")).folder
    log = folder / "log.jsonl"
    log.write_text("\0\0\0\n" + log.read_text() + "[]\n" + json.dumps({"update": 99, "loss": 1.0}) + "\n")
    assert [record["update"] for record in records(train(recipe()).folder) if "loss" in record] == list(range(1, 13))


def test_damaged_tokenizer_of_a_run_is_a_clear_error(recipe):
    folder = train(recipe("--max_steps=5")).folder
    (folder / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer\.json cannot be read: it is not JSON"):
        train(recipe())


def make_run(folder, precious):
    """Creates what looks like a finished run, with a symbolic link out of its folder."""
    (folder / "checkpoints" / "update-00000004").mkdir(parents=True)
    (folder / "pictures").mkdir()
    for name in ("training_recipe.yaml", "README.md", "thesis.txt"):
        (folder / name).write_text("data: {}\n")
    precious.write_text("mine")
    (folder / "pictures" / "link.png").symlink_to(precious)
    return folder


@pytest.mark.parametrize(
    "results",
    [
        {"figures": ["../precious.png", "pictures/../../precious.png", "{parent}/precious.png", "thesis.txt"]},
        {"figures": ["pictures/link.png"]},
        {"figures": "all", "tests": {"../other": {}}},
        {"tests": ["test"], "name": 3},
    ],
)
def test_names_in_the_results_that_are_no_artifacts_are_not_deleted(recipe, tmp_path, results):
    folder = make_run(tmp_path / "out", tmp_path / "precious.png")
    (folder / "results.json").write_text(json.dumps(results).replace("{parent}", str(tmp_path)))
    (tmp_path / "other_translations.txt").write_text("mine")
    assert train(recipe("--overwrite=true", "--max_steps=1")).steps == 1
    assert (tmp_path / "precious.png").read_text() == (tmp_path / "other_translations.txt").read_text() == "mine"
    assert (folder / "thesis.txt").exists()


@pytest.mark.parametrize("name", ["results.json", "pictures/curves.png"])
def test_folder_in_the_place_of_a_file_is_named_before_anything_is_deleted(recipe, tmp_path, name):
    folder = train(recipe("--max_steps=1")).folder
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    before = files_in(folder)
    with pytest.raises(InputError, match=f"{name} is a folder, but should be a file"):
        train(recipe("--max_steps=1", "--overwrite=true"))
    assert files_in(folder) == before


def test_folder_that_no_run_has_written_is_kept_among_the_best_weights(recipe):
    folder = train(recipe("--max_steps=1")).folder
    mine = folder / "best" / "update-99999999" / "mine"
    mine.parent.mkdir(parents=True)
    mine.touch()
    train(recipe("--max_steps=1", "--overwrite=true"))
    assert mine.exists()


@pytest.mark.parametrize("options", [["--overwrite=true"], ["--max_steps=5"]])
@pytest.mark.parametrize(
    "name", ["checkpoints", "best", "tokenizer", "architecture", "pictures", "hf_vaswani", ".final.part"]
)
def test_nothing_is_deleted_or_written_through_a_link_to_another_folder(recipe, tmp_path, name, options):
    folder, elsewhere = make_run(tmp_path / "out", tmp_path / "precious.png"), tmp_path / "elsewhere"
    (folder / "pictures" / "link.png").unlink()
    (elsewhere / "update-00000004").mkdir(parents=True)
    for file in ("update-00000004/model.safetensors", "tokenizer.json", "curves.png"):
        (elsewhere / file).write_text("of another run")
    if (folder / name).exists():
        (folder / name).rename(tmp_path / "aside")
    (folder / name).symlink_to(elsewhere)
    before = files_in(tmp_path)
    with pytest.raises(
        InputError,
        match=f"{name} points outside .*out through a symbolic link, so nothing in it is written or deleted",
    ):
        train(recipe(*options))
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("place", ["checkpoints/update-00000004/train.x", "test_translations.txt"])
def test_overwriting_does_not_delete_its_own_training_text(recipe, tmp_path, place):
    folder = make_run(tmp_path / "out", tmp_path / "precious.png")
    (folder / "checkpoints" / "update-00000004" / "digests.json").write_text("{}")
    shutil.copy(tmp_path / "train.x", folder / place)
    before = files_in(tmp_path)
    with pytest.raises(InputError, match=f"data.train: .*{place}, or a part of it, would be deleted by this run"):
        train(recipe("--overwrite=true", f"--train_source={folder / place}"))
    assert files_in(tmp_path) == before


def test_overwriting_does_not_delete_the_model_or_tokenizer_it_starts_from(recipe, tmp_path):
    folder = train(recipe("--max_steps=2")).folder
    before = files_in(folder)
    for option, path in (("start_from", folder), ("tokenizer.path", folder / "tokenizer")):
        with pytest.raises(InputError, match=f"{option}: {path}, or a part of it, would be deleted"):
            train(recipe("--overwrite=true", f"--{option}={path}"))
    assert files_in(folder) == before


def test_overwriting_keeps_text_and_other_files_beside_the_checkpoints(recipe, tmp_path):
    folder = train(recipe("--max_steps=4", "--keep_best=1", "--eval_steps=2")).folder
    text = folder / "checkpoints" / "train.x"
    shutil.copy(tmp_path / "train.x", text)
    mine = [text, *(folder / name / "notes.txt" for name in ("checkpoints", "best", "tokenizer", "architecture"))]
    mine += [folder / "checkpoints" / "update-copy", folder / "checkpoints" / "update-00000002.mine"]
    for path in mine[1:]:
        path.write_text("mine")
    (folder / "checkpoints" / "update-00000002.damaged").mkdir()
    assert train(recipe("--overwrite=true", f"--train_source={text}", "--max_steps=3")).steps == 3
    assert text.read_bytes() == (tmp_path / "train.x").read_bytes()
    assert all(path.read_text() == "mine" for path in mine[1:])
    names = {path.name for path in (folder / "checkpoints").iterdir()} - {path.name for path in mine}
    assert names == {"update-00000003"}
    assert [path.name for path in (folder / "best").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_overwriting_removes_all_files_of_the_previous_tokenizer(recipe):
    folder = train(recipe("--max_steps=2", "--joint=false", "--vocab_size=30")).folder
    names = {path.name for path in (folder / "tokenizer").rglob("*")}
    assert "target_tokenizer.json" in names
    train(recipe("--max_steps=2", "--overwrite=true"))
    assert {path.name for path in (folder / "tokenizer").rglob("*")} == {"tokenizer.json", "tokenizer_config.json"}


@pytest.mark.slow
def test_scores_of_best_weights_with_a_wrong_type_are_rejected_before_training(recipe):
    folder = train(recipe("--max_steps=4", "--keep_best=1", "--eval_steps=2")).folder
    [scores] = (folder / "best").glob("*/scores.json")
    for content, message in (({"ranked_by": "loss", "loss": "low"}, 'loss is "low", not a number'), ([], "contains")):
        scores.write_text(json.dumps(content))
        (scores.parent / "digests.json").write_text("{}")
        with pytest.raises(InputError, match=f"{scores}.*{message}"):
            train(recipe("--keep_best=1", "--eval_steps=2"))


@pytest.mark.slow
def test_checkpoint_whose_progress_has_a_wrong_type_is_skipped(recipe, capsys):
    folder = train(recipe("--max_steps=8")).folder
    progress = folder / "checkpoints" / "update-00000008" / "progress.json"
    progress.write_text(json.dumps({**json.loads(progress.read_text()), "seconds": "long"}))
    progress.with_name("digests.json").write_text("{}")
    assert train(recipe()).steps == 12
    assert 'update-00000008 is damaged (progress.json: seconds is "long", not a number)' in capsys.readouterr().out


def test_run_that_logs_nothing_reports_that_it_has_no_curves(recipe, capsys):
    folder = train(recipe("--max_steps=3", "--logging_steps=10")).folder
    assert "No curves.png: nothing was logged in 3 steps. Lower training.logging_steps" in capsys.readouterr().out
    assert main(["curves", str(folder)]) == 2
    error = capsys.readouterr().err
    assert f"{folder} contains no log.jsonl: nothing was logged yet" in error and error.count("error:") == 1


def test_resuming_with_the_state_of_another_optimizer_is_rejected(recipe):
    checkpoint = train(recipe("--max_steps=2", "--save_steps=2")).folder / "checkpoints" / "update-00000002"
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], 0.1)
    torch.save(sgd.state_dict(), checkpoint / OPTIMIZER_FILE)
    digests = {path.name: file_digest(path, DIGEST) for path in checkpoint.iterdir() if path.name != DIGESTS_FILE}
    (checkpoint / DIGESTS_FILE).write_text(json.dumps(digests))
    with pytest.raises(TrainingError, match=f"{OPTIMIZER_FILE} cannot be used: it has the state of another optimizer"):
        train(recipe("--max_steps=4", "--save_steps=2"))


def test_test_sets_of_a_wrong_type_in_the_results_are_no_error_when_a_run_is_resumed(recipe):
    folder = train(recipe("--max_steps=2", "--save_steps=2")).folder
    (folder / "results.json").write_text(json.dumps({"tests": [1]}))
    assert train(recipe("--max_steps=4", "--save_steps=2")).steps == 4

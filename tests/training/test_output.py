"""The output folder: whose training it holds, and that no second one writes into it."""

import json
import shutil
import subprocess
import sys
import textwrap

import pytest
import yaml

from hf_vaswani.errors import InputError
from hf_vaswani.training.run import train

from .helpers import losses, records

WRITER = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_second_training_in_one_folder_is_refused_while_the_first_runs(recipe, tmp_path):
    folder = train(recipe("--max_updates=3")).folder
    begun = folder / "checkpoints" / "update-00000099.part"  # what the other training is writing
    begun.mkdir()
    (begun / "model.safetensors").touch()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(folder)], stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        with pytest.raises(InputError, match="Another training is running"):
            train(recipe())
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    finally:
        other.kill()
        other.wait()
    assert train(recipe()).update == 12


def test_training_of_another_precision_is_refused(recipe):
    train(recipe("--max_updates=3"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
        with pytest.raises(InputError, match="mixed precision was no and is now bf16"):
            train(recipe())


def test_best_weights_are_chosen_by_the_same_sentences_throughout(recipe):
    options = ("--best_metric=bleu", "--keep_best=1")
    train(recipe(*options, "--max_updates=6", "--validate_sentences=4"))
    with pytest.raises(InputError, match="training.validate_sentences was 4 and is now 8"):
        train(recipe(*options, "--validate_sentences=8"))


def test_recipe_of_an_earlier_version_without_newer_keys_is_gone_on_with(recipe):
    folder = train(recipe("--max_updates=3")).folder
    stored = yaml.safe_load((folder / "training_recipe.yaml").read_text())
    del stored["training"]["r_drop"], stored["launched"]
    (folder / "training_recipe.yaml").write_text(yaml.safe_dump(stored))
    assert train(recipe()).update == 12


def test_changed_interval_of_saving_keeps_the_checkpoints_that_are_there(recipe):
    train(recipe("--keep_last=9", "--max_updates=8", "--save_every=2"))
    folder = train(recipe("--keep_last=9", "--save_every=3")).folder
    updates = [int(path.name[7:]) for path in sorted((folder / "checkpoints").iterdir())]
    assert updates == [2, 4, 6, 8, 9, 12]


def test_best_weights_of_a_training_killed_before_its_first_checkpoint_are_not_deleted_by_another(recipe):
    options = ("--validate_every=4", "--keep_best=2")
    folder = train(recipe(*options)).folder
    for path in (*(folder / "checkpoints").iterdir(), folder / "results.json", folder / "model.safetensors"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    kept = sorted((folder / "best").iterdir())
    with pytest.raises(InputError, match="holds a training of another recipe .model.d_model was"):
        train(recipe(*options, "--d_model=8"))
    assert sorted((folder / "best").iterdir()) == kept
    train(recipe(*options))
    assert sorted((folder / "best").iterdir()) == kept


def test_only_checkpoint_that_was_being_replaced_is_found(recipe):
    folder = train(recipe("--max_updates=4", "--average_last=1", "--keep_last=1")).folder
    [path] = (folder / "checkpoints").iterdir()
    path.rename(path.with_name(f"{path.name}.old"))
    train(recipe("--average_last=1", "--keep_last=1"))
    assert len(losses(folder)) == 12


def test_damaged_lines_of_the_log_are_left_out_when_it_is_cut(recipe):
    folder = train(recipe("--max_updates=5")).folder
    log = folder / "log.jsonl"
    log.write_text("\0\0\0\n" + log.read_text() + "[]\n" + json.dumps({"update": 99, "loss": 1.0}) + "\n")
    assert [record["update"] for record in records(train(recipe()).folder) if "loss" in record] == list(range(1, 13))


def test_damaged_tokenizer_of_a_training_is_a_clear_error(recipe):
    folder = train(recipe("--max_updates=5")).folder
    (folder / "tokenizer" / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer\.json cannot be read: it is not JSON"):
        train(recipe())

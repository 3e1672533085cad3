"""The trail of a run: its first steps and its checkpoints, the same however often the run was interrupted."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file

from hf_vaswani.errors import TrainingInterrupted
from hf_vaswani.records.trail import TRAIL_FILE, read_trail
from hf_vaswani.training import run as run_module
from hf_vaswani.training.replay.verification import verify
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from ..helpers import losses

OPTIONS = ("--max_steps=22", "--save_steps=6", "--ema_decay=0.9", "--dropout=0.2")


def digest_by_hand(path) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(load_file(path).items()):
        digest.update(f"{name}\0torch.float32\0{tuple(value.shape)}\0".encode() + value.numpy().tobytes())
    return digest.hexdigest()


def interrupt_after(monkeypatch, step: int) -> None:
    """Stop the next run after a step, as a signal would."""
    original = run_module.TrainingRun.end_step

    def end_step(self, batches, loss, is_told_to_stop):
        return original(self, batches, loss, is_told_to_stop or self.progress.step + 1 == step)

    monkeypatch.setattr(run_module.TrainingRun, "end_step", end_step)


@pytest.mark.parametrize("function", [train, train_with_trainer], ids=["loop", "Trainer"])
def test_trail_has_first_steps_and_checkpoints(recipe, function):
    folder = function(recipe(*OPTIONS)).folder
    trail = read_trail(folder)
    assert [record.step for record in trail.steps] == [*range(1, 11), 12, 18, 22]
    assert [record.step for record in trail.steps if record.is_unscheduled] == [22]
    logged = losses(folder)
    for record in trail.steps:
        assert float.fromhex(record.loss) == logged[record.step - 1]
        checkpoint = folder / "checkpoints" / f"update-{record.step:08d}"
        if checkpoint.exists():
            assert record.weights == digest_by_hand(checkpoint / "model.safetensors")
            assert record.ema == digest_by_hand(checkpoint / "ema.safetensors")
    assert len({record.weights for record in trail.steps}) == len(trail.steps)
    assert trail.texts["train"].pairs == 60
    assert json.loads((folder / "results.json").read_text())["trail"]["steps"][0]["loss"] == trail.steps[0].loss
    [environment] = trail.environments
    assert environment.loop == ("loop" if function is train else "trainer")
    assert environment.versions["torch"] == torch.__version__


@pytest.mark.parametrize("step", [*(pytest.param(step, marks=pytest.mark.slow) for step in (4, 12, 22)), 15])
def test_trail_of_an_interrupted_run_equals_that_of_an_uninterrupted_one(recipe, tmp_path, monkeypatch, step):
    train(recipe(*OPTIONS, output="whole"))
    with monkeypatch.context() as patch:
        interrupt_after(patch, step)
        if step == 22:  # the run has finished
            train(recipe(*OPTIONS, output="parts"))
        else:
            with pytest.raises(TrainingInterrupted):
                train(recipe(*OPTIONS, output="parts"))
            assert read_trail(tmp_path / "parts").steps[-1].step == step
    train(recipe(*OPTIONS, output="parts"))
    assert (tmp_path / "parts" / TRAIL_FILE).read_bytes() == (tmp_path / "whole" / TRAIL_FILE).read_bytes()


@pytest.mark.slow
def test_trail_of_an_extended_run_equals_that_of_one_long_run(recipe, tmp_path):
    for steps in (14, 22):
        train(recipe(*OPTIONS, f"--max_steps={steps}", output="parts"))
    train(recipe(*OPTIONS, output="whole"))
    assert (tmp_path / "parts" / TRAIL_FILE).read_bytes() == (tmp_path / "whole" / TRAIL_FILE).read_bytes()


@pytest.mark.slow
def test_steps_after_the_last_checkpoint_are_recorded_again(recipe, tmp_path, monkeypatch):
    """As after a kill: the trail is ahead of the checkpoint that the run resumes from."""
    train(recipe(*OPTIONS, output="whole"))
    with monkeypatch.context() as patch:
        interrupt_after(patch, 8)
        with pytest.raises(TrainingInterrupted):
            train(recipe(*OPTIONS, output="parts"))
    (tmp_path / "parts" / "checkpoints" / "update-00000008").rename(tmp_path / "elsewhere")
    # The run resumes from step 6, and steps 7 and 8 are in the trail already.
    train(recipe(*OPTIONS, output="parts"))
    assert (tmp_path / "parts" / TRAIL_FILE).read_bytes() == (tmp_path / "whole" / TRAIL_FILE).read_bytes()


@pytest.mark.slow
def test_run_begun_by_a_version_without_trails_is_recorded_from_where_it_resumes(recipe, tmp_path, capsys):
    train(recipe("--max_steps=6", "--save_steps=3"))
    (tmp_path / "out" / TRAIL_FILE).unlink()
    train(recipe("--max_steps=12", "--save_steps=3"))
    assert (
        f"{TRAIL_FILE} is missing or damaged, so the steps up to 6 are no longer recorded" in capsys.readouterr().out
    )
    verdict = verify(str(tmp_path / "out"), report=lambda line: None).verdict
    assert verdict == "identical bit for bit, but the record is incomplete: the steps up to 6 are missing"
    trail = read_trail(tmp_path / "out")
    assert trail.initial is None
    assert [record.step for record in trail.steps] == [7, 8, 9, 10, 12]


@pytest.mark.slow
def test_card_shows_at_most_ten_checkpoints(recipe):
    trail = read_trail(train(recipe("--max_steps=40", "--save_steps=1", "--eval_sentences=0")).folder)
    assert [record.step for record in trail.steps] == list(range(1, 41))
    assert [record.step for record in trail.shown().steps] == [*range(1, 11), *range(13, 41, 3)]

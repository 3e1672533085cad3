"""Runs with transformers' Trainer equal those with the loop, and what only the Trainer can get wrong."""

import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hf_vaswani.cli import main
from hf_vaswani.errors import InputError, TrainingError, TrainingInterrupted
from hf_vaswani.training import loop
from hf_vaswani.training import run as run_module
from hf_vaswani.training.optimization import step_batches as passes
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from .helpers import losses, records, run_training, same_weights

TIMINGS = {"target_tokens_per_second", "minutes"}


def assert_same_run(folder: Path, expected: Path):
    """Losses, learning rates, validations and weights are equal within 1e-5."""
    assert losses(expected)
    for record, expected_record in zip(records(folder), records(expected), strict=True):
        record, expected_record = (
            {name: value for name, value in values.items() if name not in TIMINGS}
            for values in (record, expected_record)
        )
        assert record == pytest.approx(expected_record, rel=1e-5)
    checkpoints = sorted((expected / "checkpoints").iterdir())
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [path.name for path in checkpoints]
    for file in checkpoints[-1].glob("*.safetensors"):
        weights = load_file(folder / "checkpoints" / checkpoints[-1].name / file.name)
        for name, value in load_file(file).items():
            torch.testing.assert_close(weights.pop(name), value, rtol=1e-5, atol=1e-6)
        assert not weights


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            ["--weight_decay=0.01", "--freeze=[model.decoder]", "--early_stopping_patience=1", "--eval_steps=3"],
            marks=pytest.mark.slow,
        ),
        # Neither epochs nor their parts are a multiple of the accumulated batches: the Trainer must be given fewer.
        [
            "--gradient_accumulation_steps=4",
            "--max_tokens=60",
            "--lr_scheduler_type=paper",
            "--max_grad_norm=0.5",
            "--encoder_layerdrop=0.5",
        ],
        pytest.param(
            ["--gradient_accumulation_steps=3", "--streaming=true", "--max_length=60", "--r_drop=1"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--bpe_dropout=0.2", "--ema_decay=0.9", "--keep_best=2", "--average=best", "--joint=false"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--mixed_precision=bf16", "--gradient_checkpointing=true", "--lr_scheduler_type=cosine"],
            marks=pytest.mark.slow,
        ),
        pytest.param(["--optim=muon", "--weight_decay=0.1", "--max_grad_norm=1"], marks=pytest.mark.slow),
        pytest.param(
            ["--mixed_precision=fp16", "--gradient_accumulation_steps=2", "--eval_sentences=0"], marks=pytest.mark.slow
        ),
        pytest.param(
            ["--num_train_epochs=2", "--max_steps=null", "--gradient_accumulation_steps=3", "--r_drop=1"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=" ".join,
)
def test_trainer_takes_the_same_steps_as_the_loop(recipe, options):
    by_loop = train(recipe(*options, output="loop"))
    by_trainer = train_with_trainer(recipe(*options, output="trainer"))
    assert_same_run(by_trainer.folder, by_loop.folder)
    assert by_trainer.steps == by_loop.steps
    assert by_trainer.tests == by_loop.tests
    for name in ("config.json", "generation_config.json", "test_translations.txt"):
        assert (by_trainer.folder / name).read_text() == (by_loop.folder / name).read_text()


@pytest.mark.slow
def test_trainer_splits_batches_into_forward_passes_like_the_loop(recipe, monkeypatch):
    monkeypatch.setattr(passes, "CPU_PASS_TOKENS", 40)
    options = ["--gradient_accumulation_steps=2", "--dropout=0.2"]
    by_loop = train(recipe(*options, output="loop"))
    by_trainer = train_with_trainer(recipe(*options, output="trainer"))
    assert_same_run(by_trainer.folder, by_loop.folder)


def test_trainer_does_not_use_the_optimizer_step_of_the_loop(recipe, monkeypatch):
    monkeypatch.setattr(loop, "optimizer_step", None)
    assert train_with_trainer(recipe("--max_steps=1")).steps == 1


@pytest.mark.slow
def test_run_stopped_within_an_epoch_resumes_bit_for_bit(recipe):
    options = ["--gradient_accumulation_steps=2", "--max_tokens=60", "--average_last=3", "--logging_steps=2"]
    whole = train_with_trainer(recipe(*options, output="whole")).folder
    train_with_trainer(recipe(*options, "--max_steps=5", output="parts"))
    parts = train_with_trainer(recipe(*options, output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)


def test_trainer_and_loop_resume_from_each_others_checkpoints(recipe):
    whole = train(recipe(output="whole")).folder
    for updates, function in ((4, train_with_trainer), (7, train), (12, train_with_trainer)):
        folder = function(recipe(f"--max_steps={updates}", output="parts")).folder
    assert_same_run(folder, whole)


@pytest.mark.slow
def test_two_processes_equal_one_process_of_the_loop(recipe, tmp_path):
    options = ("--dropout=0", "--max_tokens=60")
    one = train(recipe(*options, "--gradient_accumulation_steps=4", output="one")).folder
    two = tmp_path / "two"
    run_training(
        recipe,
        *options,
        "--gradient_accumulation_steps=2",
        f"--output_dir={two}",
        processes=2,
        script="scripts/train_trainer.py",
    )
    np.testing.assert_allclose(losses(two), losses(one), rtol=1e-5)


@pytest.mark.slow
def test_steps_with_nonfinite_loss_are_skipped_as_in_the_loop(recipe, loss_of_pass):
    loss_of_pass(lambda number, loss: loss * (float("nan") if number in (3, 4, 9) else 1))
    by_loop = train(recipe(output="loop")).folder
    loss_of_pass(lambda number, loss: loss * (float("nan") if number in (3, 4, 9) else 1))
    by_trainer = train_with_trainer(recipe(output="trainer"))
    assert by_trainer.steps == 12
    assert_same_run(by_trainer.folder, by_loop)


def test_run_whose_loss_stays_nonfinite_ends_with_a_message(recipe, loss_of_pass, monkeypatch):
    monkeypatch.setattr(run_module, "MOST_SKIPPED", 3)
    loss_of_pass(lambda number, loss: loss * (float("inf") if number > 6 else 1))
    with pytest.raises(TrainingError, match=r"Step 7: .* 3 batches in a row. The last good .*update-00000004"):
        train_with_trainer(recipe())


def test_signal_saves_and_ends_the_run(recipe, loss_of_pass, tmp_path):
    loss_of_pass(lambda number, loss: loss if number != 6 else (signal.raise_signal(signal.SIGTERM), loss)[1])
    with pytest.raises(TrainingInterrupted, match="Stopped by SIGTERM after step 6"):
        train_with_trainer(recipe())
    assert (tmp_path / "out" / "checkpoints" / "update-00000006").is_dir()


def test_fsdp_is_rejected(recipe, monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    for rank in range(2):
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        with pytest.raises(InputError, match="FSDP is not supported with the Trainer") as error:
            train_with_trainer(recipe())
        assert error.value.is_repeated is (rank == 1)
    assert not (tmp_path / "out").exists()


def test_command_reports_all_input_errors_and_exits_with_status_2(recipe, tmp_path, capsys):
    options = ["--train_source=absent.de", "--report_to=[nowhere]", f"--output_dir={tmp_path / 'out'}"]
    assert main(["train", "--trainer", *recipe.command, *options]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert all(line.startswith("error: ") for line in errors)
    assert "absent.de does not exist" in errors[0]
    assert "'nowhere' is unknown" in errors[1]
    assert not (tmp_path / "out").exists()

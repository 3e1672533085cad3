import math

import pytest
import torch

from hf_vaswani.training.checkpoints.best_weights import BestWeights, note_validation, ranked
from hf_vaswani.training.checkpoints.progress import Progress
from hf_vaswani.training.train import train

VALUES = {"weight": torch.ones(2)}


def kept(folder, measure, keep, scores):
    best = BestWeights(folder, measure, keep)
    for update, score in scores.items():
        best.consider(VALUES, update, {"loss": 9.0, "bleu": 9.0, measure: score})
    return [int(path.name[7:]) for path in ranked(folder)]


def test_best_weights_of_a_falling_and_of_a_rising_measure_are_kept_in_order(tmp_path):
    scores = {1: 3.0, 2: 1.0, 3: 2.0, 4: 5.0}
    assert kept(tmp_path / "loss", "loss", 2, scores) == [2, 3]
    assert kept(tmp_path / "bleu", "bleu", 2, scores) == [4, 1]


def test_of_equal_scores_the_earlier_weights_stay(tmp_path):
    assert kept(tmp_path, "bleu", 1, {1: 0.0, 2: 0.0, 3: 0.0}) == [1]


def test_weights_of_a_loss_that_is_no_number_are_never_better(tmp_path):
    assert kept(tmp_path, "loss", 1, {1: 3.0, 2: math.nan}) == [1]


def test_weights_of_a_loss_that_is_no_number_make_room_for_others(tmp_path):
    assert kept(tmp_path, "loss", 1, {1: math.nan, 2: 2.0, 3: 3.0}) == [2]
    assert kept(tmp_path / "two", "loss", 2, {1: math.nan, 2: 2.0, 3: math.nan}) == [2, 1]


def test_damaged_weights_are_passed_over(tmp_path):
    kept(tmp_path, "loss", 2, {1: 1.0, 2: 2.0})
    (tmp_path / "update-00000001" / "model.safetensors").write_bytes(b"")
    assert [path.name for path in ranked(tmp_path)] == ["update-00000002"]


@pytest.mark.parametrize(("measure", "scores", "counts"), [
    ("loss", [3.0, 2.0, 2.0, math.nan, 1.0], [0, 0, 1, 2, 0]),
    ("bleu", [1.0, 2.0, 2.0, 1.0, 3.0], [0, 0, 1, 2, 0]),
])  # fmt: skip
def test_validations_without_gain_are_counted(measure, scores, counts):
    progress, counted = Progress(), []
    for score in scores:
        note_validation(progress, measure, score)
        counted.append(progress.validations_without_gain)
    assert counted == counts


def test_training_whose_validation_losses_are_no_numbers_ends_with_its_patience(recipe, monkeypatch, capsys):
    monkeypatch.setattr("hf_vaswani.training.validation.Validator.likelihood", lambda *arguments: (math.nan, 0.0))
    assert train(recipe("--early_stopping_patience=1")).steps == 6
    assert "no improvement in validation loss for 1 validation (best: none)" in capsys.readouterr().out

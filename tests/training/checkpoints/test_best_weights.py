import math

import pytest
import torch

from hf_vaswani.errors import TrainingError
from hf_vaswani.training.checkpoints import best_weights
from hf_vaswani.training.checkpoints.best_weights import BestWeights, ranked

VALUES = {"weight": torch.ones(2)}


def kept(folder, metric, keep, scores):
    best = BestWeights(folder, metric, keep)
    for update, score in scores.items():
        best.consider(VALUES, update, {"loss": 9.0, "bleu": 9.0, metric: score})
    return [int(path.name[7:]) for path in ranked(folder)]


def test_best_weights_are_kept_in_order_for_falling_and_rising_metrics(tmp_path):
    scores = {1: 3.0, 2: 1.0, 3: 2.0, 4: 5.0}
    assert kept(tmp_path / "loss", "loss", 2, scores) == [2, 3]
    assert kept(tmp_path / "bleu", "bleu", 2, scores) == [4, 1]


def test_earlier_weights_are_kept_if_scores_are_equal(tmp_path):
    assert kept(tmp_path, "bleu", 1, {1: 0.0, 2: 0.0, 3: 0.0}) == [1]


def test_weights_with_nan_loss_are_never_better(tmp_path):
    assert kept(tmp_path, "loss", 1, {1: 3.0, 2: math.nan}) == [1]


def test_weights_with_nan_loss_are_replaced_by_others(tmp_path):
    assert kept(tmp_path, "loss", 1, {1: math.nan, 2: 2.0, 3: 3.0}) == [2]
    assert kept(tmp_path / "two", "loss", 2, {1: math.nan, 2: 2.0, 3: math.nan}) == [2, 1]


def test_damaged_weights_are_skipped(tmp_path):
    kept(tmp_path, "loss", 2, {1: 1.0, 2: 2.0})
    (tmp_path / "update-00000001" / "model.safetensors").write_bytes(b"")
    assert [path.name for path in ranked(tmp_path)] == ["update-00000002"]


def test_full_disk_error_says_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(best_weights, "save_weights", full)
    with pytest.raises(TrainingError, match="No space left on device. Free up disk space, then run the same command"):
        kept(tmp_path, "loss", 1, {1: 2.0})

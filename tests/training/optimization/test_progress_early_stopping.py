import math

import pytest

from hf_vaswani.training.optimization.progress import Progress
from hf_vaswani.training.train import train


@pytest.mark.parametrize(("metric", "scores", "counts"), [
    ("loss", [3.0, 2.0, 2.0, math.nan, 1.0], [0, 0, 1, 2, 0]),
    ("bleu", [1.0, 2.0, 2.0, 1.0, 3.0], [0, 0, 1, 2, 0]),
])  # fmt: skip
def test_validations_without_improvement_are_counted(metric, scores, counts):
    progress, counted = Progress(), []
    for score in scores:
        progress.note_validation(metric, score)
        counted.append(progress.validations_without_gain)
    assert counted == counts


def test_run_with_nan_validation_losses_stops_early(recipe, monkeypatch, capsys):
    monkeypatch.setattr("hf_vaswani.training.validation.Validator.likelihood", lambda *arguments: (math.nan, 0.0))
    assert train(recipe("--early_stopping_patience=1")).steps == 6
    assert "no improvement in validation loss for 1 validation (best: none)" in capsys.readouterr().out

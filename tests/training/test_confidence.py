"""Runs that calibrate the confidence of their model."""

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.training.train import train

OPTIONS = ("--confidence=true", "--max_steps=2")


def test_validation_set_calibrates_the_model(recipe, monkeypatch, capsys):
    monkeypatch.setattr("hf_vaswani.evaluation.calibration.LEAST_PAIRS", 5)
    model = VaswaniForConditionalGeneration.from_pretrained(train(recipe(*OPTIONS)).folder)
    assert model.config.confidence["samples"] == 8
    assert "Calibrated with 8 translations." in capsys.readouterr().out


def test_too_few_pairs_cost_the_confidence_not_the_model(recipe, capsys):
    model = VaswaniForConditionalGeneration.from_pretrained(train(recipe(*OPTIONS)).folder)
    assert model.config.confidence is None
    assert "evaluation.confidence: 8 pairs cannot calibrate a model" in capsys.readouterr().out

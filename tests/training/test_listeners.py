"""Listeners of a run hear the same from the loop and from transformers' Trainer, and each thing once."""

import pytest

from hf_vaswani.errors import TrainingInterrupted
from hf_vaswani.training import fit
from hf_vaswani.training.listeners import StepListener
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer


class Notes(StepListener):
    """Notes all that it hears."""

    def __init__(self):
        self.heard = []

    def on_run_begin(self, progress):
        self.heard.append(("begin", progress.step))

    def on_step_end(self, result):
        self.heard.append(("step", result.progress.step, round(result.loss, 4), result.target_tokens))

    def on_validation(self, result):
        self.heard.append(("validation", result.progress.step, *result.scores))

    def on_save(self, progress):
        self.heard.append(("save", progress.step))

    def on_run_end(self):
        self.heard.append(("end",))


@pytest.fixture
def notes(monkeypatch):
    """Listens to the next run, beside all others."""
    notes, original = Notes(), fit.listeners_of
    monkeypatch.setattr(fit, "listeners_of", lambda *arguments: [*original(*arguments), notes])
    return notes


SCORES = ("loss", "perplexity", "accuracy", "bleu", "chrf", "sentences")


@pytest.mark.parametrize("function", [train, train_with_trainer])
def test_listeners_hear_of_steps_then_validations_then_checkpoints(recipe, notes, function):
    function(recipe("--max_steps=6", "--eval_steps=4"))
    kinds = [("begin", 0), *[("step", step) for step in range(1, 5)], ("validation", 4, *SCORES), ("save", 4)]
    kinds += [("step", 5), ("step", 6), ("save", 6), ("end",)]
    assert [heard[:2] if heard[0] == "step" else heard for heard in notes.heard] == kinds


def test_listeners_hear_the_same_from_the_loop_and_from_the_trainer(recipe, notes):
    train(recipe("--gradient_accumulation_steps=2", output="loop"))
    by_loop, notes.heard = notes.heard, []
    train_with_trainer(recipe("--gradient_accumulation_steps=2", output="trainer"))
    assert notes.heard == by_loop


def test_listeners_hear_the_end_of_a_run_that_is_interrupted(recipe, notes, monkeypatch):
    monkeypatch.setattr("hf_vaswani.training.loop.optimizer_step", lambda run, batches: (1.0, True))
    with pytest.raises(TrainingInterrupted):
        train(recipe())
    assert [heard[0] for heard in notes.heard] == ["begin", "step", "save", "end"]


def test_finished_run_has_nothing_to_hear_of(recipe, notes):
    train(recipe("--max_steps=2"))
    notes.heard = []
    train(recipe("--max_steps=2"))
    assert notes.heard == []

"""Listeners of a run receive the same events from the loop and from transformers' Trainer, each of them once."""

import pytest

from hf_vaswani.errors import TrainingInterrupted
from hf_vaswani.training.optimization.progress import StepListener
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer


class RecordingListener(StepListener):
    """Records all events."""

    def __init__(self):
        self.events = []

    def on_run_begin(self, progress):
        self.events.append(("begin", progress.step))

    def on_step_end(self, result):
        self.events.append(("step", result.progress.step, round(result.loss, 4), result.target_tokens))

    def on_validation(self, result):
        self.events.append(("validation", result.progress.step, *result.scores))

    def on_save(self, progress):
        self.events.append(("save", progress.step))

    def on_run_end(self):
        self.events.append(("end",))


@pytest.fixture
def listener():
    return RecordingListener()


SCORES = ("loss", "perplexity", "accuracy", "bleu", "chrf", "sentences")


@pytest.mark.parametrize("function", [train, train_with_trainer])
def test_listeners_receive_steps_then_validations_then_checkpoints(recipe, listener, function):
    function(recipe("--max_steps=6", "--eval_steps=4"), listeners=[listener])
    kinds = [("begin", 0), *[("step", step) for step in range(1, 5)], ("validation", 4, *SCORES), ("save", 4)]
    kinds += [("step", 5), ("step", 6), ("save", 6), ("end",)]
    assert [event[:2] if event[0] == "step" else event for event in listener.events] == kinds


def test_listeners_receive_the_same_events_from_the_loop_and_the_trainer(recipe, listener):
    train(recipe("--gradient_accumulation_steps=2", output="loop"), listeners=[listener])
    by_loop, listener.events = listener.events, []
    train_with_trainer(recipe("--gradient_accumulation_steps=2", output="trainer"), listeners=[listener])
    assert listener.events == by_loop


def test_listeners_receive_the_end_of_an_interrupted_run(recipe, listener, monkeypatch):
    monkeypatch.setattr("hf_vaswani.training.loop.optimizer_step", lambda run, batches: (1.0, True))
    with pytest.raises(TrainingInterrupted):
        train(recipe(), listeners=[listener])
    assert [event[0] for event in listener.events] == ["begin", "step", "save", "end"]


def test_finished_run_sends_no_events(recipe, listener):
    train(recipe("--max_steps=2"), listeners=[listener])
    listener.events = []
    train(recipe("--max_steps=2"), listeners=[listener])
    assert listener.events == []

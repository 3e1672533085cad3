"""Runs that end after a number of epochs."""

import json

import pytest

from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from .helpers import losses, records, same_weights

# 60 pairs in batches of 15 sentences: an epoch has four batches.
FOUR_BATCHES = ("--max_steps=null", "--max_tokens=1000", "--max_sentences=15")


@pytest.mark.parametrize("function", [train, train_with_trainer])
@pytest.mark.parametrize(
    ("options", "updates"), [((), 8), pytest.param(("--gradient_accumulation_steps=3",), 4, marks=pytest.mark.slow)]
)
def test_run_ends_with_its_last_epoch(recipe, function, options, updates, capsys):
    results = function(recipe(*FOUR_BATCHES, "--num_train_epochs=2", *options))
    assert results.steps == updates
    assert f"Ended after {updates} steps: num_train_epochs=2 reached" in capsys.readouterr().out
    progress = json.loads((results.folder / "checkpoints" / f"update-{updates:08d}" / "progress.json").read_text())
    assert (progress["epoch"], progress["part"], progress["batch"]) == (2, 0, 0)
    # The run is finished: there is nothing to resume.
    assert function(recipe(*FOUR_BATCHES, "--num_train_epochs=2", *options)).steps == updates


@pytest.mark.parametrize(
    "kind",
    [
        (),
        pytest.param(("--bpe_dropout=0.2",), marks=pytest.mark.slow),
        pytest.param(("--streaming=true", "--max_length=60"), marks=pytest.mark.slow),
    ],
    ids=["tokenized once", "tokenized each epoch", "streamed"],
)
def test_interrupted_epochs_equal_uninterrupted_ones_bit_for_bit(recipe, kind):
    options = ("--max_steps=null", "--max_tokens=60", *kind)
    whole = train(recipe(*options, "--num_train_epochs=3", output="whole"))
    for limit in ("--num_train_epochs=1", "--max_steps=17", "--num_train_epochs=3"):
        parts = train(recipe(*options, "--num_train_epochs=3", limit, output="parts"))
        assert (parts.steps < whole.steps) == (limit != "--num_train_epochs=3")
    assert losses(parts.folder) == losses(whole.folder)
    assert same_weights(parts.folder, whole.folder)
    assert {record["epoch"] for record in records(whole.folder) if "loss" in record} == {0, 1, 2, 3}


def test_run_ends_at_max_steps_or_num_train_epochs_whichever_comes_first(recipe):
    assert train(recipe(*FOUR_BATCHES, "--max_steps=3", "--num_train_epochs=2", output="a")).steps == 3
    assert train(recipe(*FOUR_BATCHES, "--max_steps=30", "--num_train_epochs=2", output="b")).steps == 8


def test_time_left_is_computed_from_the_epochs(recipe, capsys):
    train(recipe(*FOUR_BATCHES, "--num_train_epochs=2"))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ") and "loss" in line]
    left = [float(line.rpartition("minutes_left ")[2]) for line in lines if "minutes_left" in line]
    # The first of the eight steps says nothing about the pace.
    assert len(left) == 7 and left[0] > left[-1] == 0

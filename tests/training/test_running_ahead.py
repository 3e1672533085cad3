"""Steps that end while the next one is computed, as on a GPU: the same run as one step after another."""

import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hf_vaswani import VaswaniForConditionalGeneration
from hf_vaswani.data.epochs import Part
from hf_vaswani.errors import TrainingError, TrainingInterrupted
from hf_vaswani.training import loop
from hf_vaswani.training import run as run_module
from hf_vaswani.training.optimization.step_batches import StepBatches, StepDataset
from hf_vaswani.training.optimization.step_loss import training_loss
from hf_vaswani.training.train import train

from ..conftest import tiny_config, tiny_model
from .helpers import losses, records_without_timings, run_training, same_weights


def run_async(monkeypatch):
    """Lets the loop run ahead on a CPU, from the first step on. The CPU's fused Adam, too, skips a step if told to."""
    monkeypatch.setattr(loop, "may_run_async", lambda run: True)
    monkeypatch.setattr(run_module, "FIRST_STEPS", 0)


@pytest.fixture
def ahead(monkeypatch):
    run_async(monkeypatch)


def assert_same(folder, other):
    assert losses(folder) and records_without_timings(folder) == records_without_timings(other)
    assert same_weights(folder, other)


@pytest.mark.parametrize(
    "options",
    [
        ("--ema_decay=0.9", "--keep_best=2", "--logging_steps=5"),
        ("--gradient_accumulation_steps=2", "--max_tokens=60", "--max_grad_norm=0.1", "--weight_decay=0.1"),
        pytest.param(
            ("--max_steps=null", "--num_train_epochs=3", "--lr_scheduler_type=constant"), marks=pytest.mark.slow
        ),
        ("--eval_steps=1", "--early_stopping_patience=1", "--learning_rate=1", "--warmup_steps=1"),
    ],
)
def test_run_is_the_same_bit_for_bit(recipe, monkeypatch, options):
    sequential = train(recipe(*options, output="sequential")).folder
    run_async(monkeypatch)
    assert_same(train(recipe(*options, output="ahead")).folder, sequential)


@pytest.mark.slow
def test_run_of_two_processes_is_the_same_bit_for_bit(recipe, tmp_path):
    options, folders = ("--ema_decay=0.9", "--gradient_accumulation_steps=2", "--max_tokens=30"), []
    for script in ("scripts/train.py", "tests/training/ahead_training.py"):
        folders.append(tmp_path / script.split("/")[-1])
        run_training(recipe, *options, f"--output_dir={folders[-1]}", processes=2, script=script)
    assert_same(*folders)


@pytest.mark.parametrize(
    ("recorded", "options", "awaited"),
    [(0, (), []), (0, ("--save_steps=2",), [2, 4]), (0, ("--eval_steps=3",), [3]), (2, (), [1, 2])],
)
def test_passes_of_the_next_step_come_first_unless_a_step_is_kept(
    recipe, monkeypatch, ahead, recorded, options, awaited
):
    monkeypatch.setattr(run_module, "FIRST_STEPS", recorded)
    events, compute, end = [], loop.compute_gradients, run_module.TrainingRun.end_step

    def watched_compute(run, batches):
        events.append("passes")
        return compute(run, batches)

    def watched_end(run, *results):
        events.append("end")
        return end(run, *results)

    monkeypatch.setattr(loop, "compute_gradients", watched_compute)
    monkeypatch.setattr(run_module.TrainingRun, "end_step", watched_end)
    train(recipe("--max_steps=5", "--max_tokens=20", "--save_steps=100", *options))
    expected = ["passes"]
    for step in range(1, 5):
        expected += ["end", "passes"] if step in awaited else ["passes", "end"]
    assert events == [*expected, "end"]


@pytest.mark.parametrize("processes", [1, 2])
def test_steps_before_another_part_of_the_text_are_known(processes):
    begun, lengths = [], np.ones(9, int)
    pairs = SimpleNamespace(rows=lambda batch: batch, source_lengths=lengths, target_lengths=lengths)

    def parts(epoch, first):
        for number, size in enumerate((7, 4)):
            begun.append((epoch, number))
            yield Part(number, pairs, [np.array([row]) for row in range(size)])

    steps = iter(StepDataset(SimpleNamespace(parts=parts), lambda rows: {}, (0, 0, 0), 0, processes))
    step, waits = next(steps), []
    for _ in range(12):
        before, last = len(begun), step
        step = next(steps)
        waits.append((last.is_before_a_part, len(begun) > before))
    assert {is_told for is_told, has_waited in waits if has_waited} == {True}
    assert (False, False) in waits


def test_steps_that_are_not_finite_are_skipped(recipe, monkeypatch, loss_of_pass, capsys):
    def spoil_three():
        loss_of_pass(lambda number, loss: loss * {3: float("nan"), 4: float("inf"), 9: float("nan")}.get(number, 1))

    spoil_three()
    sequential = train(recipe(output="sequential")).folder
    skipped = [line for line in capsys.readouterr().out.splitlines() if "batch skipped" in line]
    spoil_three()
    run_async(monkeypatch)
    assert_same(train(recipe(output="ahead")).folder, sequential)
    assert [line for line in capsys.readouterr().out.splitlines() if "batch skipped" in line] == skipped
    assert len(skipped) == 3


def test_run_whose_loss_stays_nonfinite_ends_with_a_message(recipe, monkeypatch, loss_of_pass, ahead):
    monkeypatch.setattr(run_module, "MOST_SKIPPED", 3)
    loss_of_pass(lambda number, loss: loss * (float("inf") if number > 6 else 1))
    with pytest.raises(TrainingError, match=r"Step 7: .* 3 batches in a row. The last good .*update-00000004"):
        train(recipe())


def test_run_stopped_by_a_signal_resumes_bit_for_bit(recipe, loss_of_pass, ahead):
    options = ("--max_tokens=20", "--ema_decay=0.9")
    whole = train(recipe(*options, output="whole")).folder
    loss_of_pass(lambda number, loss: loss if number != 7 else (signal.raise_signal(signal.SIGTERM), loss)[1])
    with pytest.raises(TrainingInterrupted, match="Stopped by SIGTERM after step 7"):
        train(recipe(*options, output="parts"))
    loss_of_pass(lambda number, loss: loss)
    parts = train(recipe(*options, output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)


@pytest.mark.parametrize("changes", [{}, {"norm_position": "pre"}, {"positions_skip_padding": True}])
def test_passes_read_no_value_from_the_device(changes):
    # The meta device has no values: reading one is an error, where a GPU would have to finish all its work first.
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(tiny_config(**changes)).train()
        batch = {
            "input_ids": torch.ones(3, 5, dtype=torch.long),
            "attention_mask": torch.ones(3, 5, dtype=torch.long),
            "labels": torch.ones(3, 7, dtype=torch.long),
        }
    training_loss(model, batch, 21.0).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert norm.is_meta and all(parameter.grad.is_meta for parameter in model.parameters())


def test_padding_mask_of_a_gpu_gives_the_same_loss():
    model = tiny_model().train()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    batch = {"input_ids": torch.randint(4, 40, (2, 5)), "labels": torch.randint(4, 40, (2, 7))}
    values = []
    for masks in (mask, mask[:, None, None].bool()):
        torch.manual_seed(1)
        values.append(training_loss(model, {**batch, "attention_mask": masks}, 14.0))
    torch.testing.assert_close(values[1], values[0])


def test_mask_without_padding_is_left_out():
    ids, full, padded = torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3), torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert loop.without_full_mask({"input_ids": ids, "attention_mask": full}) == {"input_ids": ids}
    batch = {"input_ids": ids, "attention_mask": padded}
    assert loop.without_full_mask(batch) == batch


def test_tensors_of_all_forward_passes_are_pinned(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 100)
    batches = StepBatches([{"input_ids": torch.tensor([1])}, {"labels": torch.tensor([2])}], 1, 1, 1, (0, 0, 1))
    pinned = batches.pin_memory()
    assert pinned.micro_batches == [{"input_ids": torch.tensor([101])}, {"labels": torch.tensor([102])}]
    assert pinned.following == batches.following

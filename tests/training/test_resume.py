"""A run that was stopped, in whatever way, resumes as if it had not been, bit for bit."""

import json
import multiprocessing
import os
import random
import signal
import time

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.training import run as run_module
from hf_vaswani.training.optimization.step_batches import steps_loader
from hf_vaswani.training.run import TrainingRun
from hf_vaswani.training.train import train

from .helpers import losses, records_without_timings, run_training, same_weights, start_training

# Everything random, and everything that has state.
ALL_AT_ONCE = (
    "--dropout=0.2", "--gradient_accumulation_steps=2", "--bpe_dropout=0.2", "--ema_decay=0.9", "--r_drop=1",
    "--max_grad_norm=1", "--max_tokens=60", "--save_steps=3", "--logging_steps=2",
    "--eval_steps=5",    "--max_steps=60", "--keep_best=2", "--optim=muon",
)  # fmt: skip


def kill_at_random_moments(recipe, output, kills: int, options, processes: int = 1) -> int:
    """Starts a run and kills it, repeatedly, each time at a random moment after it has saved a new checkpoint.

    Returns how often it was killed: on a busy machine, the run may finish first.
    """
    generator, killed = random.Random(), 0
    for _ in range(kills):
        process = start_training(recipe, *options, f"--output_dir={output}", processes=processes)
        before = set(output.glob("checkpoints/update-*[0-9]"))
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if set(output.glob("checkpoints/update-*[0-9]")) - before:
                break
            time.sleep(0.01)
        time.sleep(generator.random() * 0.3)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
    return killed


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_run_killed_several_times_equals_an_uninterrupted_one_bit_for_bit(recipe, tmp_path, processes):
    def train_to_the_end(output):
        if processes == 1:  # in this process, which is faster
            train(recipe(*ALL_AT_ONCE, output=output))
        else:
            run_training(recipe, *ALL_AT_ONCE, f"--output_dir={tmp_path / output}", processes=processes)

    train_to_the_end("whole")
    assert kill_at_random_moments(recipe, tmp_path / "parts", 2, ALL_AT_ONCE, processes)
    train_to_the_end("parts")
    assert records_without_timings(tmp_path / "parts") == records_without_timings(tmp_path / "whole")
    assert len(losses(tmp_path / "whole")) == 30
    assert same_weights(tmp_path / "parts", tmp_path / "whole")
    for name in ("best", "checkpoints"):
        folders = [sorted(path.name for path in (tmp_path / part / name).iterdir()) for part in ("parts", "whole")]
        assert folders[0] == folders[1]
    for update in sorted(path.name for path in (tmp_path / "whole" / "checkpoints").iterdir()):
        progress = [
            json.loads((tmp_path / part / "checkpoints" / update / "progress.json").read_text())
            | {"seconds": 0, "energy": {}}
            for part in ("parts", "whole")
        ]
        assert progress[0] == progress[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "times"),
    [
        (signal.SIGINT, 2),  # as an impatient user sends it
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 1, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 2, marks=pytest.mark.slow),
    ],
)
def test_signal_saves_the_state_with_a_message_and_the_run_resumes(recipe, tmp_path, number, times):
    options = ("--max_steps=40", "--save_steps=1000")
    train(recipe(*options, output="whole"))
    process = start_training(recipe, *options, f"--output_dir={tmp_path / 'parts'}")
    for line in process.stdout:
        if line.startswith("step 3:"):
            for _ in range(times):
                process.send_signal(number)
                time.sleep(0.01)
            break
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "the state is saved in" in output and "Run the same command again to resume" in output
    assert "Traceback" not in output
    train(recipe(*options, output="parts"))
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert same_weights(tmp_path / "parts", tmp_path / "whole")


def test_batch_worker_survives_signals(recipe, monkeypatch):
    def with_worker(updates, workers):
        return steps_loader(updates, workers=1)

    def signal_children(self, *arguments):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGTERM)
            os.kill(child.pid, signal.SIGINT)
            signalled.append(child.pid)
        return original(self, *arguments)

    signalled, original = [], TrainingRun._note_step
    plain = train(recipe(output="plain")).folder
    monkeypatch.setattr(run_module, "steps_loader", with_worker)
    monkeypatch.setattr(TrainingRun, "_note_step", signal_children)
    assert losses(train(recipe(output="worker")).folder) == losses(plain)
    assert signalled


@pytest.mark.slow
def test_error_in_a_stream_is_the_same_with_and_without_a_worker(recipe, monkeypatch, write_lines):
    lines = [json.dumps({"source": "a b", "target": "b a"}) for _ in range(60)]
    text = write_lines("train.jsonl", [*lines[:50], "{", *lines[50:]])
    options = ("--train_source=null", "--train_target=null", f"--train={text}", "--streaming=true", "--max_length=20")
    learned, messages = train(recipe("--max_steps=1", output="first")).folder, []
    for workers in (0, 1):
        monkeypatch.setattr(
            run_module, "steps_loader", lambda updates, workers, number=workers: steps_loader(updates, number)
        )
        with pytest.raises(InputError) as error:
            train(recipe(*options, f"--tokenizer.path={learned}", output=f"out{workers}"))
        messages.append(str(error.value))
    assert "train.jsonl, line 51" in messages[0] and messages[0] == messages[1]


@pytest.mark.slow
def test_signal_to_the_launcher_of_two_processes_saves_the_state_once(recipe, tmp_path):
    process = start_training(recipe, "--max_steps=100000", f"--output_dir={tmp_path / 'out'}", processes=2)
    for line in process.stdout:
        if line.startswith("step 3:"):
            process.send_signal(signal.SIGTERM)
            break
    output, _ = process.communicate(timeout=120)
    assert output.count("the state is saved in") == 1
    assert list((tmp_path / "out" / "checkpoints").glob("update-*[0-9]"))


@pytest.mark.slow
def test_run_in_parts_equals_an_uninterrupted_one(recipe):
    whole = train(recipe("--average_last=3", "--logging_steps=2", output="whole")).folder
    train(recipe("--average_last=3", "--logging_steps=2", "--max_steps=5", output="parts"))
    parts = train(recipe("--average_last=3", "--logging_steps=2", output="parts")).folder
    assert losses(parts) == losses(whole)
    assert same_weights(parts, whole)


def test_resuming_with_an_edited_tokenizer_is_rejected_before_anything_changes(recipe):
    options = ("--vocab_size=30", "--type=word", "--min_frequency=1")
    folder = train(recipe(*options, "--max_steps=2", "--save_steps=2")).folder
    path = folder / "tokenizer" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"]["onemore"] = len(content["model"]["vocab"])
    path.write_text(json.dumps(content))
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match="do not have the model's shapes"):
        train(recipe(*options, "--max_steps=4", "--save_steps=2"))
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before

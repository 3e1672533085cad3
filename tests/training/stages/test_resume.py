"""A recipe of stages that is stopped anywhere resumes as if it had not been, bit for bit."""

import os
import random
import signal
import time

import pytest

from hf_vaswani.errors import TrainingInterrupted
from hf_vaswani.training.stages import translate_text
from hf_vaswani.training.stages.record import Record
from hf_vaswani.training.train import train

from ..helpers import same_weights, start_training
from .conftest import stop_in_second_window

STAGES = ["both", "forward", "mean", "backward"]
PAIRS = ["stages/forward/pairs.jsonl.gz", "stages/backward/pairs.jsonl.gz"]


def is_equal(folder, other) -> bool:
    return same_weights(folder, other) and all((folder / name).read_bytes() == (other / name).read_bytes()
                                               for name in PAIRS)  # fmt: skip


class Stopped(BaseException):
    """Stands in for a kill."""


@pytest.mark.slow
def test_stop_before_and_after_each_record_changes_nothing(staged, tmp_path, monkeypatch):
    train(staged(output="whole"))
    write, stops = Record.write, 0
    # Each run writes one record and stops at the next. A stage writes its record when it begins and when it ends.
    for number in range(24):
        calls = iter(range(100))

        def stop_at_second(self, path, calls=calls, is_after=bool(number % 2)):
            is_first = next(calls) == 0
            if is_first or is_after:
                write(self, path)
            if not is_first:
                raise Stopped

        monkeypatch.setattr(Record, "write", stop_at_second)
        try:
            train(staged(output="parts"))
            break
        except Stopped:
            stops += 1
    assert stops >= 4
    monkeypatch.setattr(Record, "write", write)
    train(staged(output="parts"))
    assert is_equal(tmp_path / "parts", tmp_path / "whole")


def test_signal_during_translation_saves_and_exits_with_a_message_and_it_resumes(staged, tmp_path, monkeypatch):
    lines = [" ".join(random.Random(i).choices("abcdefgh", k=3)) for i in range(300)]
    (tmp_path / "more.txt").write_text("".join(f"{line}\n" for line in lines))
    more = {"translate": {"model": "both", "max_new_tokens": 8, "input": str(tmp_path / "more.txt")}}
    changes = {"forward": more, "backward": {"translate": {**more["translate"], "side": "target"}}, "mean": None}
    train(staged(output="whole", **changes))
    windows = stop_in_second_window(monkeypatch)
    with pytest.raises(
        TrainingInterrupted, match="Stopped by SIGTERM.*Run the same command again to continue"
    ) as stop:
        train(staged(output="parts", **changes))
    assert stop.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert (tmp_path / "parts/stages/forward" / translate_text.TRANSLATIONS_FILE).exists()

    train(staged(output="parts", **changes))
    # The completed window of 128 lines is not translated again.
    assert windows[:3] == [128, 172, 172]
    assert is_equal(tmp_path / "parts", tmp_path / "whole")


def kill_after(staged, output, condition, options=()) -> bool:
    """Start the command and kill it shortly after a condition holds; returns whether it was still running."""
    process = start_training(staged, *options, f"--output_dir={output}")
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline and not condition():
        time.sleep(0.005)
    time.sleep(random.random() * 0.2)
    was_running = process.poll() is None
    if was_running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return was_running


@pytest.mark.slow
def test_command_killed_in_a_training_stage_resumes(staged, tmp_path):
    train(staged("--both.max_steps=60", "--both.save_steps=10", output="whole"))
    output = tmp_path / "parts"
    checkpoints = output / "stages" / "both" / "checkpoints"
    options = ["--both.max_steps=60", "--both.save_steps=10"]
    kill_after(staged, output, lambda: list(checkpoints.glob("update-*[0-9]")), options)
    assert not (output / "model.safetensors").exists()
    train(staged(*options, output="parts"))
    assert is_equal(output, tmp_path / "whole")


@pytest.mark.slow
def test_command_killed_in_each_stage_and_in_the_final_run_resumes(staged, tmp_path):
    options = ["--max_steps=200", "--both.max_steps=200"]
    train(staged(*options, output="whole"))
    output, killed = tmp_path / "parts", 0
    for place in [*(f"stages/{name}.json" for name in STAGES), "training_recipe.yaml"]:
        killed += kill_after(staged, output, (output / place).exists, options)
    assert killed >= 3
    train(staged(*options, output="parts"))
    assert is_equal(output, tmp_path / "whole")

import re
from types import SimpleNamespace

import pytest

from hf_vaswani.training.listeners import Stopwatch
from hf_vaswani.training.optimization.progress import Progress, StepResult
from hf_vaswani.training.reporting import log
from hf_vaswani.training.reporting.log import TrainingLog


def test_time_left_does_not_count_what_comes_before_the_first_step(tmp_path, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: now[0]))
    progress = Progress()
    training_log = TrainingLog(tmp_path, progress, last_step=11, clock=Stopwatch(), logging_steps=5)
    training_log.on_run_begin(progress)
    now[0] = 3600.0  # soft labels
    for step in range(1, 6):
        now[0] += 60
        progress.step = step
        training_log.on_step_end(StepResult(progress, 1.0, 0.1, 100, None))
    training_log.on_run_end()
    [left] = re.findall(r"minutes_left ([\d.]+)", capsys.readouterr().out)
    assert float(left) == pytest.approx(6)


@pytest.mark.parametrize(
    ("last_step", "steps_per_epoch", "expected"),
    [
        (1000, 40, "about 301 of 1,000 steps: 7.53 epochs of 40 steps"),
        (1000, None, "about 301 of 1,000 steps"),
        (None, 40, "about 301 steps: 7.53 epochs of 40 steps"),
        (200, 40, "all 200 steps: 5.00 epochs of 40 steps"),
    ],
)
def test_run_with_a_time_limit_says_once_how_far_it_will_come(
    last_step, steps_per_epoch, expected, tmp_path, monkeypatch, capsys
):
    now = [0.0]
    monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: now[0]))
    progress = Progress()
    training_log = TrainingLog(tmp_path, progress, last_step, Stopwatch(), 1000, 15, steps_per_epoch)
    training_log.on_run_begin(progress)
    # The first step takes 9 seconds, each other 2.97, so that 300 others fit into the rest of the 15 minutes.
    for step in range(1, 30):
        now[0] += 9 if step == 1 else 2.97
        progress.step, progress.seconds = step, now[0]
        training_log.on_step_end(StepResult(progress, 1.0, 0.1, 100, None))
    [said] = capsys.readouterr().out.splitlines()
    assert said == f"At this speed, max_minutes=15 is enough for {expected}"


@pytest.mark.parametrize("exists", [True, False])
def test_log_that_is_a_link_continues_in_a_copy(tmp_path, exists):
    folder, elsewhere = tmp_path / "run", tmp_path / "mine.jsonl"
    folder.mkdir()
    (folder / "log.jsonl").symlink_to(elsewhere)
    lines = ['{"update": 1, "loss": 2.0}\n', '{"update": 2, "loss": 1.0}\n'] if exists else []
    if exists:
        elsewhere.write_text("".join(lines))
    progress = Progress(step=2)
    TrainingLog(folder, progress, last_step=3, clock=Stopwatch(), logging_steps=1).record(progress, loss=0.5)
    assert (folder / "log.jsonl").read_text() == "".join([*lines, '{"update": 2, "loss": 0.5}\n'])
    assert not (folder / "log.jsonl").is_symlink()
    assert elsewhere.exists() == exists and (not exists or elsewhere.read_text() == "".join(lines))

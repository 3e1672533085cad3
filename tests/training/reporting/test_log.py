import re
from types import SimpleNamespace

import pytest

from hf_vaswani.runtime.stopwatch import Stopwatch
from hf_vaswani.training.checkpoints.progress import Progress
from hf_vaswani.training.listeners import StepResult
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

"""Sweeps that are stopped or killed, with real training runs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.training.helpers import PROJECT, same_weights

STEPS = ("--max_steps=80", "--save_steps=5", "--eval_steps=20", "--logging_steps=5")


@pytest.fixture
def start(recipe, tmp_path):
    """Starts a sweep of the small recipe as a separate command."""

    def start(folder: str, *options: str) -> subprocess.Popen:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "hf_vaswani",
                "sweep",
                *recipe.command,
                *options,
                f"--output_dir={tmp_path / folder}",
            ],
            env={**os.environ, "PYTHONPATH": str(PROJECT), "ACCELERATE_USE_CPU": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return start


def finish(process: subprocess.Popen, status: int = 0) -> str:
    output, _ = process.communicate(timeout=600)
    assert process.returncode == status, output
    return output


def checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("*/checkpoints/update-*[0-9]"))


def kill_in_the_middle(process: subprocess.Popen, folder: Path, number: int = signal.SIGKILL) -> list[psutil.Process]:
    """Signal a sweep shortly after one of its runs has saved a checkpoint; returns the runs that it leaves behind."""
    sweep, deadline = psutil.Process(process.pid), time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline and not sweep.children():
        time.sleep(0.02)
    before = checkpoints(folder)
    while process.poll() is None and time.monotonic() < deadline and not checkpoints(folder) - before:
        time.sleep(0.02)
    time.sleep(random.Random().random() * 0.3)
    assert process.poll() is None
    runs = sweep.children()
    assert runs
    process.send_signal(number)
    return runs


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def without_times(folder: Path) -> dict:
    """The result of a sweep without its times."""
    result = json.loads((folder / "sweep.json").read_text())
    for combination in result["combinations"]:
        del combination["minutes"]
        for run in combination["runs"]:
            del run["minutes"]
    return result


@pytest.mark.slow
def test_each_run_is_trained_by_its_own_command(start, tmp_path):
    finish(start("out", "--max_steps=4", "--eval_steps=4", "--save_steps=4", "--seeds=7"))
    [[run]] = [entry["runs"] for entry in without_times(tmp_path / "out")["combinations"]]
    assert (run["folder"], run["seed"], run["state"], run["steps"]) == ("recipe_seed_7", 7, "finished", 4)
    results = json.loads((tmp_path / "out" / "recipe_seed_7" / "results.json").read_text())
    assert run["validation_loss"] == results["validation_loss"]
    assert run["tests"]["test"]["bleu"] == results["tests"]["test"]["bleu"]


@pytest.mark.slow
def test_stopped_sweep_saves_its_runs_and_the_same_command_resumes_it(start, tmp_path):
    options = (*STEPS, "--grid", "dropout=0.1,0.3", "--jobs=2")
    stopped = start("out", *options)
    runs = kill_in_the_middle(stopped, tmp_path / "out", signal.SIGTERM)
    output = finish(stopped, 128 + signal.SIGTERM)
    assert output.splitlines()[-1] == (
        "Stopped by SIGTERM; all runs have saved their states. Run the same command again to resume."
    )
    assert not any(map(is_alive, runs))
    output = finish(start("out", *options))
    assert "| 0.3 " in output and (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG")
    logs = [path.read_text() for path in (tmp_path / "out").glob("*.log")]
    assert len(logs) == 2 and any("Resuming from" in log for log in logs)
    assert [len(entry["runs"]) for entry in without_times(tmp_path / "out")["combinations"]] == [1, 1]


@pytest.mark.slow
def test_sweep_killed_twice_gives_the_same_results_as_an_uninterrupted_one(start, tmp_path):
    options = (*STEPS, "--grid=learning_rate=0.001,0.003,0.01", "--seeds=1,2,3", "--jobs=2")
    for _ in range(2):
        process = start("killed", *options)
        kill_in_the_middle(process, tmp_path / "killed")
        process.communicate()  # its runs may live on for some seconds: the next sweep waits for them
    finish(start("killed", *options))
    finish(start("whole", *options))
    killed, whole = without_times(tmp_path / "killed"), without_times(tmp_path / "whole")
    assert killed == whole
    assert [len(entry["runs"]) for entry in whole["combinations"]] == [3] * 3
    for run in (run["folder"] for entry in whole["combinations"] for run in entry["runs"]):
        assert same_weights(tmp_path / "killed" / run, tmp_path / "whole" / run)
    assert any("Resuming from" in path.read_text() for path in (tmp_path / "killed").glob("*.log"))


@pytest.mark.slow
def test_runs_of_a_killed_sweep_end_with_it(start, tmp_path):
    process = start("out", "--max_steps=1000000", "--save_steps=5", "--jobs=2", "--seeds=1,2")
    runs = kill_in_the_middle(process, tmp_path / "out")
    process.communicate()
    deadline = time.monotonic() + 60  # for a busy machine; usually a few seconds
    while any(map(is_alive, runs)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(runs) == 2 and not any(map(is_alive, runs))

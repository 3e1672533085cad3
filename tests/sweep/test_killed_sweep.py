"""Sweeps that are stopped or killed: with runs that take no time, and with real ones."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.training.conftest import recipe  # noqa: F401
from tests.training.helpers import same_weights

from .conftest import GRID_TEXTS, PROJECT, FakeRuns

# The command, with another program in place of `hf-vaswani train`.
COMMAND = """
import sys
from hf_vaswani import cli
from hf_vaswani.sweep import trials
if sys.argv[1]:
    trials.TRAIN = (sys.argv[1],)
sys.exit(cli.main(sys.argv[2:]))
"""


def start(folder: Path, *options: str, script: Path | str = "") -> subprocess.Popen:
    """Start a sweep as a separate command."""
    pytest.importorskip("ray")
    arguments = [sys.executable, "-c", COMMAND, str(script), "sweep", *options, f"--output_dir={folder}"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "ACCELERATE_USE_CPU": "true"}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(arguments, env=environment, start_new_session=True, **output)


def finish(process: subprocess.Popen, status: int = 0) -> str:
    output, _ = process.communicate(timeout=900)
    assert process.returncode == status, output
    return output


def trainings(process: subprocess.Popen) -> list[psutil.Process]:
    """The runs of a sweep."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found += [child] if "--training.overwrite=false" in child.cmdline() else []
    return found


def wait_for(condition, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def without_minutes(folder: Path) -> dict:
    """The results of a sweep without its times."""
    result = json.loads((folder / "sweep.json").read_text())
    for row in result["rows"]:
        del row["spreads"]["minutes"]
        for run in row["runs"]:
            del run["values"]["minutes"]
    return result


def checkpoints(folder: Path) -> set[Path]:
    return set(folder.glob("*/checkpoints/update-*[0-9]"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_stopped_sweep_is_started_again(number, tmp_path, sweep_of):
    runs, folder = FakeRuns(tmp_path / "results"), tmp_path / "out"
    for name, texts in GRID_TEXTS.items():
        runs.write(name, 2.0, texts)
    options = [sweep_of().request.recipe, "--grid=dropout=0.0,0.1", "--seeds=1,2", "--jobs=2"]
    (runs.folder / "wait").touch()
    process = start(folder, *options, script=runs.script)
    wait_for(lambda: process.poll() is not None or len(trainings(process)) == 2)
    left = trainings(process)
    process.send_signal(number)
    output = finish(process, 128 + number if number == signal.SIGTERM else -number)
    for run in left:  # unlike `hf-vaswani train`, they do not end by themselves
        run.kill()
    if number == signal.SIGTERM:
        assert output.endswith("Stopped by SIGTERM; runs save their states. Run the same command again to resume.\n")
        return
    (runs.folder / "wait").unlink()
    output = finish(start(folder, *options, script=runs.script))
    assert "| 0.1     | 2 " in output
    rows = json.loads((folder / "sweep.json").read_text())["rows"]
    assert [[run["error"] for run in row["runs"]] for row in rows] == [[None, None]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_real_runs_of_a_stopped_sweep_save_their_states_and_end(number, recipe, tmp_path):  # noqa: F811
    process = start(
        tmp_path / "out", *recipe.command, "--max_steps=1000000", "--save_steps=5", "--seeds=1,2", "--jobs=2"
    )
    wait_for(lambda: process.poll() is not None or len(checkpoints(tmp_path / "out")) > 1)
    left = trainings(process)
    process.send_signal(number)
    process.communicate()
    wait_for(lambda: not any(map(is_alive, left)), 60)
    assert len(left) == 2
    assert any("the state is saved" in path.read_text() for path in (tmp_path / "out").glob("*.log"))


@pytest.mark.slow
def test_sweep_killed_twice_gives_the_same_results_as_an_uninterrupted_one(recipe, tmp_path):  # noqa: F811
    steps = ("--max_steps=80", "--save_steps=5", "--eval_steps=20", "--logging_steps=5")
    options = (*recipe.command, *steps, "--grid=learning_rate=0.001,0.003", "--seeds=1,2", "--jobs=2")
    for _ in range(2):
        process = start(tmp_path / "killed", *options)
        before = checkpoints(tmp_path / "killed")
        wait_for(lambda old=before, own=process: own.poll() is not None or checkpoints(tmp_path / "killed") - old)
        process.kill()
        process.communicate()  # its runs may live on for some seconds: the next sweep waits for them
    finish(start(tmp_path / "killed", *options))
    finish(start(tmp_path / "whole", *options))
    killed, whole = without_minutes(tmp_path / "killed"), without_minutes(tmp_path / "whole")
    assert killed == whole and [len(row["runs"]) for row in whole["rows"]] == [2, 2]
    for run in (run["folder"] for row in whole["rows"] for run in row["runs"]):
        assert same_weights(tmp_path / "killed" / run, tmp_path / "whole" / run)
    assert any("Resuming from" in path.read_text() for path in (tmp_path / "killed").glob("*.log"))

"""Sweeps of real runs that are stopped or killed, and a sweep on Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.training.conftest import recipe  # noqa: F401
from tests.training.helpers import same_weights

from .conftest import SCRIPTS

pytestmark = pytest.mark.slow


def start(folder: Path, recipe, *options: str, **keys) -> subprocess.Popen:  # noqa: F811
    """Start a sweep as a separate command, on a CPU."""
    path, *common = recipe.command
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump({"recipe": path, "output_dir": str(folder), "seeds": [1, 2], "jobs": 2, **keys}))
    arguments = [sys.executable, str(SCRIPTS / "sweep.py"), str(file), *common, *options]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent), "ACCELERATE_USE_CPU": "true"}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(arguments, env=environment, start_new_session=True, **output)


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    return output


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_runs_of_a_stopped_sweep_save_their_states_and_end(number, recipe, tmp_path):  # noqa: F811
    process = start(tmp_path / "out", recipe, max_steps=1000000, save_steps=5)
    wait_for(lambda: process.poll() is not None or len({path.parent for path in checkpoints(tmp_path / "out")}) == 2)
    left = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number and len(left) >= 2
    wait_for(lambda: not any(map(is_alive, left)), 60)
    logs = [path.read_text() for path in (tmp_path / "out").glob("*.log")]
    assert len(logs) == 2 and all("the state is saved" in log for log in logs)


def test_sweep_killed_twice_gives_the_same_results_as_an_uninterrupted_one(recipe, tmp_path):  # noqa: F811
    keys = {"max_steps": 80, "save_steps": 5, "eval_steps": 20, "logging_steps": 5, "grid": {"dropout": [0.1, 0.3]}}
    for _ in range(2):
        process = start(tmp_path / "killed", recipe, **keys)
        before = checkpoints(tmp_path / "killed")
        wait_for(lambda old=before, own=process: own.poll() is not None or checkpoints(tmp_path / "killed") - old)
        process.kill()
        process.communicate()  # its runs may live on for some seconds: the next sweep waits for them
    finish(start(tmp_path / "killed", recipe, **keys))
    finish(start(tmp_path / "whole", recipe, **keys))
    killed, whole = without_minutes(tmp_path / "killed"), without_minutes(tmp_path / "whole")
    assert killed == whole and [len(row["runs"]) for row in whole["rows"]] == [2, 2]
    for run in (run["folder"] for row in whole["rows"] for run in row["runs"]):
        assert same_weights(tmp_path / "killed" / run, tmp_path / "whole" / run)
    assert any("Resuming from" in path.read_text() for path in (tmp_path / "killed").glob("*.log"))


def test_ray_trains_the_runs_of_a_sweep(recipe, tmp_path):  # noqa: F811
    pytest.importorskip("ray")
    output = finish(start(tmp_path / "out", recipe, search={"dropout": "0.0..0.3"}, trials=2, address="local"))
    rows = json.loads((tmp_path / "out" / "sweep.json").read_text())["rows"]
    assert [[run["error"] for run in row["runs"]] for row in rows] == [[None, None]] * 3, output

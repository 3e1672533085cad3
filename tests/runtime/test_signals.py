"""Ctrl-C in the first seconds of a command, and errors that occur in several processes of a run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hf_vaswani import cli
from hf_vaswani.runtime import signals

PROJECT = Path(__file__).parents[2]


# Python runs this at startup. It makes the import of torch, the package's first import, take a minute.
SLOW_IMPORT = """
import sys, time
from pathlib import Path

class SlowImport:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            Path({marker!r}).touch()
            time.sleep(60)

sys.meta_path.insert(0, SlowImport())
"""


@pytest.mark.parametrize("program", ["script", "module"])
def test_ctrl_c_during_imports_prints_one_line(program, tmp_path):
    marker = tmp_path / "importing"
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT.format(marker=str(marker)))
    start = [str(PROJECT / "scripts" / "train.py")] if program == "script" else ["-m", "hf_vaswani.cli", "train"]
    process = subprocess.Popen(
        [sys.executable, *start, "recipe.yaml"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(PROJECT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What a shell starts in the background ignores Ctrl-C, and so would its child processes.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not marker.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "Interrupted.\n")
    assert process.returncode == 130


def test_ctrl_c_is_unchanged_in_programs_that_import_the_package(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    signals.end_at_ctrl_c()  # pytest is not a command of the package
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(sys, "argv", ["/usr/bin/hf-vaswani"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "/usr/bin/hf-vaswani"])
    assert signals.is_own_command()
    monkeypatch.setattr(sys, "argv", ["/home/scripts/train.py"])
    assert not signals.is_own_command()
    monkeypatch.setattr(sys, "argv", [str(PROJECT / "scripts" / "train.py")])
    assert signals.is_own_command()


def test_ctrl_c_raises_an_exception_again_once_the_command_runs():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signals._end)
        signals.interrupt_at_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("rank", "lines"), [("0", 1), ("1", 0)])
def test_wrong_path_is_reported_by_only_one_of_several_processes(monkeypatch, capsys, tmp_path, rank, lines):
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setattr(cli, "REPORT_TIME", 0.0)
    assert cli.main(["train", str(tmp_path / "absent.yaml")]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == lines and all("absent.yaml does not exist" in line for line in error)

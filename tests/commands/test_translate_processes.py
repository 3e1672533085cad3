"""`hf-vaswani translate` in several processes of a launcher: still one output and one error."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hf_vaswani.cli import main

PROJECT = Path(__file__).parents[2]
SHORT = ["--max_new_tokens", "3", "--num_beams", "1", "--max_source_length", "12"]


@pytest.fixture
def source(tmp_path) -> Path:
    """1,000 lines, translated in windows of 128, 512, and 360; one line is too long."""
    path, generator = tmp_path / "source", random.Random(0)
    lines = [" ".join(generator.choices([f"w{i}" for i in range(36)], k=generator.randint(0, 9))) for _ in range(1000)]
    lines[700] = "w1 " * 30
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def one_process(saved_model, source, tmp_path) -> bytes:
    """The output of a single process."""
    output = tmp_path / "one"
    assert main(["translate", str(saved_model), "--input", str(source), "--output", str(output), *SHORT]) == 0
    return output.read_bytes()


def start(*arguments, launcher=("--standalone", "--nproc_per_node=2")) -> subprocess.Popen:
    """Start the command with torchrun, in its own process group."""
    command = ["-m", "torch.distributed.run", *launcher, "-m", "hf_vaswani", "translate", *map(str, arguments)]
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str]:
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


@pytest.mark.slow
def test_two_processes_write_the_same_output_as_one(saved_model, source, tmp_path, one_process):
    output = tmp_path / "two"
    status, log = finish(start(saved_model, "--input", source, "--output", output, *SHORT))
    assert status == 0, log
    assert output.read_bytes() == one_process
    assert log.count("warning: ") == 2
    assert log.count("translations may be wrong; the first") == 1
    assert f"{source}, line 701: 31 tokens, more than the limit of 12" in log
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_streams_are_rejected_with_errors_from_one_process(saved_model):
    status, log = finish(start(saved_model, *SHORT))
    assert status != 0
    assert [line for line in log.splitlines() if line.startswith("error: ")] == [
        "error: 2 processes can divide a file among them, but not a stream. Specify a file with --input.",
        "error: 2 processes can divide a file among them, but not a stream. Specify a file with --output.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["first", "last", "launcher"])
def test_killed_processes_resume_to_identical_output(saved_model, source, tmp_path, killed):
    many, uninterrupted, output = tmp_path / "many", tmp_path / "whole", tmp_path / "out"
    many.write_text(source.read_text() * 60)
    process = start(saved_model, "--input", many, "--output", output, *SHORT)
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        time.sleep(0.005)
    children = psutil.Process(process.pid).children()
    victim = {"first": children[0].pid, "last": children[-1].pid, "launcher": process.pid}[killed]
    os.kill(victim, signal.SIGKILL)
    assert finish(process)[0] != 0
    psutil.wait_procs(children, timeout=60)
    done = output.stat().st_size
    status, log = finish(start(saved_model, "--input", many, "--output", output, "--resume", *SHORT))
    assert status == 0, log
    main(["translate", str(saved_model), "--input", str(many), "--output", str(uninterrupted), *SHORT])
    assert 0 < done < uninterrupted.stat().st_size
    assert output.read_bytes() == uninterrupted.read_bytes()


@pytest.mark.slow
def test_two_machines_write_the_same_output_as_one_process(saved_model, source, tmp_path, one_process):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    output = tmp_path / "two"
    machines = [
        start(
            saved_model, "--input", source, "--output", output, *SHORT,
            launcher=("--nnodes=2", f"--node_rank={rank}", "--nproc_per_node=1", "--rdzv_backend=c10d",
                      f"--rdzv_endpoint=127.0.0.1:{port}"),
        )
        for rank in range(2)
    ]  # fmt: skip
    for machine in machines:
        status, log = finish(machine)
        assert status == 0, log
    assert output.read_bytes() == one_process

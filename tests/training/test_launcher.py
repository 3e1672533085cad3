"""What processes learn about their launcher, and how they end when it is killed."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from hf_vaswani.runtime import launcher
from hf_vaswani.runtime.launcher import accelerate_options, requested_processes, threads_of_user

from .helpers import PROJECT, start_training


class Launcher:
    """A fake launcher process, with its command line and the environment that it was started in."""

    def __init__(self, command: str, **environment: str):
        self.command, self.environment = command.split(), environment

    def cmdline(self) -> list[str]:
        return self.command

    def environ(self) -> dict[str, str]:
        return self.environment


@pytest.fixture
def launched_by(monkeypatch):
    """Pretends that this process was started with OMP_NUM_THREADS=`threads`, by a launcher or by the user."""

    def pretend(threads: str | None, by: Launcher | None = None, mark: str | None = "ACCELERATE_DYNAMO_BACKEND"):
        for name in (*launcher.MARKS, "OMP_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)
        if threads is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", threads)
        if mark:
            monkeypatch.setenv(mark, "x")
        monkeypatch.setattr(launcher, "launcher", lambda: by)

    return pretend


def test_default_threads_of_a_launcher_are_not_the_users(launched_by):
    accelerate = "python bin/accelerate launch train.py recipe.yaml"
    launched_by("1", Launcher(accelerate))
    assert threads_of_user() is None
    launched_by("1", Launcher("python bin/torchrun --nproc_per_node 2 train.py"), "TORCHELASTIC_RUN_ID")
    assert threads_of_user() is None
    launched_by("1", None)  # a launcher that cannot be inspected
    assert threads_of_user() is None


def test_threads_set_by_the_user_are_distinguished_from_a_launchers(launched_by):
    launched_by("1", None, mark=None)
    assert threads_of_user() == 1
    launched_by("1", Launcher("python bin/accelerate launch train.py", OMP_NUM_THREADS="1"))
    assert threads_of_user() == 1
    launched_by("1", Launcher("python bin/accelerate launch --num_cpu_threads_per_process 1 train.py"))
    assert threads_of_user() == 1
    launched_by("1", Launcher("python bin/accelerate launch --num-cpu-threads-per-process=1 train.py"))
    assert threads_of_user() == 1
    launched_by("4", None)
    assert threads_of_user() == 4
    launched_by("3,2", None, mark=None)
    assert threads_of_user() == 3
    launched_by("many", None, mark=None)
    assert threads_of_user() is None


@pytest.mark.parametrize("start", ["bin/accelerate launch", "-m accelerate.commands.launch", "bin/accelerate-launch"])
def test_options_of_accelerate_are_read_from_its_command_line(start):
    command = f"python {start} --num_processes 3 --mixed_precision bf16 scripts/train.py recipe.yaml --seed 1".split()
    options = accelerate_options(command)
    assert (options.num_processes, options.mixed_precision) == (3, "bf16")
    assert accelerate_options(["python", "bin/torchrun", "--nproc_per_node", "3", "train.py"]) is None


def test_number_of_processes_is_read_from_options_or_config_of_accelerate(launched_by, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nnum_processes: 2\nnum_machines: 1\n"
        "machine_rank: 0\nuse_cpu: true\nmixed_precision: 'no'\ndebug: false\n"
    )
    launched_by("1", Launcher(f"python bin/accelerate launch --config_file {config} train.py"))
    assert requested_processes() == 2
    launched_by("1", Launcher(f"python bin/accelerate launch --config_file {config} --num_processes 4 train.py"))
    assert requested_processes() == 4
    launched_by("1", None, mark=None)
    assert requested_processes() is None


@pytest.mark.slow
def test_workers_end_when_their_launcher_is_killed_and_release_the_output_folder(recipe, tmp_path):
    from hf_vaswani.training.checkpoints.artifacts import locked_output

    options = ("--max_steps=1000000", "--save_steps=1000000", "--eval_steps=1000000", "--logging_steps=1")
    workers = []
    process = start_training(recipe, f"--output_dir={tmp_path / 'out'}", *options, processes=2)
    try:
        for line in process.stdout:
            if line.startswith("step 3:"):
                break
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60  # for a busy machine; otherwise it takes a few seconds
        while any(map(is_alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not any(map(is_alive, workers))
        with locked_output(tmp_path / "out"):
            pass
    finally:
        for survivor in filter(is_alive, workers):
            survivor.kill()
        process.kill()
        process.communicate()


def test_process_without_a_launcher_ends_with_its_parent():
    # An environment variable gives the parent's id; there is no launcher.
    child = (
        "import time; from hf_vaswani.runtime.launcher import end_with_launcher\n"
        "end_with_launcher(); print(1, flush=True); time.sleep(99)"
    )
    parent = (
        "import os, subprocess, sys\n"
        "os.environ['HF_VASWANI_PARENT'] = str(os.getpid())\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=environment)
    orphan = psutil.Process(int(process.stdout.readline()))
    time.sleep(1.2)  # longer than the interval between checks
    assert is_alive(orphan)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 30
    while is_alive(orphan) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(orphan)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

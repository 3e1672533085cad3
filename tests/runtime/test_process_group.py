"""The group of processes that a launcher started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# As in a command, the model and all that it imports come while the group exists.
SCRIPT = """
import os
from hf_vaswani.runtime.process_group import process_group

def has_thread():
    names = (open(f"/proc/self/task/{thread}/comm").read().strip() for thread in os.listdir("/proc/self/task"))
    return "pt_gloo_runloop" in names

with process_group(cpu=True):
    import hf_vaswani
    hf_vaswani.VaswaniForConditionalGeneration
    during = has_thread()
os.write(1, f"{during} {has_thread()}\\n".encode())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the threads in /proc")
def test_threads_of_the_group_end_with_it(tmp_path):
    script = tmp_path / "group.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    process = subprocess.run(
        [sys.executable, *launcher, script],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["True False"] * 2

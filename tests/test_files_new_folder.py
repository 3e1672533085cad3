"""A new folder appears only once it is complete, and what killed processes left is removed by the next one."""

import os
import subprocess
import sys

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.ledger import new_folder

FILL = """
import sys, time
from pathlib import Path
from hf_vaswani.ledger import new_folder
with new_folder(sys.argv[1]) as folder:
    (folder / "part").write_text("x" * 1000)
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def filling(tmp_path):
    """A process that is filling a new folder `out`, and its hidden folder."""
    with subprocess.Popen(
        [sys.executable, "-c", FILL, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    ) as it:
        yield it, it.stdout.readline().strip()
        it.kill()


def test_next_folder_removes_what_a_killed_process_left_but_not_what_another_one_is_filling(filling, tmp_path):
    process, hidden = filling
    # Left by an earlier version, which did not lock it; folders of the user's own; and one for another output.
    hex_name = "0123456789abcdef" * 2
    for name in (f".out-{hex_name}", f".out-{hex_name}0", ".out-mine", f".other-{hex_name}", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / f".out-{'f' * 32}").symlink_to("mine")
    kept = {f".out-{hex_name}0", ".out-mine", f".other-{hex_name}", "mine", f".out-{'f' * 32}"}
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "out"):
        raise ZeroDivisionError
    assert set(os.listdir(tmp_path)) == kept | {os.path.basename(hidden)} and os.listdir(hidden) == ["part"]
    process.kill()
    process.wait()
    with new_folder(tmp_path / "out") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "out").exists()
    assert set(os.listdir(tmp_path)) == kept | {"out"} and os.listdir(tmp_path / "out") == ["file"]


def test_folder_that_another_process_has_filled_meanwhile_is_left_alone(tmp_path):
    with pytest.raises(InputError, match="not an empty folder"), new_folder(tmp_path / "out"):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "file").write_text("theirs")
    assert os.listdir(tmp_path) == ["out"] and os.listdir(tmp_path / "out") == ["file"]


def test_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"), new_folder(tmp_path):
        pass
    assert os.listdir(tmp_path) == ["file"]

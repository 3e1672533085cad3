"""Only regular files are replaced, not devices or pipes."""

import os

import pytest

from hf_vaswani.files import atomic_write


def test_device_or_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(OSError, match="Not a regular file"), atomic_write(path) as part:
            part.write_text("text")
    assert pipe.is_fifo() and sorted(os.listdir(tmp_path)) == ["link", "pipe"]

"""Only regular files and links are replaced, not devices or pipes, and nothing is written through a link."""

import os

import pytest

from hf_vaswani.files import atomic_write, replace_link


def test_device_or_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link.resolve()):
        with pytest.raises(OSError, match="Not a regular file"), atomic_write(path) as part:
            part.write_text("text")
    assert pipe.is_fifo() and sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_link_is_replaced_and_the_file_that_it_leads_to_is_unchanged(tmp_path):
    (tmp_path / "mine").write_text("mine")
    for name, target in (("link", "mine"), ("dangling", "absent"), ("device", "/dev/null")):
        (tmp_path / name).symlink_to(target)
        with atomic_write(tmp_path / name) as part:
            part.write_text("new")
        assert not (tmp_path / name).is_symlink() and (tmp_path / name).read_text() == "new"
    assert (tmp_path / "mine").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["dangling", "device", "link", "mine"]


def test_name_of_the_hidden_file_cannot_be_foreseen(tmp_path):
    names = set()
    for _ in range(2):
        with atomic_write(tmp_path / "file") as part:
            names.add(part.name)
            part.write_text("text")
    assert len(names) == 2


def test_link_to_a_file_becomes_a_copy_of_it(tmp_path):
    (tmp_path / "mine").write_text("mine")
    for name, target, content in (("link", "mine", "mine"), ("dangling", "absent", ""), ("device", "/dev/null", "")):
        (tmp_path / name).symlink_to(target)
        replace_link(tmp_path / name)
        assert not (tmp_path / name).is_symlink() and (tmp_path / name).read_text() == content
    replace_link(tmp_path / "link")
    replace_link(tmp_path / "absent")
    assert sorted(os.listdir(tmp_path)) == ["dangling", "device", "link", "mine"]

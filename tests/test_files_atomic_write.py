"""Only regular files and links are replaced, not devices or pipes, and nothing is written through a link."""

import errno
import os

import pytest

from hf_vaswani.files import atomic_write, is_own, replace_link


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


def test_content_is_on_the_disk_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace
    kinds = {(tmp_path.stat().st_dev, tmp_path.stat().st_ino): "folder"}

    def synced(descriptor):
        status = os.fstat(descriptor)
        done.append(kinds.get((status.st_dev, status.st_ino), f"file of {status.st_size}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("name") or replace(*paths))
    with atomic_write(tmp_path / "file") as part:
        part.write_text("12345")
    assert done == ["file of 5", "name", "folder"]


def test_content_that_cannot_be_synced_does_not_replace_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(tmp_path / "file") as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "old"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no such owners")
def test_own_file_is_one_that_nobody_else_can_change(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(0o644)
    link.symlink_to(file)
    assert is_own(file) and is_own(tmp_path) and not is_own(link) and not is_own(tmp_path / "absent")
    for mode in (0o664, 0o646):
        file.chmod(mode)
        assert not is_own(file)
    if os.geteuid() == 0:
        file.chmod(0o600)
        os.chown(file, 12345, -1)
        assert not is_own(file)

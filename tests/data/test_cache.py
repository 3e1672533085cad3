import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from hf_vaswani.data.cache import cache_folder, cached, check_folder, read_note, write_note
from hf_vaswani.errors import InputError


def content(folder):
    return (folder / "file").read_text()


def writer(text="content", calls=None):
    def make(folder):
        if calls is not None:
            calls.append(text)
        (folder / "file").write_text(text)

    return make


def test_content_is_built_once_per_key(tmp_path):
    calls = []
    assert cached(tmp_path, ["text", 1], writer("one", calls), content) == "one"
    assert cached(tmp_path, ["text", 1], writer("never", calls), content) == "one"
    assert cached(tmp_path, ["text", 2], writer("two", calls), content) == "two"
    assert calls == ["one", "two"]


def test_damaged_content_is_rebuilt(tmp_path):
    def read_complete(folder):
        text = content(folder)
        if not text.endswith("."):
            raise EOFError
        return text

    for damage in (lambda file: file.write_text("cut sho"), lambda file: file.unlink()):
        assert cached(tmp_path, "key", writer("whole."), read_complete) == "whole."
        [file] = tmp_path.glob("*/file")
        damage(file)
    assert cached(tmp_path, "key", writer("rebuilt."), read_complete) == "rebuilt."


@pytest.mark.parametrize("damage", [lambda old: old[:-1] + b"!", lambda old: old[:-2], lambda old: old + b"."])
def test_modified_file_is_detected_and_rebuilt(tmp_path, caplog, damage):
    calls = []
    cached(tmp_path, "key", writer("content", calls), content)
    [file] = tmp_path.glob("*/file")
    file.write_bytes(damage(file.read_bytes()))
    assert [cached(tmp_path, "key", writer("content", calls), content) for _ in range(2)] == ["content"] * 2
    assert len(calls) == 2
    [message] = caplog.messages
    assert message == f"The prepared text in {file.parent} is damaged or incomplete; making it again."


def test_unreadable_content_is_kept_and_reported(tmp_path):
    cached(tmp_path, "key", writer(), content)
    [file] = tmp_path.glob("*/file")

    def unreadable(folder):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InputError, match=f"{file.parent} cannot be read: Permission denied"):
        cached(tmp_path, "key", writer("never"), unreadable)
    assert cached(tmp_path, "key", writer("never"), content) == "content"


def test_folder_without_checksums_is_rebuilt(tmp_path):
    cached(tmp_path, "key", writer("by an earlier version"), content)
    [file] = tmp_path.glob("*/checksums.json")
    file.unlink()
    assert cached(tmp_path, "key", writer("now"), content) == "now"


def test_interrupted_build_leaves_nothing_behind(tmp_path):
    def interrupted(folder):
        (folder / "file").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "key", interrupted, content)
    assert list(tmp_path.iterdir()) == []
    assert cached(tmp_path, "key", writer(), content) == "content"


def test_concurrent_builds_keep_the_first_to_finish(tmp_path):
    def make(folder):
        cached(tmp_path, "other", writer(), content)
        (folder / "file").write_text("later")
        # Meanwhile, another process finishes.
        finished = tmp_path / folder.name[1:].rsplit("-", 1)[0]
        finished.mkdir()
        (finished / "file").write_text("earlier")

    assert cached(tmp_path, "key", make, content) == "earlier"


def test_unwritable_cache_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written: .* data\.cache_dir"):
        cached(tmp_path / "file", "key", writer(), content)


def test_cache_folder_is_the_given_one_then_the_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path / "environment"))
    assert cache_folder(str(tmp_path / "named")) == tmp_path / "named"
    assert cache_folder() == tmp_path / "environment"
    monkeypatch.delenv("HF_VASWANI_CACHE")
    assert cache_folder().name == "vaswani"


STRANGER = 12345
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


def test_folders_in_each_others_place_are_made_again(tmp_path):
    keys = ["one", "two"]
    for key in keys:
        cached(tmp_path, key, writer(key), content)
    first, second = tmp_path.iterdir()
    for old, new in ((first, tmp_path / "aside"), (second, first), (tmp_path / "aside", second)):
        old.rename(new)
    assert [cached(tmp_path, key, writer(f"{key} again"), content) for key in keys] == ["one again", "two again"]


@pytest.mark.parametrize(
    "share",
    [
        lambda folder: folder.chmod(0o770),
        lambda folder: folder.chmod(0o702),
        lambda folder: (folder / "file").chmod(0o622),
        lambda folder: (folder.rename(folder.with_name("theirs")), folder.symlink_to("theirs")),
        lambda folder: (shutil.rmtree(folder), folder.symlink_to("absent")),
        lambda folder: (shutil.rmtree(folder), folder.write_text("a file")),
        pytest.param(lambda folder: os.chown(folder, STRANGER, -1), marks=needs_root),
        pytest.param(lambda folder: os.chown(folder / "file", STRANGER, -1), marks=needs_root),
    ],
    ids=["group", "others", "file", "link", "dangling link", "a file", "owner", "owner of a file"],
)
def test_what_others_can_have_written_is_made_again(tmp_path, share):
    cached(tmp_path, "key", writer("theirs"), content)
    [folder] = tmp_path.iterdir()
    share(folder)
    calls = []
    assert [cached(tmp_path, "key", writer("mine", calls), content) for _ in range(2)] == ["mine"] * 2
    assert calls == ["mine"] and folder.is_dir() and not folder.is_symlink()


@needs_root
def test_folder_of_others_that_appears_meanwhile_is_not_read(tmp_path):
    def make(part):
        (part / "file").write_text("mine")
        theirs = tmp_path / part.name[1:].rsplit("-", 1)[0]
        theirs.mkdir()
        (theirs / "file").write_text("theirs")
        os.chown(theirs, STRANGER, -1)

    with pytest.raises(InputError, match="cannot be written"):
        cached(tmp_path, "key", make, content)


def test_only_the_user_can_read_and_write_what_is_cached(tmp_path):
    before = os.umask(0o002)
    try:
        cached(tmp_path, "key", writer(), content)
        write_note(tmp_path / "notes" / "note", {"key": 1})
    finally:
        os.umask(before)
    [file] = tmp_path.glob("*/file")
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]
    assert read_note(tmp_path / "notes" / "note") == {"key": 1}


def test_in_a_folder_that_everybody_can_write_to_each_user_has_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_VASWANI_CACHE", str(tmp_path))
    own = tmp_path / f"user-{os.geteuid()}"
    assert cache_folder() == tmp_path
    tmp_path.chmod(0o1777)
    assert cache_folder() == own
    assert cached(cache_folder(), "key", writer(), content) == "content" and len(list(own.iterdir())) == 1
    if os.geteuid() == 0:
        tmp_path.chmod(0o755)
        os.chown(tmp_path, STRANGER, -1)
        assert cache_folder() == own


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b"null", b"{" * 100_000])
def test_damaged_note_is_empty(tmp_path, damage):
    write_note(tmp_path / "note", {"key": 1})
    (tmp_path / "note").write_bytes(damage)
    assert read_note(tmp_path / "note") == {}


@pytest.mark.parametrize(
    "share",
    [lambda note: note.chmod(0o666), pytest.param(lambda note: os.chown(note, STRANGER, -1), marks=needs_root),
     lambda note: (note.rename(note.with_name("theirs")), note.symlink_to("theirs"))],
    ids=["mode", "owner", "link"],
)  # fmt: skip
def test_note_that_others_can_have_written_is_empty(tmp_path, share):
    write_note(tmp_path / "note", {"key": 1})
    share(tmp_path / "note")
    assert read_note(tmp_path / "note") == {}


FILL = """
import sys
from itertools import count
from pathlib import Path
from hf_vaswani.data.cache import cached, write_note

def make(folder):
    for number in range(3):
        (folder / str(number)).write_bytes(bytes(100_000))

print("ready", flush=True)
for number in count():
    cached(Path(sys.argv[1]), number, make, lambda folder: None)
    write_note(Path(sys.argv[1]) / "notes" / "note", {"number": "x" * 5000})
"""


@pytest.mark.slow
def test_process_killed_at_any_moment_leaves_nothing_half_written(tmp_path):
    moments = random.Random()
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", FILL, str(tmp_path)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(moments.uniform(0, 0.3))
            process.kill()
        for folder in tmp_path.glob("[!.n]*"):
            check_folder(folder)
            assert len(list(folder.iterdir())) == 4
        if (tmp_path / "notes" / "note").exists():
            assert len(read_note(tmp_path / "notes" / "note")["number"]) == 5000

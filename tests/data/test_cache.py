import pytest

from hf_vaswani.data.cache import cache_folder, cached
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

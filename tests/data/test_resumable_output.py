import errno
import gzip
import json
import os
from pathlib import Path

import pytest
import zstandard

from hf_vaswani.data.resumable_output import ResumableOutput
from hf_vaswani.data.sources.text_files import iterate_lines
from hf_vaswani.errors import InputError

LINES = [("one", ""), ("two", ""), ("three", "")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


def unpack_zstandard(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


def begun(path, done: int = 2):
    """An output of which `done` lines are written, one per window."""
    output = ResumableOutput(path)
    output.begin({"beams": 4}, iter(LINES))
    for line in LINES[:done]:
        output.write(line[0].encode() + b"\n", [line])
    return output


def test_finished_output_contains_what_was_written_and_leaves_no_other_files(path):
    begun(path, done=3).finish()
    assert path.read_text() == "one\ntwo\nthree\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["out"]


def test_unfinished_output_resumes_after_its_last_window(path):
    begun(path)
    path.write_text(path.read_text() + "thr")
    output = ResumableOutput(path, resume=True)
    lines = iter(LINES)
    output.begin({"beams": 4}, lines)
    assert (output.progress.windows, output.progress.lines) == (2, 2)
    assert list(lines) == LINES[2:]
    output.write(b"three\n", LINES[2:])
    output.finish()
    assert path.read_text() == "one\ntwo\nthree\n"


def test_output_interrupted_before_its_first_window_starts_over(path):
    begun(path, done=0)
    output = ResumableOutput(path, resume=True)
    lines = iter(LINES)
    output.begin({"beams": 4}, lines)
    assert list(lines) == LINES


def test_resume_without_an_output_starts_one(path):
    output = ResumableOutput(path, resume=True)
    output.begin({}, iter(LINES))
    output.finish()
    assert path.read_bytes() == b""


def test_output_with_different_settings_is_left_unchanged_and_they_are_reported(path):
    begun(path)
    with pytest.raises(
        InputError, match="begun with other settings: beams was 4 and is now 5; new was None and is now True"
    ):
        ResumableOutput(path, resume=True).begin({"beams": 5, "new": True}, iter(LINES))
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("one", ""), ("tow", ""), ("three", "")], "input does not begin with the 2 lines that"),
        ([("one", ""), ("two", "prefix")], "input does not begin with the 2 lines that"),
        ([("onet", ""), ("wo", "")], "input does not begin with the 2 lines that"),
        ([("one", "")], "input has 1 line,"),
    ],
)
def test_output_of_different_lines_is_left_unchanged(path, lines, message):
    begun(path)
    with pytest.raises(InputError, match=message):
        ResumableOutput(path, resume=True).begin({"beams": 4}, iter(lines))
    assert path.read_text() == "one\ntwo\n"


def test_existing_output_is_rejected(path):
    path.write_text("precious")
    with pytest.raises(InputError, match="exists. Choose another file, or replace it"):
        ResumableOutput(path)
    with pytest.raises(InputError, match="finished, or was made in another way"):
        ResumableOutput(path, resume=True)
    assert path.read_text() == "precious"


def test_unfinished_output_is_rejected_without_resume_or_overwrite(path):
    begun(path)
    with pytest.raises(InputError, match="is unfinished. Resume it"):
        ResumableOutput(path)
    output = ResumableOutput(path, overwrite=True)
    output.begin({}, iter(LINES))
    output.finish()
    assert path.read_bytes() == b""


def test_truncated_output_is_rejected(path):
    begun(path)
    path.write_text("one")
    with pytest.raises(InputError, match="has 3 bytes, but 8 were written"):
        ResumableOutput(path, resume=True)


def test_damaged_progress_raises_a_clear_error(path):
    output = begun(path)
    output.side_file.write_text("{")
    with pytest.raises(InputError, match="cannot be resumed"):
        ResumableOutput(path, resume=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file on which nothing can be written")
def test_full_disk_is_a_clear_error_with_text_still_in_the_buffer(path):
    output = begun(path, done=1)
    output._file.close()
    output._file = open("/dev/full", "wb")  # noqa: SIM115
    with pytest.raises(InputError, match=f"{path.name} cannot be written: No space left on device. Resume later"):
        output.write(b"two\n", [LINES[1]])


def test_full_disk_raises_a_clear_error_after_which_the_output_can_be_resumed(path, monkeypatch):
    output = begun(path, done=1)

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="No space left on device. Resume later"):
        patch.setattr(os, "fsync", full)
        output.write(b"two\n", [LINES[1]])
    again = ResumableOutput(path, resume=True)
    again.begin({"beams": 4}, iter(LINES))
    again.write(b"two\n", [LINES[1]])
    again.finish()
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
def test_output_that_another_run_is_writing_is_rejected(path, options):
    first = begun(path)
    second = ResumableOutput(path, **options)
    with pytest.raises(InputError, match="Another command is using"):
        second.begin({"beams": 4}, iter(LINES))
    first.write(b"three\n", LINES[2:])
    first.finish()
    assert path.read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("done", [0, 2])
def test_output_that_another_run_wrote_in_the_meantime_is_left_unchanged(path, done):
    if done:
        begun(path, done)
    late = ResumableOutput(path, resume=True)
    other = ResumableOutput(path, resume=True)
    lines = iter(LINES)
    other.begin({"beams": 4}, lines)
    other.write(b"rest\n", list(lines))
    other.finish()
    content = path.read_text()
    with pytest.raises(InputError, match="Another run wrote to"):
        late.begin({"beams": 4}, iter(LINES))
    assert path.read_text() == content != ""


def test_error_for_an_output_that_cannot_be_created_does_not_suggest_resuming(path, monkeypatch):
    output = ResumableOutput(path)

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch, pytest.raises(InputError, match="Permission denied. Choose another file"):
        patch.setattr(os, "open", refuse)
        output.begin({}, iter(LINES))


def test_unknown_compression_is_rejected(path):
    with pytest.raises(
        InputError, match=r"out\.bz2: unsupported compression. Specify a file that ends in \.gz or \.zst"
    ):
        ResumableOutput(path.with_suffix(".bz2"))


@pytest.mark.parametrize(("suffix", "decompress"), [(".gz", gzip.decompress), (".zst", unpack_zstandard)])
@pytest.mark.parametrize("done", [0, 1, 3])
def test_output_is_compressed_as_its_suffix_says_also_if_resumed(path, suffix, decompress, done):
    path = path.with_suffix(suffix)
    begun(path, done).close()
    with path.open("ab") as file:
        file.write(b"a part of a window that was not finished")
    output, lines = ResumableOutput(path, resume=True), iter(LINES)
    output.begin({"beams": 4}, lines)
    for line in lines:
        output.write(line[0].encode() + b"\n", [line])
    output.finish()
    assert decompress(path.read_bytes()) == b"one\ntwo\nthree\n"
    assert list(iterate_lines(path)) == ["one", "two", "three"]


def test_empty_output_is_a_compressed_file_of_nothing(path):
    path = path.with_suffix(".gz")
    begun(path, done=0).finish()
    assert path.stat().st_size > 0 and gzip.decompress(path.read_bytes()) == b""


def replacing(path, **options):
    """A run that has written two of the three lines that are to replace a file."""
    path.write_text("precious\n")
    output = ResumableOutput(path, overwrite=True)
    output.begin({"beams": 4}, iter(LINES))
    for line in LINES[:2]:
        output.write(line[0].encode() + b"\n", [line])
    return output


def test_overwritten_file_stays_until_its_replacement_is_complete(path):
    path.write_text("precious\n")
    path.chmod(0o640)
    output = replacing(path)
    assert path.read_text() == "precious\n"
    output.write(b"three\n", LINES[2:])
    assert path.read_text() == "precious\n"
    output.finish()
    assert path.read_text() == "one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["out"]


def test_interrupted_replacement_resumes_and_keeps_the_old_file_until_then(path):
    replacing(path).close()
    with pytest.raises(InputError, match="is unfinished"):
        ResumableOutput(path)
    output = ResumableOutput(path, resume=True)
    lines = iter(LINES)
    output.begin({"beams": 4}, lines)
    assert list(lines) == LINES[2:] and path.read_text() == "precious\n"
    output.write(b"three\n", LINES[2:])
    output.finish()
    assert path.read_text() == "one\ntwo\nthree\n"


def test_replacement_through_a_symbolic_link_keeps_the_link(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "target"
    path.symlink_to(target)
    output = replacing(path)
    output.write(b"three\n", LINES[2:])
    output.finish()
    assert path.is_symlink() and target.read_text() == "one\ntwo\nthree\n"
    assert [entry.name for entry in target.parent.iterdir()] == ["target"]


def test_leftovers_of_an_interrupted_replacement_are_not_mistaken_for_a_later_run(path):
    replacing(path).close()
    path.unlink()
    begun(path, done=1)
    output = ResumableOutput(path, resume=True)
    lines = iter(LINES)
    output.begin({"beams": 4}, lines)
    assert list(lines) == LINES[1:] and path.read_text() == "one\n"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"settings": 1, "progress": {}}, "settings is 1, not keys with values"),
        ({"settings": {}, "progress": {"windows": "1", "lines": 2}}, 'windows is "1", not a whole number'),
        ({"settings": {}, "progress": {"windows": -1, "lines": 0, "bytes": 0, "digest": ""}}, "a number below 0"),
        ([], "contains \\[\\], not keys with values"),
    ],
)
def test_progress_of_wrong_types_raises_one_error_that_names_its_file(path, record, message):
    output = begun(path)
    output.side_file.write_text(json.dumps(record))
    with pytest.raises(InputError, match=f"out.progress.json.*{message}"):
        ResumableOutput(path, resume=True)
    assert path.read_text() == "one\ntwo\n"

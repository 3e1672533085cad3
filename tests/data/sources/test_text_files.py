import gzip
import tracemalloc

import pytest
import zstandard

from hf_vaswani.data.sources import text_files
from hf_vaswani.data.sources.text_files import iterate_lines
from hf_vaswani.errors import InputError

LINES = ["Hund\u2028Katze", "", "läuft"]
CONTENT = "\ufeffHund\u2028Katze\r\n\nläuft".encode()


def pack(content: bytes, suffix: str) -> bytes:
    return {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix](content)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_are_the_same_plain_and_compressed(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(CONTENT, suffix))
    assert list(iterate_lines(path)) == LINES


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_concatenated_compressed_files_are_read_completely(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"one\ntw", suffix) + pack(b"o\nthree\n", suffix))
    assert list(iterate_lines(path)) == ["one", "two", "three"]


def test_lines_do_not_depend_on_chunk_boundaries(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(CONTENT)
    for size in range(1, len(CONTENT) + 1):
        monkeypatch.setattr(text_files, "CHUNK", size)
        assert list(iterate_lines(path)) == LINES


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_truncated_file_is_an_error_after_its_complete_lines(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    packed = pack("".join(f"line {i * i}\n" for i in range(50_000)).encode(), suffix)
    path.write_bytes(packed[: len(packed) // 2])
    lines = iterate_lines(path)
    assert next(lines) == "line 0"
    with pytest.raises(InputError, match=rf"{path} is truncated"):
        list(lines)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_file_that_does_not_match_its_suffix_is_an_error(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"plain text\n")
    with pytest.raises(InputError, match=rf"{path} cannot be read: .*is its suffix wrong"):
        list(iterate_lines(path))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_file_without_text_is_an_error(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"\n \n", suffix))
    with pytest.raises(InputError, match=rf"{path} has no text"):
        list(iterate_lines(path))


def test_overlong_line_is_an_error_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "binary"
    path.write_bytes(b"first\n" + b"x" * (2 << 20))
    with pytest.raises(InputError, match=rf"{path}, line 2: longer than 1 MiB"):
        list(iterate_lines(path))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_memory_stays_bounded_for_large_files(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    lines = b"".join(b"%032d" % (i * 7919**5) + b" is not repeated\n" for i in range(150_000))
    path.write_bytes(pack(lines, suffix))
    tracemalloc.start()
    count = sum(1 for _ in iterate_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 150_000 and len(lines) > 7_000_000
    assert peak < 2_000_000


def test_any_file_can_be_read_when_problems_are_reported(tmp_path):
    path, reports = tmp_path / "text", []
    path.write_bytes(b"one\nt\xffwo\r\n\n")
    assert list(iterate_lines(path, lambda *report: reports.append(report))) == ["one", "t\ufffdwo", ""]
    assert reports == [(2, "byte 0xff at column 2 is not UTF-8 and read as U+FFFD")]
    path.write_bytes(b"")
    assert list(iterate_lines(path, lambda *report: reports.append(report))) == []


@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast", b"\nlast\n"])
def test_overlong_line_does_not_affect_others_when_problems_are_reported(tmp_path, monkeypatch, end):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 1 << 17)
    path, reports = tmp_path / "text", []
    path.write_bytes(b"first\n" + b"x" * (1 << 19) + end)
    lines = list(iterate_lines(path, lambda *report: reports.append(report)))
    assert lines == ["first", "", *(["last"] if b"last" in end else [])]
    assert [number for number, _ in reports] == [2]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_recognized(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_bytes(("\ufeff" + "ein Hund\n").encode(encoding))
    with pytest.raises(InputError, match="line 1: .*iconv -f UTF-16 -t UTF-8"):
        list(iterate_lines(path))


@pytest.mark.parametrize("suffix", [".xz", ".bz2", ".zip"])
def test_unsupported_compression_is_rejected_by_suffix(tmp_path, suffix):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match="unsupported compression"):
        list(iterate_lines(path))

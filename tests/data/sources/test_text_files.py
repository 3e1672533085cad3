import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile

import pytest
import zstandard

from hf_vaswani.data.sources import text_files
from hf_vaswani.data.sources.text_files import check_lines, iterate_lines
from hf_vaswani.errors import InputError

LINES = ["Hund\u2028Katze", "", "läuft"]
CONTENT = "\ufeffHund\u2028Katze\r\n\nläuft".encode()


def pack(content: bytes, suffix: str) -> bytes:
    return {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[suffix](content)


def archived() -> dict[str, bytes]:
    """The same file as a ZIP and as a tar archive."""
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("text.de", "ein Hund\n")
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("text.de"))
    return {"ZIP": zipped.getvalue(), "tar": tarred.getvalue()}


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
    path.write_bytes(b"one\nt\xffwo\r\n\n\xfe\n\xfe\n")
    lines = list(iterate_lines(path, lambda *report: reports.append(report)))
    assert lines == ["one", "t\ufffdwo", "", "\ufffd", "\ufffd"]
    [(number, message)] = reports
    assert number == 2 and message.startswith(
        "byte 0xff at column 2 is not valid UTF-8 and was read as U+FFFD, as in 2 further lines (to convert"
    )
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


BINARY = b"\xd8\x03\0\0\0\0\0\0{"  # of a safetensors file
OTHER_KINDS = {
    "UTF-16, marked": ("\ufeffein Hund\n".encode("utf-16-le"), "in UTF-16. .* iconv -f UTF-16 -t UTF-8"),
    "UTF-16BE, marked": ("\ufeff漢字\n".encode("utf-16-be"), "in UTF-16. .* iconv -f UTF-16 -t UTF-8"),
    "UTF-16LE": ("ein Hund läuft – schnell\n".encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8"),
    "UTF-16BE": ("ein Hund läuft – schnell\n".encode("utf-16-be"), "iconv -f UTF-16BE -t UTF-8"),
    "UTF-32": ("ein Hund\n".encode("utf-32"), "iconv -f UTF-32 -t UTF-8"),
    "safetensors": (BINARY, "not a text file"),
    "xz": (lzma.compress(b"ein Hund\n"), "xz archive"),
    "bzip2": (bz2.compress(b"ein Hund\n"), "bzip2 archive"),
    "ZIP": (archived()["ZIP"], "ZIP archive"),
    "tar": (archived()["tar"], "tar archive"),
    "tar.gz": (gzip.compress(archived()["tar"]), "tar archive"),
    "compressed binary": (gzip.compress(BINARY), "not a text file"),
    "old Mac": (b"ein Hund\rzwei\r", r"carriage returns.* tr '\\r' '\\n'"),
}


@pytest.mark.parametrize("report", [None, lambda number, problem: None], ids=["strict", "reporting"])
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_of_files_are_refused(tmp_path, kind, report):
    path, (content, message) = tmp_path / "text", OTHER_KINDS[kind]
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}.*{message}"):
        list(iterate_lines(path, report))
    with pytest.raises(InputError, match=message):
        check_lines(path)


@pytest.mark.parametrize("content", ["a\0b\n\0\n", "a\rb\nc", "a\r", "你好\r\n"], ids=ascii)
def test_odd_text_is_not_taken_for_another_kind_of_file(tmp_path, content):
    path = tmp_path / "text"
    path.write_bytes(content.encode())
    assert list(iterate_lines(path)) == [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compression_is_recognized_without_suffix(tmp_path, suffix):
    path = tmp_path / "text.de"
    path.write_bytes(pack(b"ein Hund\n", suffix))
    assert list(iterate_lines(path)) == ["ein Hund"]


@pytest.mark.parametrize("name", ["text.tar", "text.tar.gz", "text.zip", "text.xz"])
def test_text_is_read_whatever_its_suffix(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pack(b"ein Hund\n", ".gz") if name.endswith(".gz") else b"ein Hund\n")
    assert list(iterate_lines(path)) == ["ein Hund"]


def test_a_word_where_tar_has_its_mark_is_text(tmp_path):
    path, line = tmp_path / "text.es", "a" * 255 + " ustar es un verbo"
    path.write_text(line + "\n")
    assert list(iterate_lines(path)) == [line]

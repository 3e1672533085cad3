import pytest

from hf_vaswani.data.sources.text_files import iterate_parallel, read_lines
from hf_vaswani.errors import InputError


def test_lines_are_paired_in_order(write_lines):
    pairs = iterate_parallel(write_lines("de", ["eins", "", "drei"]), write_lines("en", ["one", "two", "three"]))
    assert list(pairs) == [("eins", "one"), ("", "two"), ("drei", "three")]


def test_only_newlines_end_a_line(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("a\u2028b\x85c\x0bd\r\nzweite".encode())
    assert read_lines(path) == ["a\u2028b\x85c\x0bd", "zweite"]


def test_byte_order_mark_is_not_text(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfHund\r\n\xef\xbb\xbfKatze\r\n")  # two files, joined
    assert read_lines(path) == ["Hund", "Katze"]


def test_length_mismatch_error_names_the_unmatched_lines(write_lines):
    source, target = write_lines("de", ["a", "b"]), write_lines("en", ["a", "b", "c", "d"])
    with pytest.raises(InputError, match=rf"2 lines and .* 4: lines 3 to 4 of {target} have no counterpart"):
        list(iterate_parallel(source, target))


def test_invalid_utf8_error_names_file_and_line(tmp_path):
    path = tmp_path / "latin1"
    path.write_bytes("gut\nläuft\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"{path}, line 2: byte 0xe4 at column 2 is not valid UTF-8"):
        read_lines(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", "\n\u200b\n".encode()])
def test_empty_file_is_an_error(tmp_path, content):
    path = tmp_path / "empty"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is empty|has no text"):
        read_lines(path)

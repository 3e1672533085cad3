"""Files on the page: translated in the same way as by `hf-vaswani translate`."""

import gzip

import pytest

from hf_vaswani.app import file_translation
from hf_vaswani.app.file_translation import translate_file
from hf_vaswani.app.models import NO_LANGUAGES
from hf_vaswani.app.translate import make_translator
from hf_vaswani.cli import main
from hf_vaswani.documents.reading import read_document
from hf_vaswani.errors import InputError

LINES = ["w1 w2", "", "w3 w4 w5", "w6"]


def test_file_translation_matches_the_command(loaded, model_folder, tmp_path, write_lines):
    path = write_lines("my text.txt", LINES)
    steps = []
    result = translate_file(loaded, path, tmp_path, progress=lambda *step: steps.append(step))
    assert main(["translate", str(model_folder), "--input", path, "--output", str(tmp_path / "expected.txt")]) == 0
    assert result.path.read_bytes() == (tmp_path / "expected.txt").read_bytes()
    assert result.path.name == "my_text.translated.txt" and result.path.parent.parent == tmp_path
    assert steps[0] == (0, 4) and steps[-1] == (4, 4)
    assert result.summary()[0] == "4 lines translated."


def test_compressed_file_is_read_and_invalid_utf_8_is_reported(loaded, tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"w1\nw2 \xff\n"))
    result = translate_file(loaded, path, tmp_path)
    assert result.path.name == "text.translated.txt" and result.path.read_text().count("\n") == 2
    [report] = [line for line in result.summary()[1:] if "byte" in line]
    assert report.startswith("Line 2: byte 0xff at column 4 is not valid UTF-8 and was read as U+FFFD")


def test_unreadable_file_gives_a_clear_error_without_server_paths(loaded, tmp_path, monkeypatch):
    def error_of(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            translate_file(loaded, path, tmp_path)
        assert str(tmp_path) not in str(error.value)
        return str(error.value)

    assert error_of("empty.txt", b"") == "empty.txt is empty."
    assert error_of("cut.gz", gzip.compress(b"w1 w2\n" * 99)[:-9]).startswith("cut.gz is truncated")
    monkeypatch.setattr(file_translation, "LARGEST_FILE", 2**20)
    assert error_of("large.txt", b"w1\n" * 400_000).startswith("The file is 1.1 MB, but at most 1 MB are allowed.")
    packed = gzip.compress(b"w1\n" * 400_000)
    assert error_of("bomb.gz", packed) == "Decompressed, the file has more than 1 MB. Split it."
    with pytest.raises(InputError, match="No file was chosen."):
        translate_file(loaded, None, tmp_path)


def test_document_comes_back_whole(loaded, tmp_path):
    path = tmp_path / "my page.html"
    path.write_text('<p class="a">w1 <b>w2</b></p>\n<p>w3 w4</p>')
    result = translate_file(loaded, path, tmp_path)
    assert result.path.name == "my_page.translated.html" and result.summary()[0] == "2 texts translated."
    document = read_document("html", path.read_bytes())
    results = make_translator(loaded, NO_LANGUAGES).translate(document.texts)
    translations = [hypotheses[0]["translation_text"] for hypotheses in results]
    assert result.path.read_bytes() == document.fill(translations)


def test_damaged_document_is_named(loaded, tmp_path):
    path = tmp_path / "a.xml"
    path.write_text("<a>")
    with pytest.raises(InputError, match="^Line 1, column 4: no element found. Correct it.$"):
        translate_file(loaded, path, tmp_path)

"""`hf-vaswani translate` of documents: they come back whole, or nothing is written."""

import io
import re
import sys

import pytest

from hf_vaswani.cli import main
from hf_vaswani.documents.reading import read_document
from hf_vaswani.models.load import load
from hf_vaswani.translator.documents import align_texts

PAGE = '<!DOCTYPE html>\n<p class="a">w1 <b>w2</b> w3<br>w1 w2 &amp; w3<!-- w4 --></p>\n<p>w1 <b>w2</b> w3</p>\n'
SHORT = ["--max_new_tokens", "3", "--num_beams", "1"]
TAG = re.compile(r"<[^<>]*>")


@pytest.fixture
def translate(saved_model, capsys):
    """Runs the command in this process, and returns its exit status, standard output, and standard error."""

    def run(*options) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(["translate", str(saved_model), *SHORT, *map(str, options)])
        return status, *capsys.readouterr()

    return run


def test_document_has_the_translations_of_its_texts_and_tags_by_their_alignment(translate, tmp_path, saved_model):
    page, filled, lines = tmp_path / "page.html", tmp_path / "filled.html", tmp_path / "lines"
    page.write_text(PAGE)
    document = read_document("html", PAGE.encode())
    lines.write_text("".join(f"{text}\n" for text in document.texts))
    assert translate("--input", page, "--output", filled)[0] == 0  # the format of both names
    assert translate("--input", lines, "--output", tmp_path / "translated")[0] == 0
    translations = (tmp_path / "translated").read_text().split("\n")[:-1]
    links = align_texts(*load(str(saved_model)), document.texts, translations, document.has_tags)
    assert filled.read_bytes() == document.fill(translations, links) and any(translations)
    assert [one is not None for one in links] == document.has_tags == [True, False, True]
    assert TAG.findall(filled.read_text()) == TAG.findall(PAGE)


def test_standard_input_is_read_as_the_format_says(translate, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": "w1 {b}", "c": 1}')))
    status, out, _ = translate("--format", "json")
    assert status == 0 and re.fullmatch(r'\{"a": ".*\{b\}", "c": 1\}', out)


@pytest.mark.parametrize("output", ["out", "out.txt", "out.docx"])
def test_document_becomes_lines_only_where_the_format_says_so(translate, tmp_path, output):
    (tmp_path / "page.html").write_text("w1\nw2\n")
    files = "--input", tmp_path / "page.html", "--output", tmp_path / output
    status, _, error = translate(*files)
    assert status == 2 and "page.html is a document, not a file of lines. Add --format html, or name" in error
    assert not (tmp_path / output).exists()
    if output != "out.docx":
        assert translate(*files, "--format", "text")[0] == 0
        assert (tmp_path / output).read_text().count("\n") == 2


@pytest.mark.parametrize("name", ["a.pdf", "a.RTF", "a.xls"])
def test_file_that_is_no_text_is_refused(translate, tmp_path, name):
    (tmp_path / name).write_text("w1\n")
    status, _, error = translate("--input", tmp_path / name, "--output", tmp_path / f"b{name[1:]}")
    assert status == 2 and "is neither text nor a document in one of these formats: html" in error


def test_document_without_text_is_copied(translate, tmp_path):
    (tmp_path / "a.json").write_text("[1]")
    assert translate("--input", tmp_path / "a.json", "--output", tmp_path / "b.json")[0] == 0
    assert (tmp_path / "b.json").read_text() == "[1]"


@pytest.mark.parametrize("name, content, options, message", [
    ("a.xml", "<a>\n<b></a>", [], "a.xml cannot be read as xml: Line 2, column 6: mismatched tag. Correct it."),
    ("a.html", "w1", ["--n_best", "1", "--resume"], "--n_best cannot be combined with --format html; leave it out."),
    ("a.docx", "w1", ["--format", "text"], "a.docx is a document, not a file of lines. Add --format docx"),
    ("missing.html", None, [], "missing.html cannot be read: No such file or directory"),
    ("a.html", "w1", ["--output", "folder"], "folder is a folder. Choose another file."),
    ("a.html", "w1", ["--output", "old.html"], "old.html exists. Choose another file, or replace it (--overwrite)."),
    ("a.html", "w1", ["--output", "a.html", "--overwrite"], "a.html is the input. Choose another"),
])  # fmt: skip
def test_wrong_document_or_option_is_refused_and_nothing_is_written(
    translate, tmp_path, monkeypatch, name, content, options, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.html").write_text("old")
    if content is not None:
        (tmp_path / name).write_text(content)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*") if "saved" not in str(path)}
    suffix = name.rpartition(".")[2]
    if "--output" not in options:
        options = [*options, "--output", f"out.{suffix}"]
    kind = [] if "--format" in options else ["--format", suffix]
    status, out, error = translate("--input", name, *kind, *options)
    assert (status, out) == (2, "") and message in error
    after = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*") if "saved" not in str(path)}
    assert after == before


def test_text_that_cannot_be_translated_stays_with_a_warning(translate, tmp_path):
    long = " ".join(["w1"] * 2000)
    (tmp_path / "a.html").write_text(f"<p>w2</p><p>{long}</p>")
    options = ("--input", tmp_path / "a.html", "--output", tmp_path / "b.html", "--no-split_sentences",
               "--max_source_length", 50)  # fmt: skip
    status, _, error = translate(*options)
    assert status == 0 and f"a.html, text 2: '{long[:60]}'…: 2,001 tokens, more than the limit of 50" in error
    assert f"<p>{long}</p>" in (tmp_path / "b.html").read_text()

"""`hf-vaswani beam-tree`: what is written, printed and rejected."""

from xml.dom import minidom

import pytest
from transformers import AutoTokenizer

from hf_vaswani.cli import main
from hf_vaswani.evaluation.beam_tree import beam_tree
from hf_vaswani.evaluation.beam_tree_figure import beam_tree_page

from ..conftest import tiny_model

TEXT = "w1 w2 w3"


def command(*arguments) -> int:
    return main(["beam-tree", *map(str, arguments)])


@pytest.fixture
def errors(capsys):
    """Runs a command that must fail, and returns its error lines."""

    def run(*arguments) -> list[str]:
        capsys.readouterr()
        assert command(*arguments) == 2
        output = capsys.readouterr()
        assert output.out == ""
        return [line.removeprefix("error: ") for line in output.err.splitlines() if line.startswith("error: ")]

    return run


def test_figure_is_written_and_finished_hypotheses_are_printed(saved_model, tmp_path, capsys):
    figure = tmp_path / "tree.svg"
    assert command(saved_model, "--text", TEXT, "--output", figure, "--num_beams", 3) == 0
    tree = beam_tree(tiny_model(), AutoTokenizer.from_pretrained(saved_model), TEXT, num_beams=3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"source       {TEXT}", f"translation  {tree.translation}"]
    assert len(lines) == 3 + len(tree.ranking) and lines[-1] == str(figure)
    for line, candidate in zip(lines[2:], tree.ranking):
        rank, score, *tokens = line.split()
        assert (rank, tokens) == (str(candidate.rank), [part.token for part in tree.path(candidate)])
        assert float(score.replace("−", "-")) == pytest.approx(candidate.penalized_score, abs=1e-4)
    assert len(minidom.parse(str(figure)).getElementsByTagName("title")) == len(tree.candidates)


def test_html_page_is_written(saved_model, tmp_path):
    page = tmp_path / "tree.HTML"
    assert command(saved_model, "--text", TEXT, "--output", page, "--num_beams", 2) == 0
    tree = beam_tree(tiny_model(), AutoTokenizer.from_pretrained(saved_model), TEXT, num_beams=2)
    assert page.read_text(encoding="utf-8") == beam_tree_page(tree)


def test_all_errors_are_reported_before_the_model_is_loaded(tmp_path, errors):
    assert errors(tmp_path / "no model", "--text", " ", "--output", tmp_path / "no folder" / "tree.png") == [
        "The text is empty. Enter a sentence to translate.",
        f"{tmp_path}/no folder/tree.png is not the name of a figure: it must end with one of .svg, .html.",
        f"{tmp_path}/no folder/tree.png cannot be written: its folder does not exist. Create it first.",
    ]


def test_existing_file_is_replaced_only_with_overwrite(saved_model, tmp_path, errors):
    path = tmp_path / "tree.svg"
    path.write_text("old")
    options = [saved_model, "--text", TEXT, "--output", path]
    assert errors(*options) == [f"{path} already exists. Choose another, or replace it with --overwrite."]
    assert path.read_text() == "old"
    assert command(*options, "--overwrite") == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")


def test_unsupported_language_is_rejected(tmp_path, tokenizer, errors):
    tiny_model(source_language="de", target_language="en").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    options = ["--text", TEXT, "--output", tmp_path / "tree.svg", "--target_language", "fr"]
    [error] = errors(tmp_path / "model", *options)
    assert "fr" in error and not (tmp_path / "tree.svg").exists()

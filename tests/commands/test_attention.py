"""`hf-vaswani attention`: which figures are written, and what is printed and rejected."""

import pytest
from transformers import AutoTokenizer

from hf_vaswani.cli import main
from hf_vaswani.evaluation.attention import sentence_attention

from ..conftest import tiny_model

TEXT = "w1 w2 w3"


def attention(*arguments) -> int:
    return main(["attention", *map(str, arguments)])


@pytest.fixture
def errors(capsys):
    """Runs a command that must fail, and returns its error lines."""

    def run(*arguments) -> list[str]:
        capsys.readouterr()
        assert attention(*arguments) == 2
        output = capsys.readouterr()
        assert output.out == ""
        return [line.removeprefix("error: ") for line in output.err.splitlines() if line.startswith("error: ")]

    return run


@pytest.mark.parametrize("command, name", [("attention", "figure.png"), ("beam-tree", "figure.svg")])
def test_text_that_is_the_name_of_a_file_is_noted(saved_model, tmp_path, monkeypatch, capsys, command, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.de").write_text("w1\n")
    assert main([command, str(saved_model), "--text", "text.de", "--output", name]) == 0
    assert "note: --text is a sentence, and 'text.de' is also the name of a file\n" in capsys.readouterr().err


def test_translation_alignment_and_figure_path_are_printed(saved_model, tmp_path, capsys):
    figure = tmp_path / "cross.png"
    assert attention(saved_model, "--text", TEXT, "--output", figure, "--num_beams", 2) == 0
    expected = sentence_attention(tiny_model(), AutoTokenizer.from_pretrained(saved_model), TEXT, num_beams=2)
    assert capsys.readouterr().out.splitlines() == [
        f"source         {TEXT}",
        f"translation    {expected.translation}",
        "source tokens  w1 w2 w3",
        f"target tokens  {' '.join(expected.target_words)}",
        f"alignment      {' '.join(f'{i}-{j}' for i, j in expected.alignment)}",
        str(figure),
    ]
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_given_target_is_aligned_instead_of_a_translation(saved_model, tmp_path, capsys):
    assert attention(saved_model, "--text", TEXT, "--target", "w9 w8", "--output", tmp_path / "a.svg") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "target         w9 w8" and lines[3] == "target tokens  w9 w8"
    assert [pair.split("-")[1] for pair in lines[4].split()[1:]] == ["0", "1"]
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_each_kind_gets_a_figure_in_a_folder(saved_model, tmp_path):
    folder = tmp_path / "pictures" / "of attention"
    options = ["--text", TEXT, "--kind", "all", "--layer", "all", "--head", "all", "--output", folder]
    assert attention(saved_model, *options) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["cross.png", "decoder.png", "encoder.png"]


def test_single_figure_can_be_written_to_a_folder(saved_model, tmp_path):
    assert attention(saved_model, "--text", TEXT, "--kind", "decoder", "--layer", -1, "--output", tmp_path) == 0
    assert (tmp_path / "decoder.png").exists() and not (tmp_path / "cross.png").exists()


@pytest.mark.slow
def test_figures_are_replaced_only_with_overwrite(saved_model, tmp_path, errors):
    for name in ("cross", "encoder"):
        (tmp_path / f"{name}.png").write_bytes(b"mine")
    options = [saved_model, "--text", TEXT, "--kind", "all", "--output", tmp_path]
    assert errors(*options) == [
        f"{tmp_path / name}.png already exists. Choose another, or replace it with --overwrite."
        for name in ("encoder", "cross")
    ]
    assert (tmp_path / "cross.png").read_bytes() == b"mine" and not (tmp_path / "decoder.png").exists()
    assert attention(*options, "--overwrite") == 0
    assert (tmp_path / "cross.png").read_bytes().startswith(b"\x89PNG")


def test_all_text_and_output_errors_are_reported_before_the_model_is_loaded(tmp_path, errors):
    output = tmp_path / "absent" / "picture.jpg"
    assert errors("no model", "--text", " ", "--target", "", "--output", output) == [
        "The text is empty. Enter a sentence to translate.",
        "The target is empty. Enter a translation, or leave it out for the model's own.",
        f"{output} is not the name of a figure: it must end with one of .png, .svg, .pdf.",
        f"{output} cannot be written: its folder does not exist. Create it first.",
    ]


def test_output_that_does_not_match_the_kinds_is_rejected(tmp_path, errors):
    figure, file = tmp_path / "picture.png", tmp_path / "file"
    file.write_text("")
    assert errors("no model", "--text", TEXT, "--kind", "all", "--output", figure) == [
        f"{figure} is a single file, and --kind all draws 3 figures. Specify a folder."
    ]
    for folder in (file, file / "below"):
        assert errors("no model", "--text", TEXT, "--output", folder) == [
            f"{folder} is not a folder and cannot be created. Choose another."
        ]


def test_nonexistent_layers_and_heads_are_rejected_for_each_kind(saved_model, tmp_path, errors):
    options = ["--text", TEXT, "--kind", "all", "--layer", 2, "--head", 3, "--output", tmp_path / "new"]
    assert errors(saved_model, *options) == [
        "There is no layer 2 of encoder self-attention: layers go from 0 to 1, or from -1, the last, to -2.",
        "There is no head 3 of encoder self-attention: heads go from 0 to 1, or from -1, the last, to -2.",
        "There is no layer 2 of decoder self-attention: layers go from 0 to 1, or from -1, the last, to -2.",
        "There is no layer 2 of cross-attention: layers go from 0 to 1, or from -1, the last, to -2.",
    ]
    assert not (tmp_path / "new").exists()


def test_non_numeric_layer_is_rejected(capsys):
    with pytest.raises(SystemExit) as exit_info:
        attention("no model", "--text", TEXT, "--layer", "first", "--output", "a.png")
    assert exit_info.value.code == 2
    assert "argument --layer: must be a whole number, mean or all, got 'first'" in capsys.readouterr().err

"""Warnings of `translate`, `evaluate` and `score` about text that the model was not made for."""

import pytest

from hf_vaswani.cli import main

from ..conftest import tiny_model

FRENCH = "le chien est dans la ville et je ne vois pas les enfants"


@pytest.fixture
def warnings(tmp_path, tokenizer, write_lines, capsys):
    """Runs a command on sources and targets, and returns its warnings."""
    tiny_model(source_language="de", target_language="en").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    def run(command: str, sources: list[str], targets: list[str]) -> str:
        files = {"source": write_lines("source", sources), "target": write_lines("target", targets)}
        options = {
            "translate": ["--input", files["source"], "--max_new_tokens", "3"],
            "score": ["--source", files["source"], "--target", files["target"]],
            "evaluate": ["--source", files["source"], "--reference", files["target"], "--metrics", "chrf"],
        }[command]
        assert main([command, str(tmp_path / "model"), *options]) == 0
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("command", ["translate", "evaluate", "score"])
def test_sources_in_another_language_or_encoding_give_one_warning_each(warnings, command):
    shown = warnings(command, [f"{FRENCH} Ã¼"] * 20 + ["w1"], ["w1"] * 21)
    assert "source looks like fr, not like de. Is it the right file?" in shown
    assert shown.count("look like UTF-8 that was read as Latin-1") == 1 and "20 of 21 lines of" in shown
    assert shown.count("have characters or words that the model's vocabulary lacks. It cannot translate") == 1


@pytest.mark.parametrize("command", ["translate", "evaluate", "score"])
def test_known_sources_give_no_warning(warnings, command):
    assert "vocabulary lacks" not in (shown := warnings(command, ["w1 w2"] * 20, ["w3"] * 20))
    assert "looks like" not in shown and "Latin-1" not in shown


def test_score_warns_of_targets_in_another_language_and_of_one_file_on_both_sides(warnings, tmp_path, capsys):
    assert "target looks like fr, not like en. Is it the right file?" in warnings("score", ["w1"] * 20, [FRENCH] * 20)
    same = str(tmp_path / "source")
    assert main(["score", str(tmp_path / "model"), "--source", same, "--target", same]) == 0
    assert f"{same} is given as source and as target, so the scores are meaningless" in capsys.readouterr().err

import json
import math
import os
import sys

import pytest

from hf_vaswani.cli import main
from hf_vaswani.translator.pairs import score_pairs

from ..conftest import tiny_model


@pytest.fixture
def files(write_lines):
    return [
        "--source",
        write_lines("source", ["w1 w2", "", "w3"]),
        "--target",
        write_lines("target", ["w4", "w5", ""]),
    ]


def expected(tokenizer):
    pairs = [("w1 w2", "w4"), ("", "w5"), ("w3", "")]
    return list(score_pairs(tiny_model(), tokenizer, pairs, with_tokens=True))


def test_each_pair_gets_a_line_with_its_scores(saved_model, tokenizer, files, capsys):
    assert main(["score", str(saved_model), *files]) == 0
    out, err = capsys.readouterr()
    rows = [line.split("\t") for line in out.splitlines()]
    scores = expected(tokenizer)
    assert [int(row[1]) for row in rows] == [score.length for score in scores] == [2, 2, 1]
    assert [float(row[0]) for row in rows] == pytest.approx([score.log_probability for score in scores], abs=1e-5)
    assert [float(row[2]) for row in rows] == pytest.approx([score.score for score in scores], abs=1e-5)
    perplexity = math.exp(-sum(score.log_probability for score in scores) / 5)
    assert f"3 pairs scored; perplexity {perplexity:.4g} per target token" in err


def test_json_has_tokens_on_request(saved_model, tokenizer, files, capsys):
    assert main(["score", str(saved_model), *files, "--format", "json", "--tokens"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for record, score in zip(records, expected(tokenizer), strict=True):
        assert record["tokens"] == [[token, pytest.approx(value, abs=1e-5)] for token, value in score.tokens]
        assert record["log_probability"] == pytest.approx(score.log_probability, abs=1e-5)


def test_unscorable_pair_does_not_affect_the_others(saved_model, write_lines, capsys, tmp_path):
    source, target = write_lines("source", ["w1", "w2 " * 9, "w3"]), tmp_path / "target"
    target.write_bytes(b"w1\nw2\nw\xff\n")
    options = ["--source", source, "--target", str(target), "--max_length", "5"]
    assert main(["score", str(saved_model), *options, "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) is None for line in out.splitlines()] == [False, True, False]
    assert f"warning: {source}, line 2: 10 tokens on one side, more than the limit of 5." in err
    assert f"warning: {target}, line 3: byte 0xff at column 2 is not valid UTF-8 and was read as U+FFFD" in err


def test_all_errors_are_reported_before_the_model_is_loaded(write_lines, capsys):
    options = ["--source", "absent", "--target", "gone", "--tokens"]
    assert main(["score", "no-model", *options]) == 2
    error = capsys.readouterr().err
    assert "absent does not exist" in error and "gone does not exist" in error and "--tokens needs" in error
    assert "no-model" not in error


def test_files_of_different_length_exit_with_status_2(saved_model, write_lines, capsys):
    options = ["--source", write_lines("s", ["w1", "w2"]), "--target", write_lines("t", ["w1"])]
    assert main(["score", str(saved_model), *options]) == 2
    assert ": line 2 of" in capsys.readouterr().err


def test_standard_output_that_is_an_input_file_is_rejected(saved_model, files, capsys, monkeypatch):
    with open(files[1], "a") as source:
        monkeypatch.setattr(sys, "stdout", source)
        assert main(["score", str(saved_model), *files]) == 2
    assert f"Standard output is {files[1]}. Redirect it to another file." in capsys.readouterr().err
    assert os.path.getsize(files[1]) == len("w1 w2\n\nw3\n")

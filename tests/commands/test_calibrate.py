import json
import random

import pytest

from hf_vaswani.cli import main


@pytest.fixture
def pairs(write_lines):
    generator = random.Random(3)
    lines = [" ".join(f"w{generator.randint(1, 9)}" for _ in range(generator.randint(1, 6))) for _ in range(60)]
    return ["--source", write_lines("source", lines), "--reference", write_lines("reference", lines[::-1])]


def test_calibrated_model_tells_its_confidence(saved_model, pairs, write_lines, capsys):
    before = json.loads((saved_model / "config.json").read_text())
    assert main(["calibrate", str(saved_model), *pairs, "--samples", "2"]) == 0
    assert "Calibrated with 60 translations. Correlation with sentence chrF:" in capsys.readouterr().out
    after = json.loads((saved_model / "config.json").read_text())
    weights = after.pop("confidence")
    assert sorted(weights) == ["intercept", "length_ratio", "samples", "similarity", "token_probability"]
    assert weights["samples"] == 2
    assert after == {name: value for name, value in before.items() if name != "confidence"}

    lines = write_lines("lines", ["w1 w2", ""])
    assert main(["translate", str(saved_model), "--input", lines, "--format", "jsonl", "--confidence"]) == 0
    records = [json.loads(line)["translations"][0] for line in capsys.readouterr().out.splitlines()]
    assert all(0 <= record["confidence"] <= 1 for record in records)


def test_source_may_be_its_own_reference(saved_model, pairs):
    assert main(["calibrate", str(saved_model), *pairs[:2], "--reference", pairs[1], "--samples", "0"]) == 0


def test_wrong_calls_change_nothing(saved_model, pairs, write_lines, capsys):
    before = (saved_model / "config.json").read_bytes()
    few = ["--source", write_lines("few", ["w1"]), "--reference", write_lines("few2", ["w1"])]
    assert main(["calibrate", str(saved_model), *few]) == 2
    assert "1 pair cannot calibrate a model. Give 50 or more." in capsys.readouterr().err
    assert main(["calibrate", str(saved_model), *pairs[:2], *few[2:]]) == 2
    assert main(["calibrate", "no/such-model", *pairs]) == 2
    assert (saved_model / "config.json").read_bytes() == before


def test_confidence_needs_json_and_a_single_model(saved_model, write_lines, capsys):
    lines = write_lines("lines", ["w1"])
    assert main(["translate", str(saved_model), "--input", lines, "--confidence"]) == 2
    assert "--confidence: text has only one translation per line" in capsys.readouterr().err
    assert main(["translate", str(saved_model), "--input", lines, "--confidence", "--mbr", "chrf"]) == 2

"""The report of a run: its types, how it is saved, and reports of other versions."""

import json

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.records.run_report import parse_report, read_report

from ..hub.test_model_card import RESULTS


def test_report_is_saved_as_it_was_read(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(RESULTS))
    report = read_report(tmp_path)
    stored = json.loads(report.to_json())
    scores = {f"test_{name}": value for name, value in RESULTS["tests"]["test"].items() if name != "sentences"}
    # The scores of the main test set are repeated at the top level.
    assert stored == {**RESULTS, **scores}
    assert report.folder == tmp_path and report.steps == 1234


def test_keys_of_a_later_version_are_kept():
    report = parse_report({**RESULTS, "later": [1]})
    assert json.loads(report.to_json())["later"] == [1]


def test_all_missing_or_mistyped_values_are_reported_in_one_error():
    values = {key: value for key, value in RESULTS.items() if key != "flops"}
    values |= {"steps": "many", "seen": [], "tests": {"test": {"bleu": "good"}}, "averaged": [1, None]}
    with pytest.raises(InputError) as error:
        parse_report(values)
    assert set(str(error.value).split("; ")) == {
        "steps: Input should be a valid integer",
        "seen: Input should be a valid dictionary or instance of Seen",
        "tests.test.bleu: Input should be a valid number",
        "averaged.1: Input should be a valid integer",
        "flops: Field required",
    }


def test_boolean_is_not_a_number_but_an_integer_is():
    assert parse_report({**RESULTS, "minutes": 5}).minutes == 5.0
    with pytest.raises(InputError, match="minutes: Input should be a valid number"):
        parse_report({**RESULTS, "minutes": True})


def test_lone_surrogate_in_a_text_is_replaced():
    analysis = {**RESULTS["analysis"], "example": {"source": "a\ud800", "translation": "b"}}
    assert parse_report({**RESULTS, "analysis": analysis}).analysis.example.source == "a?"

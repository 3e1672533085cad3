"""Scores in the format of the Hub's leaderboards."""

import yaml
from huggingface_hub import parse_eval_result_entries

from hf_vaswani.hub.metadata import eval_results
from hf_vaswani.records.run_report import parse_report

from .test_model_card import BLEU, RESULTS, recipe_dict

COMMIT = "5503434ddd753f426f4b38109466949a1217c2bb"
ON_HUB = {"dataset": "somebody/parallel", "on_hub": True, "config": "de-en", "split": "test", "revision": COMMIT}


def entries_of(recipe=None, **sources):
    tests = {name: RESULTS["tests"]["test"] for name in {"test", *sources} - {"train"}}
    changes = {"tests": tests, "sources": {**RESULTS["sources"], **sources}, "languages": ["de", "en"]}
    text = eval_results(recipe or recipe_dict(), parse_report({**RESULTS, **changes}))
    return parse_eval_result_entries(yaml.safe_load(text) or []) if text else []


def test_score_on_a_hub_dataset_is_an_entry():
    [entry] = entries_of(test=[ON_HUB])
    assert (entry.dataset_id, entry.task_id, entry.value) == ("somebody/parallel", "de-en", 34.57)
    assert entry.dataset_revision == COMMIT
    assert entry.notes == f"BLEU ({BLEU}), chrF2 55.55, de to en, split test, beam 4"


def test_branch_is_no_revision_and_a_dataset_without_config_has_the_default_task():
    [entry] = entries_of(test=[{**ON_HUB, "config": None, "revision": "main"}])
    assert entry.task_id == "default" and entry.dataset_revision is None


def test_other_test_sets_have_no_entry():
    assert entries_of(test=RESULTS["sources"]["test"]) == []
    assert entries_of(test=[{**ON_HUB, "on_hub": False}]) == []
    assert entries_of(test=[{**ON_HUB, "split": "test[:10]"}]) == []
    assert entries_of(test=[ON_HUB, ON_HUB]) == []  # two sources
    assert entries_of(recipe_dict(test_share=0.1), train=[ON_HUB]) == []


def test_each_task_of_a_dataset_has_one_score():
    entries = entries_of(test=[ON_HUB], later=[{**ON_HUB, "split": "later"}], other=[{**ON_HUB, "config": "fr-en"}])
    assert sorted(entry.task_id for entry in entries) == ["de-en", "fr-en"]

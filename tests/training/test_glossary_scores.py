"""Runs that also score the test sets as translated with a glossary (`evaluation.glossary`)."""

import json

import pytest
import sacrebleu

from hf_vaswani.errors import InputError
from hf_vaswani.training.reporting.report import summary
from hf_vaswani.training.train import train

FEW = ("--max_steps=4", "--eval_sentences=4")


def test_test_sets_are_also_scored_with_the_terms_of_a_glossary(recipe, write_lines, tmp_path):
    glossary = write_lines("terms.tsv", ["a\tb"])
    results = train(recipe(*FEW, f"--evaluation.glossary={glossary}"))
    folder = results.folder
    sources, references = ((tmp_path / f"test.{side}").read_text().splitlines() for side in "xy")
    wanted = [line.split().count("a") for line in sources]
    translations = {
        name: (folder / f"test_translations{name}.txt").read_text().splitlines() for name in ("", "_glossary")
    }
    found = {
        name: sum(min(count, line.split().count("b")) for count, line in zip(wanted, lines))
        for name, lines in translations.items()
    }
    assert found["_glossary"] == sum(wanted) > found[""]
    scores = json.loads((folder / "results.json").read_text())["tests"]["test"]
    assert scores["terms"] == {"in_sources": sum(wanted), "found": found[""], "found_with_glossary": sum(wanted)}
    bleu = sacrebleu.corpus_bleu(translations["_glossary"], [references]).score
    assert scores["glossary_bleu"] == pytest.approx(bleu)
    counts = f"{found['']} of {sum(wanted)} without"
    assert f"test terms of the glossary: {counts} it, {sum(wanted)} with it" in summary(results)
    card = (folder / "README.md").read_text()
    assert f"| beam 2, terms of terms.tsv | {bleu:.2f} |" in card
    assert f"{counts} the glossary, {sum(wanted)} with it." in card
    assert str(tmp_path) not in card


def test_glossary_that_cannot_be_read_is_an_error_before_training(recipe, write_lines, tmp_path):
    path = write_lines("terms.tsv", ["a\tb", "c"])
    with pytest.raises(InputError, match="^evaluation.glossary: .*line 2: there is no target term"):
        train(recipe(f"--evaluation.glossary={path}"))
    assert not (tmp_path / "out").exists()


def test_terms_that_cannot_be_spelled_are_put_into_translations(recipe, write_lines):
    glossary = write_lines("terms.tsv", ["a\t\u2603"])
    folder = train(recipe(*FEW, f"--evaluation.glossary={glossary}")).folder
    terms = json.loads((folder / "results.json").read_text())["tests"]["test"]["terms"]
    assert terms["found_with_glossary"] == terms["in_sources"] > terms["found"]

"""Runs that also score the test sets with reranking (`evaluation.rerank_with`): scores, records, and errors."""

import json
import shutil

import pytest
import sacrebleu
import torch
from transformers import pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.models.load import load
from hf_vaswani.training.replay.verification import verify
from hf_vaswani.training.reporting.report import summary
from hf_vaswani.training.train import train

from ..families import family

FEW = ("--max_steps=4", "--eval_sentences=4")


@pytest.fixture
def other(recipe):
    """The folder of a run in the other direction."""
    return train(recipe(*FEW, "--data.reversed=true", output="other")).folder


def reranked(folder, other, sources: list[str], num_beams: int, **search) -> list[str]:
    """The best translations of a beam by the sum of both scores, the source's with a weight of 0.2."""
    search = {"num_beams": num_beams, "n_best": num_beams, "early_stopping": False, **search}
    results = pipeline("translation", model=str(folder))(sources, **search)
    model, tokenizer = load(str(other))

    def total(source: str, hypothesis: dict) -> float:
        batch = tokenizer(hypothesis["translation_text"], text_target=source, return_tensors="pt")
        if not batch["input_ids"].numel():
            return float("-inf")
        with torch.no_grad():
            log_probabilities = model(**batch).logits[0].double().log_softmax(-1)
        return hypothesis["score"] + 0.2 * log_probabilities.gather(1, batch["labels"][0].unsqueeze(1)).mean().item()

    return [
        max(result, key=lambda hypothesis, source=source: total(source, hypothesis))["translation_text"]
        for source, result in zip(sources, results)
    ]


@pytest.mark.slow
def test_test_sets_are_also_scored_by_a_model_of_the_other_direction(recipe, other, tmp_path):
    results = train(recipe(*FEW, f"--rerank_with={other}", "--rerank_beams=4"))
    folder = results.folder
    texts, references = ((tmp_path / f"test.{side}").read_text().splitlines() for side in "xy")
    expected = reranked(folder, other, texts, 4)
    assert (folder / "test_translations_reranked.txt").read_text().splitlines() == expected
    scores = json.loads((folder / "results.json").read_text())["tests"]["test"]
    assert scores["reranked_bleu"] == pytest.approx(sacrebleu.corpus_bleu(expected, [references]).score)
    assert scores["reranked_chrf2"] == pytest.approx(sacrebleu.corpus_chrf(expected, [references]).score)
    bleu, chrf = scores["reranked_bleu"], scores["reranked_chrf2"]
    assert f"test with reranking: BLEU {bleu:.2f}, chrF2 {chrf:.2f}\n" in summary(results)
    card = (folder / "README.md").read_text()
    assert f"| beam 4, reranked by other | {bleu:.2f} | {chrf:.2f} |" in card
    assert str(tmp_path) not in card


@pytest.mark.slow
def test_reranking_can_have_a_length_penalty_of_its_own(recipe, other, tmp_path):
    options = (f"--rerank_with={other}", "--rerank_beams=4", "--rerank_length_penalty=4", "--max_steps=60")
    folder = train(recipe(*FEW, *options)).folder
    texts = (tmp_path / "test.x").read_text().splitlines()
    translations = (folder / "test_translations_reranked.txt").read_text().splitlines()
    assert translations == reranked(folder, other, texts, 4, length_penalty=4.0) != reranked(folder, other, texts, 4)


def test_finished_run_can_be_scored_with_and_without_reranking(recipe, other):
    folder = train(recipe(*FEW)).folder
    weights = (folder / "model.safetensors").read_bytes()
    for options, is_scored in (((f"--rerank_with={other}",), True), ((), False)):
        train(recipe(*FEW, *options))
        assert (folder / "test_translations_reranked.txt").exists() == is_scored
        assert ("reranked_bleu" in (folder / "results.json").read_text()) == is_scored
        assert (folder / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_replay_does_not_need_the_model_that_reranked(recipe, other):
    folder = train(recipe(*FEW, f"--rerank_with={other}", "--rerank_beams=2")).folder
    shutil.rmtree(other)
    assert verify(str(folder)).verdict == "identical bit for bit"


@pytest.mark.slow
def test_model_that_cannot_rerank_is_an_error_before_training(recipe, tmp_path):
    languages = ("--source_language=de", "--target_language=en")
    same = train(recipe(*FEW, *languages, output="same")).folder
    for given, expected in (
        (same, "evaluation.rerank_with: .*same translates de to en. Reranking needs .* the other direction: en to de"),
        (tmp_path / "absent", "evaluation.rerank_with: .*absent"),
    ):
        with pytest.raises(InputError, match=expected):
            train(recipe(*FEW, *languages, f"--rerank_with={given}"))
    model, tokenizer = family("M2M100", tmp_path)
    model.save_pretrained(tmp_path / "many")
    tokenizer.save_pretrained(tmp_path / "many")
    with pytest.raises(InputError, match="many is multilingual, and a recipe has no key for its languages"):
        train(recipe(*FEW, f"--rerank_with={tmp_path / 'many'}"))
    assert not (tmp_path / "out").exists()

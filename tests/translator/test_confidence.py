"""Translations with their confidence."""

import math

import pytest
import torch
from transformers import pipeline

from hf_vaswani.evaluation.score import sentence_scores
from hf_vaswani.translator.pairs import score_pairs

from ..conftest import tiny_model

WEIGHTS = {"intercept": 0.2, "token_probability": 0.9, "length_ratio": 0.05, "similarity": 0.0, "samples": 0}


@pytest.fixture
def translator(tokenizer):
    model = tiny_model(confidence=WEIGHTS)
    return pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=8, return_warnings=False)


def expected(translator, source, target):
    [score] = score_pairs(translator.model, translator.tokenizer, [(source, target)])
    source_length = len(translator.tokenizer(source)["input_ids"])
    return 0.2 + 0.9 * math.exp(score.log_probability / score.length) + 0.05 * math.log(score.length / source_length)


@pytest.mark.parametrize("num_beams", [1, 3])
def test_confidence_follows_from_probability_and_length(translator, num_beams):
    texts = ["w1 w2", "w3 w4 w5 w6"]
    for text, result in zip(texts, translator(texts, num_beams=num_beams, return_confidence=True)):
        ends = len(translator.tokenizer(text_target=result["translation_text"])["input_ids"]) <= 8
        if ends:  # what is cut has no end token
            wanted = expected(translator, text, result["translation_text"])
            assert result["confidence"] == pytest.approx(wanted, abs=1e-3)
        assert 0 <= result["confidence"] <= 1 and "score" in result
    assert "confidence" not in translator(texts)[0]


def test_text_of_several_sentences_has_their_mean_weighted_by_length(translator):
    parts = translator(["w1 w2.", "w3"], return_confidence=True)
    [joined] = translator("w1 w2. w3", return_confidence=True, split_sentences=True)
    assert min(p["confidence"] for p in parts) <= joined["confidence"] <= max(p["confidence"] for p in parts)
    assert translator("", return_confidence=True)[0]["confidence"] == 1.0


def test_translation_is_compared_with_samples_that_are_the_same_in_each_call(translator):
    translator.model.config.confidence = {**WEIGHTS, "intercept": 0.0, "token_probability": 0.0, "length_ratio": 0.0,
                                          "similarity": 1.0, "samples": 3}  # fmt: skip
    torch.manual_seed(1)
    first, before = translator(["w1 w2", "", "w3"], num_beams=2, return_confidence=True), torch.rand(1)
    torch.manual_seed(2)
    second = translator(["w1 w2", "", "w3"], num_beams=2, return_confidence=True)
    assert first == second and first[1]["confidence"] == 1.0
    torch.manual_seed(1)
    assert torch.rand(1) == before  # the random numbers of the caller are not used up
    torch.manual_seed(0)
    samples = translator(["w3"], do_sample=True, num_beams=1, top_k=0, num_return_sequences=3)[0]
    alone = translator(["w3"], num_beams=2, return_confidence=True)[0]
    similar = sentence_scores([alone["translation_text"]] * 3, [s["translation_text"] for s in samples], ["chrf"])
    assert alone["confidence"] == pytest.approx(sum(similar[0].values) / 300, abs=1e-4)


def test_each_translation_is_compared_with_samples_of_its_own_text(translator):
    translator.model.config.confidence = {**WEIGHTS, "intercept": 0.0, "token_probability": 0.0, "length_ratio": 0.0,
                                          "similarity": 1.0, "samples": 2}  # fmt: skip
    with torch.no_grad():  # a model that is sure of itself: its samples are its translations
        translator.model.get_output_embeddings().weight *= 1000
    texts = ["w1", "w2 w3 w4 w5 w6 w7", "w8 w9 w1", "w4 w4"]
    results = translator(texts, num_beams=1, return_confidence=True, suppress_tokens=[0, 1, 2, 3])
    assert len({result["translation_text"] for result in results}) > 1
    assert [result["confidence"] for result in results] == [1.0] * 4


def test_what_is_kept_needs_no_estimate_of_its_own_and_does_not_stop_the_samples(translator):
    translator.model.config.confidence = {**WEIGHTS, "intercept": 0.5, "samples": 2}
    only, more = translator(["7 km", "w1 7 km w2"], num_beams=2, keep="number", return_confidence=True)
    assert only["translation_text"] == "7 km" and only["confidence"] == 1.0
    assert 0 <= more["confidence"] < 1


def test_model_that_is_not_calibrated_says_how_to_do_it(tokenizer):
    plain = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="hf-vaswani calibrate MODEL --source FILE --reference FILE"):
        plain("w1", return_confidence=True)


def test_weights_that_are_damaged_are_named(translator):
    translator.model.config.confidence = {"intercept": 1.0}
    with pytest.raises(ValueError, match="confidence must have intercept, token_probability, length_ratio"):
        translator("w1", return_confidence=True)

import itertools

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF
from transformers import pipeline

from hf_vaswani.translator.mbr import rank_candidates, translate_mbr

from ..conftest import tiny_model

CANDIDATES = ["a dog runs", "a dog is running", "the dog is running", "a dog is running", "a car", ""]


@pytest.mark.parametrize(("name", "metric"), [("chrf", CHRF()), ("bleu", BLEU(effective_order=True))])
def test_candidates_are_ranked_by_their_mean_score_against_all_of_them(name, metric):
    expected = {
        candidate: np.mean([metric.sentence_score(candidate, [reference]).score for reference in CANDIDATES])
        for candidate in CANDIDATES
    }
    ranking = rank_candidates(CANDIDATES, name)
    assert [entry.text for entry in ranking] == sorted(expected, key=expected.get, reverse=True)
    assert [entry.utility for entry in ranking] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-9)
    assert ranking[0].text == "a dog is running"


def test_weights_are_equivalent_to_repetitions():
    once = list(dict.fromkeys(CANDIDATES))
    weighted = rank_candidates(once, weights=[0.1, 0.2, 0.1, 0.1, 0.1])
    repeated = rank_candidates(CANDIDATES)
    assert [entry.text for entry in weighted] == [entry.text for entry in repeated]
    assert [e.utility for e in weighted] == pytest.approx([e.utility for e in repeated], abs=1e-9)


def test_references_may_differ_from_the_candidates():
    ranking = rank_candidates(["a dog", "a cat"], references=["the cat", "my cat"])
    assert [entry.text for entry in ranking] == ["a cat", "a dog"]


def test_equal_candidates_keep_their_order():
    assert [entry.text for entry in rank_candidates(["", " "])] == ["", " "]


def test_utility_may_be_any_function():
    def shorter(hypotheses, references):
        return np.array([[-len(hypothesis)] * len(references) for hypothesis in hypotheses])

    assert [(entry.text, entry.utility) for entry in rank_candidates(["ab", "a"], shorter)] == [("a", -1), ("ab", -2)]


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0]])
def test_invalid_weights_are_rejected(weights):
    with pytest.raises(ValueError, match="weight"):
        rank_candidates(["a", "b"], weights=weights)


def test_empty_candidates_are_rejected():
    with pytest.raises(ValueError, match="at least 1"):
        rank_candidates([])


def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)


def test_texts_are_sampled_without_improbable_tokens_and_the_best_is_first(tokenizer):
    texts = ["w1 w2", "w3"]
    torch.manual_seed(3)
    rankings = list(translate_mbr(translator(tokenizer), texts, samples=8, epsilon=0.03, max_new_tokens=4))
    torch.manual_seed(3)
    options = {"do_sample": True, "num_beams": 1, "top_k": 0, "epsilon_cutoff": 0.03, "max_new_tokens": 4}
    drawn = translator(tokenizer)(texts, num_return_sequences=8, **options)
    candidates = [[hypothesis["translation_text"] for hypothesis in hypotheses] for hypotheses in drawn]
    assert rankings == [rank_candidates(group) for group in candidates]
    assert all(len(set(group)) > 2 for group in candidates)


def test_beam_search_gives_candidates_weighted_by_their_scores(tokenizer):
    [ranking] = translate_mbr(translator(tokenizer), ["w1 w2"], samples=4, do_sample=False, max_new_tokens=4)
    n_best = translator(tokenizer)(["w1 w2"], n_best=4, num_beams=4, max_new_tokens=4)[0]
    weights = [np.exp(hypothesis["score"]) for hypothesis in n_best]
    expected = rank_candidates([hypothesis["translation_text"] for hypothesis in n_best], weights=weights)
    assert [entry.text for entry in ranking] == [entry.text for entry in expected]
    assert [e.utility for e in ranking] == pytest.approx([e.utility for e in expected])
    assert len({round(weight, 6) for weight in weights}) > 1


def test_texts_are_read_as_needed():
    read = []

    def texts():
        for number in itertools.count():
            read.append(number)
            yield f"w{number}"

    def echo(window, **_):
        return [[{"translation_text": text}, {"translation_text": text}] for text in window]

    rankings = translate_mbr(echo, texts())
    assert [next(rankings)[0].text for _ in range(300)] == [f"w{number}" for number in range(300)]
    assert len(read) < 1000


def test_single_sample_is_rejected():
    with pytest.raises(ValueError, match="at least 2"):
        next(translate_mbr(None, ["w1"], samples=1))

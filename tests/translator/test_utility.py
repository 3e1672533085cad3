import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from hf_vaswani.translator import mbr
from hf_vaswani.translator.mbr import sentence_bleu, sentence_chrf

WORDS = ["a", "dog", "the", "The", "cat,", "runs.", "fast", "läuft", "über", "don't", "-", "x"]
ODD = ["", "  ", "a", " a", "a ", "aaaaaaaaaaa", "\u2028a b", "..", "a a a a a a"]


def texts() -> list[str]:
    generator = random.Random(1)
    return [" ".join(generator.choices(WORDS, k=length)) for length in (1, 2, 3, 4, 5, 9, 20, 20)] + ODD


@pytest.mark.parametrize(
    ("ours", "metric"), [(sentence_chrf, CHRF()), (sentence_bleu, BLEU(effective_order=True))], ids=["chrf", "bleu"]
)
@pytest.mark.parametrize("features_at_once", [1 << 16, 7])
def test_every_pair_gets_the_score_of_sacrebleu(ours, metric, features_at_once, monkeypatch):
    monkeypatch.setattr(mbr, "FEATURES_AT_ONCE", features_at_once)
    hypotheses, references = texts(), texts()[::-1] + ["the dog"]
    expected = np.array([[metric.sentence_score(h, [r]).score for r in references] for h in hypotheses])
    scores = ours(hypotheses, references)
    assert scores.shape == (len(hypotheses), len(references))
    assert scores == pytest.approx(expected, abs=1e-9)
    assert scores.max() == pytest.approx(100) and (scores > 0).sum() > 50


@pytest.mark.parametrize("ours", [sentence_chrf, sentence_bleu])
def test_empty_hypotheses_or_references_give_no_scores(ours):
    assert ours([], ["a"]).shape == (0, 1)
    assert ours(["a"], []).shape == (1, 0)


def test_characters_are_the_tokens_of_bleu_where_words_have_no_spaces():
    texts = ["我今天去学校。", "我今天去大学。", "我今天要去学校，他也去。", "苹果很好吃 very good."]
    metric = BLEU(tokenize="zh", effective_order=True)
    expected = [[metric.sentence_score(h, [r]).score for r in texts] for h in texts]
    assert sentence_bleu(texts, texts) == pytest.approx(np.array(expected), abs=1e-9)
    [[same, other]] = sentence_bleu(["かなだ"], ["かなだ", "かなで"])
    assert same == pytest.approx(100) and 0 < other < 100

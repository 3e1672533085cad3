"""The module for the `evaluate` library, and its evaluator for translation models."""

import socket

import evaluate
import pytest
from datasets import Dataset
from sacrebleu.metrics import BLEU, CHRF, TER
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation import METRIC

HYPOTHESES = ["the cat sat on the mat", "a dog runs"]
REFERENCES = ["the cat is on the mat", "a dog runs fast"]


@pytest.fixture
def metric(tmp_path, monkeypatch):
    """The metric, loaded while every connection fails."""

    def refuse(*arguments):
        raise AssertionError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return evaluate.load(METRIC, cache_dir=str(tmp_path / "metrics"))


def test_module_returns_all_scores_with_signatures(metric):
    result = metric.compute(predictions=HYPOTHESES, references=REFERENCES)
    for name, kind in {"bleu": BLEU, "chrf2": CHRF, "ter": TER}.items():
        sacrebleu = kind()
        assert result.pop(name) == sacrebleu.corpus_score(HYPOTHESES, [REFERENCES]).score
        assert result.pop(f"{name}_signature") == str(sacrebleu.get_signature())
    assert result == {}


def test_module_accepts_batches_and_settings(metric):
    for prediction, reference in zip(HYPOTHESES, REFERENCES):
        metric.add_batch(predictions=[prediction], references=[reference])
    result = metric.compute(metrics=["bleu"], bleu={"max_ngram_order": 1, "tokenize": "char"})
    sacrebleu = BLEU(max_ngram_order=1, tokenize="char")
    assert result["bleu"] == sacrebleu.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert list(result) == ["bleu", "bleu_signature"] and "tok:char" in result["bleu_signature"]


def test_module_accepts_different_numbers_of_references(metric):
    result = metric.compute(
        predictions=["a b", "x y"], references=[["a c", "d b"], ["x z"]], metrics=["bleu"], bleu={"max_ngram_order": 1}
    )
    assert result["bleu"] == pytest.approx(100 * 3 / 4)
    assert "nrefs:var" in result["bleu_signature"]


@pytest.mark.parametrize("kind", ["folder", "pipeline", "pipeline of a language pair", "model"])
def test_evaluator_scores_the_models_translations(kind, saved_model, metric):
    texts = ["w1 w2 w3", "w4", "w5 w6"]
    translator = pipeline("translation", model=str(saved_model))
    translations = [result["translation_text"] for result in translator(texts)]
    labels = [translations[0], *texts[1:]]  # one is correct
    options = {"model_or_pipeline": str(saved_model)}
    if kind == "model":
        options = {
            "model_or_pipeline": AutoModelForSeq2SeqLM.from_pretrained(saved_model),
            "tokenizer": AutoTokenizer.from_pretrained(saved_model),
        }
    elif kind != "folder":
        task = "translation" if kind == "pipeline" else "translation_de_to_en"
        options = {"model_or_pipeline": pipeline(task, model=str(saved_model))}
    data = Dataset.from_dict({"text": texts, "label": labels})
    result = evaluate.evaluator("translation").compute(data=data, metric=metric, device=-1, **options)
    assert result["chrf2"] == CHRF().corpus_score(translations, [labels]).score > 0
    assert result["ter"] == TER().corpus_score(translations, [labels]).score
    assert result["total_time_in_seconds"] > 0


def test_single_metric_may_be_given_as_a_string(metric):
    result = metric.compute(predictions=HYPOTHESES, references=REFERENCES, metrics="chrf")
    assert list(result) == ["chrf2", "chrf2_signature"]


def test_unknown_setting_is_rejected_and_not_ignored(metric):
    with pytest.raises(InputError, match=r"tokenize='zh' is not a setting\. .*bleu=\{'tokenize': 'zh'\}"):
        metric.compute(predictions=HYPOTHESES, references=REFERENCES, tokenize="zh")

import pytest
import torch
from transformers import pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.translator.pipeline import translate
from hf_vaswani.translator.reranking import Reranker, open_reranker

from ..conftest import tiny_model

TEXTS = ["w1 w2 w3", "w20 w21"]


@pytest.fixture
def beam(tokenizer):
    """Four translations of each text."""
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)(
        TEXTS, num_beams=4, n_best=4, max_new_tokens=5
    )


def source_score(model, tokenizer, text: str, source: str) -> float:
    """The mean log-probability of the tokens of a source, given its translation."""
    batch = tokenizer(text, text_target=source, return_tensors="pt")
    with torch.no_grad():
        log_probabilities = model(**batch).logits[0].double().log_softmax(-1)
    return log_probabilities.gather(1, batch["labels"][0].unsqueeze(1)).mean().item()


@pytest.mark.parametrize("weight", [0.0, 0.3, 5.0])
def test_translations_are_sorted_by_both_scores(backward, tokenizer, beam, weight):
    ranked = Reranker(backward, tokenizer, weight)(TEXTS, beam)
    for text, before, after in zip(TEXTS, beam, ranked):
        totals = {
            hypothesis["translation_text"]: hypothesis["score"]
            + weight * source_score(backward, tokenizer, hypothesis["translation_text"], text)
            for hypothesis in before
        }
        assert [hypothesis["translation_text"] for hypothesis in after] == sorted(totals, key=totals.get, reverse=True)
        for hypothesis in after:
            expected = source_score(backward, tokenizer, hypothesis["translation_text"], text)
            assert hypothesis["source_score"] == pytest.approx(expected, rel=1e-4)
        assert len(totals) == 4


def test_a_large_weight_changes_the_order(backward, tokenizer, beam):
    order = [[hypothesis["translation_text"] for hypothesis in result] for result in beam]
    for weight, is_same in ((0.0, True), (5.0, False)):
        ranked = Reranker(backward, tokenizer, weight)(TEXTS, beam)
        assert ([[hypothesis["translation_text"] for hypothesis in result] for result in ranked] == order) == is_same


def test_translations_too_long_to_score_are_last_and_errors_stay(backward, tokenizer):
    error, long = ValueError("no translation"), "w1 " * 2000
    results = [[{"translation_text": long, "score": 0.0}, {"translation_text": "w1", "score": -9.0}], error]
    first, second = Reranker(backward, tokenizer)(TEXTS, results)
    assert [hypothesis["translation_text"] for hypothesis in first] == ["w1", long]
    assert first[1]["source_score"] is None and second is error


def test_translate_takes_the_first_of_the_reranked_beam(backward, tokenizer, beam):
    reranker = Reranker(backward, tokenizer, 5.0)
    expected = [ranked[0]["translation_text"] for ranked in reranker(TEXTS, beam)]
    texts = translate(tiny_model(), tokenizer, TEXTS, reranker=reranker, num_beams=4, max_new_tokens=5)
    assert texts == expected != [hypotheses[0]["translation_text"] for hypotheses in beam]


def test_the_search_does_not_end_with_the_first_finished_translations(tokenizer):
    model, seen = tiny_model(), []
    # With many end tokens, short translations finish first, but longer ones are better.
    settings = {"num_beams": 4, "max_new_tokens": 8, "eos_token_id": list(range(3, 30, 2)), "length_penalty": 5.0}
    model.generation_config.early_stopping = True
    # It keeps what it is given to choose from.
    translate(model, tokenizer, TEXTS, reranker=lambda texts, results: seen.extend(results) or results, **settings)
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    early, late = (translator(TEXTS, n_best=4, early_stopping=early, **settings) for early in (True, False))
    assert seen == late != early


def test_a_single_beam_is_an_error(backward, tokenizer):
    with pytest.raises(ValueError, match="num_beams must be 2 or more"):
        translate(tiny_model(), tokenizer, TEXTS, reranker=Reranker(backward, tokenizer), num_beams=1)


@pytest.fixture
def open_saved(tmp_path, tokenizer):
    """Opens a reranker of these languages for a model from German to English."""

    def open_it(source: str | None, target: str | None) -> Reranker:
        tiny_model(source_language=source, target_language=target).save_pretrained(tmp_path / "backward")
        tokenizer.save_pretrained(tmp_path / "backward")
        return open_reranker(str(tmp_path / "backward"), 0.2, [[("de", "en")]], {})

    return open_it


@pytest.mark.parametrize("languages", [("en", "de"), (None, None)])
def test_a_model_of_the_other_direction_is_accepted(open_saved, languages):
    assert open_saved(*languages).weight == 0.2


def test_a_model_of_the_same_direction_is_an_error(open_saved):
    with pytest.raises(InputError) as caught:
        open_saved("de", "en")
    assert str(caught.value).endswith(
        "backward translates de to en. Reranking needs a model of the other direction: en to de."
    )

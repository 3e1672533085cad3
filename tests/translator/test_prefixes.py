import pytest
import torch
from transformers import pipeline

from ..conftest import tiny_model

TEXTS = ["w1 w2 w3", "w4", "", "w5 w6", "w7 w8"]
PREFIXES = ["w9", "w1 w2 w3", "w4", "", "w5 w6 w7"]


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("batch_tokens", [1024, 1])
def test_translations_begin_with_their_prefix_and_continue_as_generate_does(translator, num_beams, batch_tokens):
    options = {"num_beams": num_beams, "max_new_tokens": 5}
    results = translator(TEXTS, prefixes=PREFIXES, batch_tokens=batch_tokens, **options)
    expected = []
    for text, prefix in zip(TEXTS, PREFIXES):
        start = torch.tensor([[1, *(4 + int(word[1:]) for word in prefix.split())]])
        inputs = translator.tokenizer(text, return_tensors="pt")
        output = translator.model.generate(**inputs, decoder_input_ids=start, **options)
        expected.append(translator.tokenizer.decode(output[0], skip_special_tokens=True) if text else "")
    assert [result["translation_text"] for result in results] == expected
    assert all(text.startswith(prefix) for text, prefix in zip(expected, PREFIXES) if text)
    assert len(set(expected)) == 5


def test_several_translations_with_scores_are_returned_on_request(translator):
    results = translator(TEXTS, prefixes=PREFIXES, n_best=2, num_beams=3, max_new_tokens=4)
    assert all(len(result) == 2 and result[0]["score"] >= result[1]["score"] for result in results)
    assert results[2] == [{"translation_text": "", "score": 0.0}] * 2
    plain = translator(TEXTS[3], n_best=2, num_beams=3, max_new_tokens=4)
    assert [entry["translation_text"] for entry in results[3]] == [entry["translation_text"] for entry in plain]
    assert [entry["score"] for entry in results[3]] == pytest.approx([entry["score"] for entry in plain], abs=1e-5)


def test_empty_inputs_and_single_texts_may_have_prefixes(translator):
    assert translator([], prefixes=[]) == []
    assert translator([" "], prefixes=["w1"]) == [{"translation_text": ""}]
    assert translator("w1", prefixes=["w2"], max_new_tokens=3)[0]["translation_text"].startswith("w2")


@pytest.mark.parametrize("texts", [["w1"], iter(["w1", "w2"])], ids=["one text", "an iterator"])
def test_prefixes_that_do_not_match_the_texts_are_rejected(translator, texts):
    with pytest.raises(ValueError, match="^prefixes must have one prefix per text of a list, got 2 for"):
        translator(texts, prefixes=["w1", "w2"])


def test_prefixes_with_sentence_splitting_are_rejected(translator):
    with pytest.raises(ValueError, match="prefixes and split_sentences cannot be combined"):
        translator(["w1. w2."], prefixes=["w3"], split_sentences=True)

"""Terms in the pipeline: translations have them, whatever the tokenizer, the engine and the other arguments."""

import pytest
import torch
from transformers import pipeline

from hf_vaswani.generation import constrained_search, term_spelling
from hf_vaswani.text.glossary import Glossary

from ..conftest import tiny_model
from ..families import FAMILIES, family, languages, only_words

SEARCH = {"num_beams": 4, "max_new_tokens": 8}
TEXTS = ["w1 w2 w3", "w4", "w5 w1", "w1 w1 w6 w7"]
TERMS = {"w1": "w30", "w5": ["w31 w32", "w33"]}


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer, engine="torch", **SEARCH)


def texts_of(results):
    return [result["translation_text"] for result in results]


def lacks(source, translation, terms):
    return [d for d in Glossary.of(terms).demands(source) if d.count_in(translation) < d.count]


def test_translations_have_their_terms_and_others_stay_as_they_are(translator):
    plain, found = texts_of(translator(TEXTS)), texts_of(translator(TEXTS, terms=TERMS))
    assert all(lacks(text, before, TERMS) for text, before in zip(TEXTS, plain) if text != "w4")
    assert not any(lacks(text, after, TERMS) for text, after in zip(TEXTS, found))
    assert found[1] == plain[1]
    assert found[3].split().count("w30") == 2


def test_a_term_that_the_tokenizer_cannot_spell_is_put_in_place(translator):
    [text] = texts_of(translator("w1", terms={"w1": ["\u732b\u72d7"], "w2": "w3"}))
    assert text == "\u732b\u72d7"
    [text] = texts_of(translator("w4 w1 w2", terms={"w1": "\u732b"}, on_missing_term="error"))
    assert "\u732b" in text


def test_a_translation_that_has_its_terms_stays_as_it_is(translator):
    [plain] = texts_of(translator("w1 w2 w3", return_scores=True))
    own = plain.split()[0]
    assert texts_of(translator("w1 w2 w3", terms={"w1": own, "w2": [own, "w30"]})) == [plain]


def test_results_do_not_depend_on_the_batch_or_on_workers(translator):
    together = translator(TEXTS, terms=TERMS, return_scores=True, num_workers=2, batch_size=2)
    alone = [translator(text, terms=TERMS, return_scores=True)[0] for text in TEXTS]
    assert texts_of(together) == texts_of(alone)
    assert [r["score"] for r in together] == pytest.approx([r["score"] for r in alone], abs=1e-5)


def test_each_text_may_have_terms_of_its_own(translator):
    found = texts_of(translator(["w1", "w1", "w1"], terms=[{"w1": "w30"}, None, {"w1": "w31"}]))
    assert "w30" in found[0] and "w31" in found[2] and found[1] == texts_of(translator("w1"))[0]
    with pytest.raises(ValueError, match="^terms must have one dict per text of a list, got 1 for 2 texts"):
        translator(["w1", "w1"], terms=[TERMS])


def test_text_that_is_nothing_but_a_term_becomes_its_translation(translator):
    terms = {"w1": "w30", "w2 w3": ["w31 w32", "w33"]}
    assert texts_of(translator(["w1", " w2 w3"], terms=terms)) == ["w30", "w31 w32"]
    assert texts_of(translator(["w2"], terms=terms)) == texts_of(translator(["w2"]))
    [split] = texts_of(translator(["w1\nw2 w3"], terms=terms, split_sentences=True))
    assert split == "w30\nw31 w32"


def test_each_sentence_gets_the_terms_that_stand_in_it(translator):
    [result] = translator("w1\nw2 w5", terms=TERMS, split_sentences=True)
    first, second = result["translation_text"].split("\n")
    assert "w30" in first and not lacks("w5", second, TERMS)


def test_all_of_the_n_best_have_the_terms_and_their_own_scores(translator):
    results = translator("w1 w2", terms=TERMS, n_best=3, length_penalty=0.0)
    assert len({result["translation_text"] for result in results}) == 3
    for result in results:
        assert "w30" in result["translation_text"]
        ids = [1, *(4 + int(word[1:]) for word in result["translation_text"].split())]
        ids += [2] * (len(ids) < 9)  # ended before its limit
        with torch.no_grad():
            logits = translator.model(
                input_ids=torch.tensor([[5, 6, 2]]), decoder_input_ids=torch.tensor([ids[:-1]])
            ).logits[0]
        log_probs = logits.log_softmax(-1).gather(1, torch.tensor(ids[1:]).unsqueeze(1))
        assert result["score"] == pytest.approx(log_probs.sum().item(), abs=1e-4)


def test_prefixes_tensors_and_alignments_go_with_terms(translator):
    [result] = translator(["w1 w2"], prefixes=["w9"], terms=TERMS)
    assert result["translation_text"].startswith("w9") and "w30" in result["translation_text"]
    [result] = translator("w1 w2", terms=TERMS, return_tensors=True)
    assert 34 in result["translation_token_ids"]
    [result] = translator("w1 w2", terms=TERMS, return_alignments=True)
    assert "w30" in result["target_tokens"]


def test_terms_may_be_given_once_for_all_calls(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, terms=TERMS, **SEARCH)
    assert "w30" in texts_of(translator("w1 w2"))[0]
    assert "w30" not in texts_of(translator("w1 w2", terms={}))[0]


@pytest.mark.parametrize("engine", ["ctranslate2", "onnx"])
def test_only_sentences_that_lack_a_term_leave_their_engine(tokenizer, engine):
    pytest.importorskip("ctranslate2" if engine == "ctranslate2" else "onnxruntime")
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer, engine=engine, **SEARCH)
    plain = texts_of(translator(TEXTS))
    assert translator.selection.used == {engine}
    found = texts_of(translator(TEXTS, terms=TERMS))
    assert not any(lacks(text, after, TERMS) for text, after in zip(TEXTS, found)) and found[1] == plain[1]
    assert translator.selection.used == {engine, "torch"}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_models_and_tokenizers(name, tmp_path):
    model, tokenizer = family(name, tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, **languages(name))
    terms = {"hund": "katze", "haus": ["wiese und", "läuft"]}
    texts = ["ein hund läuft", "haus"]
    options = {"num_beams": 4, "max_new_tokens": 24, **only_words(name, tokenizer)}
    found = texts_of(translator(texts, terms=terms, **options))
    # The tiny tokenizer of M2M100 has another number for its language than the model is given.
    assert not any(lacks(text, after.removeprefix("__en__"), terms) for text, after in zip(texts, found))


def test_terms_are_in_translations_of_any_length(translator):
    terms, short = {"w1": "w30 w31 w32", "w2": "w33"}, {"max_new_tokens": 2}
    [result] = translator("w1 w2", terms=terms, return_warnings=True, on_unmet="error", **short)
    assert "w30 w31 w32" in result["translation_text"] and "w33" in result["translation_text"]
    assert "lacks" not in result.get("warning", "")


def test_a_term_for_which_a_prefix_leaves_no_room_is_a_warning_or_an_error(translator, caplog):
    options = {"terms": {"w1": "w30 w31 w32"}, "prefixes": ["", "w5"], "max_new_tokens": 2}
    results = translator(["w4", "w1 w2"], return_warnings=True, **options)
    assert results[1]["warning"] == "lacks 'w30 w31 w32' for 'w1'"
    translator(["w1 w2"], **{**options, "prefixes": ["w5"]})
    assert "'w1 w2': lacks 'w30 w31 w32' for 'w1'" in caplog.text
    with pytest.raises(ValueError, match=r"^inputs\[1\]: no translation within the length limit has 'w30 w31 w32'"):
        translator(["w4", "w1 w2"], on_unmet="error", **options)
    results = translator(["w4", "w1 w2"], on_unmet="error", on_error="return", **options)
    assert isinstance(results[1], ValueError) and results[0] == translator("w4", max_new_tokens=2)[0]


def test_more_terms_than_can_be_searched_for_are_a_warning_or_an_error_of_that_text(translator):
    terms = {f"v{number}": f"w{number % 36} w{number // 36}" for number in range(400)}
    text = " ".join(terms)
    found = translator(["w1", text], terms=terms, return_warnings=True)
    assert found[0] == translator("w1", return_warnings=True)[0]
    assert found[1]["warning"].endswith("'w4 w0' for 'v4', 395 more")
    with pytest.raises(ValueError, match=r"^inputs\[1\]: .* its terms are too many, or too long, for"):
        translator(["w1", text], terms=terms, on_unmet="error")
    [result] = translator("w1 " * 3000, terms={"w1": "w2 w3 w4 w5 w6 w7"}, return_warnings=True, split_sentences=False)
    assert result["warning"] == "lacks 'w2 w3 w4 w5 w6 w7' for 'w1', 3000 times"


@pytest.mark.parametrize("limit", [1, 200])
def test_results_do_not_depend_on_how_many_sentences_are_searched_together(translator, monkeypatch, limit):
    expected = translator(TEXTS, terms=TERMS, return_scores=True)
    monkeypatch.setattr(constrained_search, "MOST_NUMBERS", limit)
    found = translator(TEXTS, terms=TERMS, return_scores=True)
    assert texts_of(found) == texts_of(expected)
    assert [r["score"] for r in found] == pytest.approx([r["score"] for r in expected], abs=1e-5)


def test_spellings_are_forgotten_beyond_a_limit(translator, monkeypatch):
    terms = [{"w1": f"w{number} w30"} for number in range(2, 20)]
    options = {"prefixes": ["w5"]}  # which stays, so that terms are searched for
    expected = [translator(["w1 w1"], terms=own, **options) for own in terms]
    [speller] = translator._shared.spellers.values()
    assert speller.remembered > 50
    monkeypatch.setattr(term_spelling, "MOST_REMEMBERED", 20)
    assert [translator(["w1 w1"], terms=own, **options) for own in terms] == expected
    assert speller.remembered < 50


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"terms": TERMS, "do_sample": True, "num_beams": 1}, "cannot be combined with do_sample"),
        ({"terms": TERMS, "on_unmet": "ignore"}, 'on_missing_term must be "warn", "error" or "accept"'),
        ({"terms": {"w1": ""}}, "a target term of 'w1' is empty"),
    ],
)
def test_invalid_arguments(translator, arguments, error):
    with pytest.raises(ValueError, match=error):
        translator("w1", **arguments)


def test_the_best_of_several_translations_with_terms_comes_first(translator):
    for text in TEXTS:
        scores = [each["score"] for each in translator(text, terms=TERMS, n_best=4, return_scores=True)]
        assert scores == sorted(scores, reverse=True)


def test_a_term_within_what_is_kept_is_no_term(translator):
    [text] = texts_of(translator("w4 {w1} w2", terms={"w1": "w30"}, keep=r"\{.*\}"))
    assert "{w1}" in text and "w30" not in text
    [text] = texts_of(translator("w1 {w1} w2", terms={"w1": "w30"}, keep=r"\{.*\}"))
    assert text.count("{w1}") == 1 and "w30" in text


def test_terms_are_not_put_into_what_is_kept(translator):
    for found in translator("w1 {a b} w2", terms={"w1": "w30", "w2": "w31"}, keep=r"\{.*\}", n_best=4):
        assert "{a b}" in found["translation_text"]

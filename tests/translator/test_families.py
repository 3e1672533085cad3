"""The translation pipeline on every family of translation models, each with its own kind of tokenizer."""

import pytest
from transformers import pipeline

from ..families import FAMILIES, LANGUAGES, family, languages, only_words

TEXTS = ["ein hund läuft", "", "katze", "die katze schläft und", "ein haus"]


@pytest.fixture(params=FAMILIES)
def name(request):
    return request.param


@pytest.fixture
def family_pipeline(name, tmp_path):
    """A pipeline whose model generates words up to the limit, and the search options that make it do so."""
    model, tokenizer = family(name, tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, **languages(name))
    return translator, {"max_new_tokens": 6, **only_words(name, tokenizer)}


def by_hand(translator, name, text, **options):
    """What `generate()` returns for one text, with the source language's tokens and the target language forced."""
    tokenizer = translator.tokenizer
    if name in LANGUAGES:
        tokenizer.src_lang, target = LANGUAGES[name]
        codes = getattr(tokenizer, "lang_code_to_id", None) or {target: tokenizer.convert_tokens_to_ids(target)}
        options["forced_bos_token_id"] = codes[target]
    inputs = tokenizer(text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    return translator.model.generate(**inputs, **options)


def test_translations_match_generate_for_any_batch_size(family_pipeline, name):
    translator, options = family_pipeline
    expected = [
        translator.tokenizer.decode(by_hand(translator, name, text, **options)[0], skip_special_tokens=True)
        if text
        else ""
        for text in TEXTS
    ]
    assert len(set(expected)) > 2
    for batches in ({}, {"batch_size": 1}, {"batch_size": 2}):
        assert [r["translation_text"] for r in translator(TEXTS, **batches, **options)] == expected


def test_beam_search_scores_match_generate(family_pipeline, name):
    translator, options = family_pipeline
    options = {"num_beams": 3, **options}
    expected = by_hand(
        translator, name, TEXTS[0], num_return_sequences=2, return_dict_in_generate=True, output_scores=True, **options
    )
    found = translator(TEXTS, n_best=2, **options)[0]
    assert [h["score"] for h in found] == pytest.approx(expected.sequences_scores.tolist(), rel=1e-4)
    texts = translator.tokenizer.batch_decode(expected.sequences, skip_special_tokens=True)
    assert [h["translation_text"] for h in found] == texts


def test_alignments_point_into_the_tokens(family_pipeline):
    translator, options = family_pipeline
    results = translator(TEXTS, return_alignments=True, **options)
    for text, result in zip(TEXTS, results):
        targets = [target for _, target in result["alignment"]]
        assert targets == list(range(len(result["target_tokens"])))
        assert bool(text) == bool(targets)
        assert all(0 <= source < len(result["source_tokens"]) for source, _ in result["alignment"])


def test_odd_text_is_handled_by_all_families(family_pipeline):
    translator, options = family_pipeline
    assert translator([" \t\n", "\x00"], **options) == [{"translation_text": ""}] * 2
    for text in ["Привет 你好 👋", "hund \ud800", "hund\x00katze\x1b\nund"]:
        assert set(translator(text, **options)[0]) == {"translation_text"}
    with pytest.raises(ValueError, match=r"inputs\[1\] is NoneType"):
        translator(["hund", None], **options)


def test_long_text_is_rejected_truncated_or_split_at_the_limit(family_pipeline, name):
    translator, options = family_pipeline
    # The positions of T5 and M2M100 and sinusoids have no limit, but texts do.
    limit = 40 if name in ("Marian", "mBART", "mBART-50", "Bart") else 4096
    text = "ein hund " * 2100
    with pytest.raises(ValueError, match=rf"inputs\[0\] has \d+ tokens, but a text may have {limit} at most"):
        translator([text], split_sentences=False, **options)
    assert translator([text], truncation=True, max_source_length=20, **options)[0]["translation_text"] is not None
    split = translator("ein hund. " * 20, split_sentences=True, max_source_length=40, **options)
    assert split[0]["translation_text"]


@pytest.mark.parametrize("name", LANGUAGES, indirect=True)
def test_missing_and_unknown_languages_raise_a_clear_error(name, tmp_path):
    model, tokenizer = family(name, tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer)
    source, target = LANGUAGES[name]
    with pytest.raises(ValueError, match=r"^tgt_lang is missing.* languages, such as \w+, \w+"):
        translator("hund", src_lang=source)
    with pytest.raises(ValueError, match="src_lang is missing and tgt_lang is missing"):
        translator(iter(["hund"]))
    with pytest.raises(ValueError, match="tgt_lang='Klingon' is not a language of this tokenizer"):
        translator("hund", src_lang=source, tgt_lang="Klingon")
    with pytest.raises(ValueError, match="src_lang='hund' is not a language"):
        translator("hund", src_lang="hund", tgt_lang=target)


@pytest.mark.parametrize("name", LANGUAGES, indirect=True)
def test_model_with_a_forced_target_language_needs_no_tgt_lang(name, tmp_path):
    model, tokenizer = family(name, tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=4)
    expected = translator(TEXTS, **languages(name))
    target = LANGUAGES[name][1]
    codes = getattr(tokenizer, "lang_code_to_id", None) or {target: tokenizer.convert_tokens_to_ids(target)}
    model.generation_config.forced_bos_token_id = codes[target]
    assert translator(TEXTS, src_lang=LANGUAGES[name][0]) == expected


@pytest.mark.parametrize("name", ["NLLB"], indirect=True)
def test_target_language_of_the_call_is_used(family_pipeline):
    translator, options = family_pipeline
    for language in ("eng_Latn", "fra_Latn"):
        batch = translator(TEXTS, tgt_lang=language, return_tensors=True, max_new_tokens=4)
        first = {int(r["translation_token_ids"][1]) for r in batch if len(r["translation_token_ids"])}
        assert first == {translator.tokenizer.convert_tokens_to_ids(language)}

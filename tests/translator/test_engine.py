"""Errors of single texts: returned in place of their translations, at little cost to the others."""

import pytest
from transformers import pipeline

from hf_vaswani.translator import search as search_module
from hf_vaswani.translator.search import Search
from hf_vaswani.translator.segments import SourceTooLong

from ..conftest import tiny_model

TEXTS = [f"w{number % 36} w{number // 36}" for number in range(100)]


@pytest.fixture
def translator(tokenizer):
    return pipeline("translation", model=tiny_model(), tokenizer=tokenizer, max_new_tokens=1, batch_size=1000)


@pytest.fixture
def failing_engine(translator, monkeypatch):
    """Makes the search fail on batches that are too large or contain a disliked text; records the batch sizes."""

    def build(memory: int, disliked=()):
        calls, forward = [], translator._forward
        bad = {tuple(translator.tokenizer(text)["input_ids"]) for text in disliked}

        def fail(inputs, **options):
            rows = inputs["input_ids"].tolist()
            calls.append(len(rows))
            if len(rows) > memory:
                raise RuntimeError("out of memory")
            if bad & set(map(tuple, rows)):
                raise ValueError("disliked")
            return forward(inputs, **options)

        monkeypatch.setattr(translator, "_forward", fail)
        return translator.translator(on_error="return"), calls

    return build


def described(results):
    return [str(result) if isinstance(result, Exception) else result for result in results]


def test_failing_texts_do_not_affect_the_others(translator, failing_engine):
    expected = [[result] for result in translator(TEXTS)]
    engine, calls = failing_engine(1000, disliked=[TEXTS[number] for number in (0, 41, 99)])
    results = described(engine.translate(TEXTS))
    assert results == ["disliked" if number in (0, 41, 99) else expected[number] for number in range(100)]
    assert len(calls) < 50


def test_batch_too_large_for_memory_is_translated_in_parts(translator, failing_engine):
    expected = [[result] for result in translator(TEXTS)]
    assert failing_engine(7)[0].translate(TEXTS) == expected


def test_batch_that_succeeds_is_searched_once(failing_engine):
    engine, calls = failing_engine(100)
    assert len(engine.translate(TEXTS)) == 100
    assert calls == [100]
    assert engine.translate([]) == []
    assert calls == [100]


def test_error_shared_by_many_texts_is_raised(failing_engine):
    engine, _ = failing_engine(1000, disliked=TEXTS)
    with pytest.raises(ValueError, match="disliked"):
        engine.translate(TEXTS)
    assert described(engine.translate(TEXTS[:10])) == ["disliked"] * 10


def test_interruption_is_not_treated_as_an_error_of_a_text(translator, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(translator, "_forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        translator.translator(on_error="return").translate(TEXTS[:10])


def test_pipeline_call_can_return_errors(translator):
    options = {"max_source_length": 5, "on_error": "return"}
    first, long = translator(["w1", "w2 " * 7], **options)
    assert first == translator("w1")[0] and isinstance(long, SourceTooLong)
    with pytest.raises(ValueError, match="^on_error must be"):
        translator("w1", on_error="ignore")


def test_pipeline_can_be_created_to_return_errors(saved_model):
    translator = pipeline("translation", model=str(saved_model), max_source_length=5, on_error="return")
    assert isinstance(translator(["w1", "w2 " * 7])[1], SourceTooLong)
    with pytest.raises(ValueError, match="a text may have 5 at most"):
        translator(["w1", "w2 " * 7], on_error="raise")
    with pytest.raises(ValueError, match="^prefixes belong to the texts of one call"):
        pipeline("translation", model=str(saved_model), prefixes=["w1"])


def test_error_is_raised_by_default(translator, failing_engine):
    failing_engine(7)
    with pytest.raises(RuntimeError, match="out of memory"):
        translator(TEXTS)


def test_text_over_the_limit_is_encoded_once_and_its_error_gives_both_lengths(translator, monkeypatch):
    encode, encoded = translator.preprocess, []
    monkeypatch.setattr(translator, "preprocess", lambda text, **options: encoded.append(text) or encode(text))
    engine = translator.translator(max_source_length=5, on_error="return")
    first, long, last = engine.translate(["w1", "w2 " * 7, "w3"])
    assert isinstance(long, SourceTooLong) and str(long) == "8 tokens, more than the limit of 5"
    assert [first, last] == [translator("w1"), translator("w3")]
    assert encoded[:3] == ["w1", "w2 w2 w2 w2 w2 w2 w2", "w3"]


def test_text_that_cannot_be_encoded_does_not_affect_the_others(translator, monkeypatch):
    encode, expected = translator.preprocess, [translator("w1"), translator("w3")]

    def fail(text, **options):
        if text == "w2":
            raise RuntimeError("no such text")
        return encode(text, **options)

    monkeypatch.setattr(translator, "preprocess", fail)
    for splits in (False, True):
        engine = translator.translator(on_error="return", split_sentences=splits)
        first, bad, last = engine.translate(["w1", "w2", "w3"])
        assert [first, last] == expected
        assert str(bad) == "no such text"


def test_failing_piece_becomes_the_error_of_its_text(translator, failing_engine):
    failing_engine(1000, disliked=["w5"])
    engine = translator.translator(on_error="return", split_sentences=True)
    good, bad = engine.translate(["w1\nw2", "w3\nw5"])
    assert isinstance(bad, ValueError)
    assert good[0]["translation_text"].count("\n") == 1


def test_last_sentences_of_many_batches_are_searched_together(tokenizer, monkeypatch):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    texts = [" ".join(["w1", "w2", "w3"][i % 3 :] * (1 + i % 7)) for i in range(60)]
    options = {"num_beams": 4, "n_best": 2, "max_length_offset": 3, "batch_size": 12, "num_workers": 1}
    batches, left = [], []
    search = Search._search

    def recorded(self, segments, may_leave):
        search(self, segments, may_leave)
        batches.append((len(segments), may_leave))
        left.append(sum(segment.result is None for segment in segments))

    monkeypatch.setattr(Search, "_search", recorded)
    monkeypatch.setattr(search_module, "STRAGGLING_ROWS", 40)
    monkeypatch.setattr(search_module, "STRAGGLING_SHARE", 1)
    results = translator(texts, **options)
    assert batches[:5] == [(12, True)] * 5 and sum(left) > 0
    assert sum(size for size, may_leave in batches if not may_leave) == sum(left)
    monkeypatch.setattr(Search, "_knows_stragglers", lambda self: False)
    expected = translator(texts, **options)
    for result, other in zip(results, expected, strict=True):
        assert [best["translation_text"] for best in result] == [best["translation_text"] for best in other]
        assert [best["score"] for best in result] == pytest.approx([best["score"] for best in other], abs=1e-5)

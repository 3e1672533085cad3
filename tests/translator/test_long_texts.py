"""Texts that are too long for a model: rejected, cut or translated in pieces by the translation pipeline."""

import pytest
from transformers import pipeline

from hf_vaswani import TranslationPipeline

from ..conftest import tiny_model
from ..families import family

WORDS = {"suppress_tokens": [0, 1, 2, 3]}  # a random model generates words up to the length limit


@pytest.fixture
def limited(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=8)
    return pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=3, **WORDS)


def test_all_texts_over_the_limit_are_reported_before_any_is_translated(limited, monkeypatch):
    monkeypatch.setattr(limited, "_forward", None)
    long = " ".join(["w1"] * 9)
    with pytest.raises(
        ValueError, match=r"inputs\[1\] has 10 tokens, inputs\[2\] has 10 tokens, .* 8 at most.*split_se"
    ):
        limited(["w1", long, long])


def test_truncation_cuts_at_the_limit_with_a_warning(limited, caplog):
    long = " ".join(f"w{i}" for i in range(12))
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        assert limited([long], truncation=True) == limited(["w0 w1 w2 w3 w4 w5 w6"])
    assert "Cut 1 text to 8 tokens" in caplog.text
    assert limited(long, truncation=True, max_source_length=4) == limited("w0 w1 w2")


def test_split_text_is_translated_in_pieces_at_sentence_ends(limited):
    sentences = ["w1 w2 w3 .", "w4 w5 ?", "w6 w7 w8 w9 !"]  # 5, 4 and 6 tokens with the end token
    wholes = [" ".join(part) for part in (sentences[:2], sentences[2:])]
    pieces = [result["translation_text"] for result in limited(wholes, split_sentences=False)]
    [result] = limited(" ".join(sentences), split_sentences=True)
    assert result["translation_text"] == " ".join(pieces)


def test_split_text_keeps_its_line_breaks(limited):
    one, two = (limited(text)[0]["translation_text"] for text in ("w1", "w2 w3"))
    results = limited(["w1\n\nw2 w3\r\n", "w1"], split_sentences=True)
    assert [r["translation_text"] for r in results] == [f"{one}\n\n{two}\r\n", one]


def test_split_text_has_one_score_and_one_alignment(limited):
    options = {"return_scores": True, "return_alignments": True, "length_penalty": 0.5}
    one, two = limited(["w1 w2", "w3 w4 w5"], **options)
    [both] = limited("w1 w2\nw3 w4 w5", split_sentences=True, **options)
    # Each has 3 tokens: log-probabilities add up, and are divided by 6^0.5.
    assert both["score"] == pytest.approx((one["score"] + two["score"]) * 3**0.5 / 6**0.5)
    assert both["source_tokens"] == ["w1", "w2", "w3", "w4", "w5"]
    assert both["target_tokens"] == one["target_tokens"] + two["target_tokens"]
    assert both["alignment"] == one["alignment"] + [(s + 2, t + 3) for s, t in two["alignment"]]


def test_split_text_may_have_several_hypotheses(limited):
    options = {"n_best": 2, "num_beams": 2}
    [first], [second] = ([h] for h in limited("w1\nw2", split_sentences=True, **options))
    parts = limited(["w1", "w2"], **options)
    assert [h["translation_text"] for h in (first, second)] == [
        "\n".join(part[rank]["translation_text"] for part in parts) for rank in (0, 1)
    ]


def test_text_without_spaces_is_split_too(tmp_path):
    model, tokenizer = family("Bart", tmp_path)
    translator = pipeline("translation", model=model, tokenizer=tokenizer, max_new_tokens=2)
    text = "ab" * 1500
    with pytest.raises(ValueError, match="3002 tokens, but a text may have 40"):
        translator(text)
    seen = []
    translator._forward = lambda inputs, **options: (
        seen.extend(inputs["attention_mask"].sum(1).tolist())
        or TranslationPipeline._forward(translator, inputs, **options)
    )
    translator(text, split_sentences=True)
    assert max(seen) == 40
    assert sum(seen) == 3000 + 2 * len(seen)


def test_default_limit_applies_to_models_without_one(tokenizer):
    translator = pipeline("translation", model=tiny_model(), tokenizer=tokenizer)
    text = "w1 " * 5000
    with pytest.raises(ValueError, match="5001 tokens, but a text may have 4096 at most"):
        translator(text)
    assert translator(text, max_source_length=6000, max_new_tokens=1)

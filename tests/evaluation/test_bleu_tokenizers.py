"""The tokenizer of BLEU for each target language."""

import pytest
from sacrebleu.metrics import BLEU

from hf_vaswani.evaluation import score_settings
from hf_vaswani.evaluation.score import TOKENIZERS, bleu
from hf_vaswani.evaluation.score_settings import default_tokenizer, preferred_tokenizer, tokenizer_warning


def test_choices_are_those_of_sacrebleu():
    assert {language: preferred_tokenizer(language) for language in BLEU._TOKENIZER_MAP} == BLEU._TOKENIZER_MAP
    assert preferred_tokenizer("de") == preferred_tokenizer(None) == BLEU.TOKENIZER_DEFAULT
    assert set(score_settings.TOKENIZER_OF.values()) < set(TOKENIZERS)


@pytest.mark.parametrize("code", ["zh", "ZH", "zh-CN", "zh_TW", "zho_Hans", "cmn", "yue"])
def test_all_codes_of_chinese_have_its_tokenizer(code):
    assert default_tokenizer(code) == "zh"


@pytest.mark.parametrize("code", ["th", "lo", "km", "my", "tha_Thai", "khm_Khmr"])
def test_other_languages_without_spaces_are_scored_by_characters(code):
    assert default_tokenizer(code) == "char"


@pytest.mark.parametrize(("is_installed", "expected"), [(True, "ja-mecab"), (False, "char")])
def test_japanese_is_scored_by_characters_without_mecab(monkeypatch, is_installed, expected):
    monkeypatch.setattr(score_settings, "find_spec", lambda name: object() if is_installed else None)
    assert default_tokenizer("ja") == expected


def test_a_chinese_translation_with_one_wrong_word_has_a_score():
    reference, hypothesis = ["我们明天早上去北京看长城。"], ["我们明天晚上去北京看长城。"]
    assert bleu(hypothesis, reference, tokenize="13a").value == 0
    score = bleu(hypothesis, reference, tokenize=default_tokenizer("zh"))
    # 12 of 13 characters are right, 10 of 12 pairs, 8 of 11 triples, and 6 of 10 quadruples.
    assert score.value == pytest.approx(100 * (12 / 13 * 10 / 12 * 8 / 11 * 6 / 10) ** 0.25)
    assert "tok:zh" in score.signature


def test_another_tokenizer_than_that_of_the_language_is_told():
    assert tokenizer_warning("zh", "zh", ["我们"]) is None
    assert tokenizer_warning("none", "zh", ["我 们"]) is None
    assert tokenizer_warning("13a", "en", ["We"]) is None
    warning = tokenizer_warning("char", "ja", ["東京へ"])
    assert "char" in warning and "--tokenize ja-mecab" in warning and 'pip install "sacrebleu[ja]"' in warning


@pytest.mark.parametrize(
    ("text", "language"), [("我们明天去", "zh"), ("東京へ行く", "ja"), ("สวัสดี", "th"), ("We go to 北京.", "zh")]
)
def test_a_language_that_is_not_named_is_seen_by_its_script(text, language):
    assert f"in {language}," in tokenizer_warning("13a", None, [text])
    assert tokenizer_warning("13a", None, [text, "Yes.", "No."]) is None

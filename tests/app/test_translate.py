"""Text on the page: translated sentence by sentence, with the pipeline's output for each."""

import pytest

from hf_vaswani.app.limits import LONGEST_LINKED_TEXT, LONGEST_TEXT
from hf_vaswani.app.models import LoadedModel
from hf_vaswani.app.translate import translate_text
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.errors import InputError
from hf_vaswani.text.markers import KEEP_TOKENS
from hf_vaswani.translator.pipeline import TranslationPipeline

from ..conftest import tiny_model

TEXT = "w1 w2 . w3\n\nw4 w5! w6 w7? w8\nw9"
SENTENCES = ["w1 w2 .", "w3", "w4 w5!", "w6 w7?", "w8", "w9"]


def translator(loaded):
    return TranslationPipeline(loaded.model, tokenizer=loaded.tokenizer)


def test_translation_grows_by_complete_sentences_and_keeps_line_breaks(loaded):
    steps = list(translate_text(loaded, TEXT))
    assert [len(step.sentences) for step in steps] == [1, 3, 6]
    assert [step.is_done for step in steps] == [False, False, True]
    assert [sentence.piece.text for sentence in steps[-1].sentences] == SENTENCES
    best = [translator(loaded)(s)[0]["translation_text"] for s in SENTENCES]
    lines = [f"{best[0]} {best[1]}", "", " ".join(best[2:5]), best[5]]
    assert steps[-1].text == "\n".join(lines)
    assert len(set(best)) > 2


def test_n_best_translations_and_scores_match_the_pipeline(loaded):
    [step] = translate_text(loaded, "w1 w2 w3", n_best=3)
    expected = translator(loaded)("w1 w2 w3", n_best=3, num_beams=3)
    [sentence] = step.sentences
    assert [h["translation_text"] for h in sentence.hypotheses] == [h["translation_text"] for h in expected]
    assert [h["score"] for h in sentence.hypotheses] == pytest.approx([h["score"] for h in expected], abs=1e-5)


def test_model_with_placeholders_keeps_addresses():
    lines = ["a dog runs", "the man sees it: x, y"]
    markers = list(KEEP_TOKENS), list(KEEP_TOKENS)
    tokenizer = train_tokenizer(list(zip(lines, lines)), TokenizerArguments(vocab_size=80), markers)
    model = LoadedModel("m", tiny_model(vocab_size=len(tokenizer)), tokenizer)
    *_, last = translate_text(model, "the man sees http://a.de/x y")
    assert "http://a.de/x" in last.text


def test_sentences_whose_translation_may_be_wrong_are_named(loaded):
    loaded.model.config.source_language = "de"
    sentences = "The dog runs in the park.\nПривет"
    *_, last = translate_text(loaded, f"{sentences}\n" + "猫\n" * 10)
    english, russian, *_ = last.warnings
    assert english.startswith("'The dog runs in the park.': the source looks like en, not like de; the source has")
    assert "looks like ru" in russian and "vocabulary lacks: Привет" in russian
    assert len(last.warnings) == 6 and last.warnings[-1] == "7 more translations may be wrong."


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_empty_text_is_rejected(loaded, text):
    with pytest.raises(InputError, match="The text is empty."):
        next(translate_text(loaded, text))


def test_longest_text_is_accepted_without_links_and_a_longer_one_is_rejected(loaded):
    text = "w1 . " * (LONGEST_TEXT // 5)
    assert len(text) == LONGEST_TEXT
    assert not next(translate_text(loaded, text)).has_links
    assert next(translate_text(loaded, text[:LONGEST_LINKED_TEXT])).has_links
    with pytest.raises(InputError, match="The text has 100,005 characters, but at most 100,000 are allowed."):
        next(translate_text(loaded, text + "w1 . "))


def test_failed_sentence_is_marked_and_does_not_affect_the_others(loaded, monkeypatch):
    from hf_vaswani.app import translate

    class Engine:
        def translate(self, texts):
            return [
                RuntimeError("out of <memory>") if text == "w2." else [{"translation_text": f"<{text}>", "score": 0.0}]
                for text in texts
            ]

    monkeypatch.setattr(translate, "make_translator", lambda *_: Engine())
    [*_, last] = translate_text(loaded, "w1. w2. w3.")
    assert last.text == "<w1.> [not translated: RuntimeError: out of <memory>] <w3.>"


def test_lone_surrogates_and_control_characters_do_not_break_translation(loaded):
    [*_, last] = translate_text(loaded, "w1 \ud800 w2\x00\x1b\u202e w3")
    assert last.is_done

"""References that a model cannot write, and scores of models that write no capitals."""

import unicodedata

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_vaswani.core.tokenization_vaswani import VaswaniTokenizer
from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.evaluation import unreachable as module
from hf_vaswani.evaluation.score import scores
from hf_vaswani.evaluation.score_settings import lowercases_targets, score_settings
from hf_vaswani.evaluation.unreachable import CAPITALS, FORM, UNKNOWN, form_warning, unreachable, unreachable_warning

TARGETS = ["Über den Fluss für Köche", "Ein Café, zwei Köche", "Grüße für den Café am Fluss"]


def tokenizer_of(**arguments):
    return train_tokenizer([(text, text) for text in TARGETS], TokenizerArguments(**{"vocab_size": 80, **arguments}))


@pytest.mark.parametrize("arguments", [{}, {"joint": False}, {"type": "word", "min_frequency": 1}])
def test_text_of_the_vocabulary_can_be_written(arguments):
    assert unreachable(tokenizer_of(**arguments), [*TARGETS, "", " Ein  Café "]) == {}


def test_references_in_another_unicode_form_are_counted():
    decomposed = [unicodedata.normalize("NFD", text) for text in TARGETS]
    assert unreachable(tokenizer_of(), [*decomposed, "Fluss"]) == {FORM: 3}
    # Even if they also have a character that the vocabulary lacks.
    assert unreachable(tokenizer_of(), [decomposed[0] + "%"]) == {FORM: 1}
    assert unreachable(tokenizer_of(normalization="nfkc"), ["Ein Ca\ufb00"]) == {FORM: 1}


def test_references_with_unknown_characters_are_counted():
    assert unreachable(tokenizer_of(), ["Ein Fluss", "Ein Fluss %", "Ж"]) == {UNKNOWN: 2}
    assert unreachable(tokenizer_of(byte_fallback=True, vocab_size=400), ["Ein Fluss %", "Ж"]) == {}


def test_capitals_count_unless_scores_are_lowercased():
    tokenizer = tokenizer_of(lowercase=True)
    assert unreachable(tokenizer, TARGETS) == {CAPITALS: 3}
    assert unreachable(tokenizer, TARGETS, lowercase=True) == {}


def test_many_references_are_sampled(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 10)
    counts = unreachable(tokenizer_of(), ["Ж"] * 100)
    assert counts == {UNKNOWN: 100}
    assert "estimated from a sample" in unreachable_warning("test.de", counts, 100)


def test_warning_says_what_to_do_about_the_unicode_form():
    warning = unreachable_warning("test.de", {FORM: 3, UNKNOWN: 1}, 1500)
    assert "cannot write 4 of 1,500 references of test.de" in warning and "NFC" in warning
    assert "NFC" not in unreachable_warning("test.de", {UNKNOWN: 1}, 1500)


def test_a_file_in_another_unicode_form_than_the_references_is_told():
    decomposed = [unicodedata.normalize("NFD", text) for text in TARGETS]
    assert form_warning("new.de", TARGETS, TARGETS) is None and form_warning("new.de", decomposed, decomposed) is None
    assert "3 of 3 lines of the references are not" in form_warning("new.de", TARGETS, decomposed)
    assert "3 of 3 lines of new.de are not" in form_warning("new.de", decomposed, TARGETS)


def test_tokenizers_that_lowercase_targets_are_recognized():
    assert lowercases_targets(tokenizer_of(lowercase=True)) and not lowercases_targets(tokenizer_of())
    cased, lowercased = (tokenizer_of(lowercase=lowercase).backend_tokenizer for lowercase in (False, True))
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    assert lowercases_targets(VaswaniTokenizer.from_backends(cased, lowercased, **special))
    assert not lowercases_targets(VaswaniTokenizer.from_backends(lowercased, cased, **special))
    plain = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    assert not lowercases_targets(PreTrainedTokenizerFast(tokenizer_object=plain))


def test_a_perfect_translation_without_capitals_has_the_best_scores():
    settings = score_settings(tokenizer_of(lowercase=True), "de").arguments()
    found = scores([text.lower() for text in TARGETS], TARGETS, **settings)
    assert [score.value for score in found] == pytest.approx([100, 100, 0])
    assert all("case:lc" in score.signature for score in found)

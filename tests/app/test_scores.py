"""The page's tabs for scores and beam search."""

import pytest
import sacrebleu

from hf_vaswani.app.figures import search_figure
from hf_vaswani.app.scores import scored
from hf_vaswani.errors import InputError
from hf_vaswani.translator.pipeline import TranslationPipeline


def test_scores_match_sacrebleu_on_the_pipelines_translations(loaded):
    sources, references = ["w1 w2", "w3"], ["w4 w5 w6 w7", "w8"]
    translations = [
        result["translation_text"] for result in TranslationPipeline(loaded.model, tokenizer=loaded.tokenizer)(sources)
    ]
    references[0] = translations[0]
    markup = scored(loaded, "\n".join(sources) + "\n", "\n".join(references))
    for name, score in (
        ("BLEU", sacrebleu.corpus_bleu(translations, [references]).score),
        ("chrF2", sacrebleu.corpus_chrf(translations, [references]).score),
    ):
        assert f">{name} {score:.2f} (" in markup
    assert f">{translations[1]}<" in markup and ">100.0<" in markup


def test_line_count_mismatch_is_rejected(loaded):
    with pytest.raises(InputError, match="The text has 2 lines, but the references have 1. Give one per line."):
        scored(loaded, "w1\nw2", "w1")
    with pytest.raises(InputError, match="The reference text is empty."):
        scored(loaded, "w1\nw2", " ")


def test_search_is_drawn_with_its_settings(loaded):
    markup = search_figure(loaded, "w1 w2", 2)
    assert "<svg" in markup and "num_beams=2" in markup and "The search ended at step" in markup
    with pytest.raises(InputError, match="The text has 501 characters"):
        search_figure(loaded, "w" * 501, 2)

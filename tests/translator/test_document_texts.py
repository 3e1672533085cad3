"""Texts of documents: aligned with their translations if they have tags."""

from hf_vaswani.translator import documents as document_texts
from hf_vaswani.translator.documents import align_texts


def test_texts_with_tags_are_aligned_sentence_by_sentence(monkeypatch):
    asked = []

    def align(model, tokenizer, pairs, words):
        asked.extend(pairs)
        return [{(0, 0), (len(words(source)) - 1, len(words(target)) - 1)} for source, target in pairs]

    monkeypatch.setattr(document_texts, "align_pairs", align)
    texts = ["A dog. It runs!", "A dog. It runs!", "No tags.", "One. Two."]
    translations = ["Ein Hund. Er rennt!", "Ein Hund. Er rennt!", "Keine.", "Eins und zwei."]
    found = align_texts(None, None, texts, translations, [True, True, False, True])
    assert asked == [("A dog.", "Ein Hund."), ("It runs!", "Er rennt!"), ("One. Two.", "Eins und zwei.")]
    links = {(0, 0), (2, 2), (3, 3), (5, 5)}
    assert found == [links, links, None, {(0, 0), (3, 3)}]


def test_model_without_attention_aligns_nothing(monkeypatch):
    def refuse(*_, **__):
        raise ValueError

    monkeypatch.setattr(document_texts, "align_pairs", refuse)
    assert align_texts(None, None, ["a", "b"], ["c", "d"], [True, False]) == [None, None]

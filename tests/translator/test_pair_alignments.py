"""Word alignments of given pairs, from a teacher-forced pass."""

import torch

from hf_vaswani.translator import pairs as pair_alignments
from hf_vaswani.translator.pairs import align_pairs

from ..conftest import tiny_model


def test_each_word_is_linked_to_the_one_that_the_heads_of_the_layer_attend_to_most(tokenizer):
    model = tiny_model()
    pairs = [("w1 w2 w3", "w4 w5"), ("w6 w7", "w8 w9 w10"), ("", "w1")]
    source = torch.tensor([[5, 6, 7, 2], [10, 11, 2, 0]])
    labels = torch.tensor([[8, 9, 2, -100], [12, 13, 14, 2]])
    own = tiny_model("eager")
    weights = own(source, source.ne(0).long(), labels=labels, output_attentions=True).cross_attentions[1].mean(1)
    expected = [
        {(int(weights[row, i, :words].argmax()), i) for i in range(length)}
        for row, words, length in ((0, 3, 2), (1, 2, 3))
    ]
    assert align_pairs(model, tokenizer, pairs) == [*expected, set()]


def test_words_of_several_tokens_have_the_links_of_all_of_them(tokenizer, monkeypatch):
    aligned = {
        "source_tokens": ["▁Haus", "tür", "▁offen", "."],
        "target_tokens": ["▁front", "▁do", "or", "▁open", "."],
        "alignment": [(0, 0), (1, 1), (2, 2), (2, 3), (3, 4)],
    }
    monkeypatch.setattr(pair_alignments, "align", lambda *_: [[aligned]])
    links = align_pairs(tiny_model(), tokenizer, [("Haustür offen .", "front door open .")])
    assert links == [{(0, 0), (0, 1), (1, 1), (1, 2), (2, 3)}]


def test_pairs_beyond_the_positions_of_the_model_are_not_aligned(tokenizer):
    model = tiny_model(position_type="learned", max_position_embeddings=4)
    assert align_pairs(model, tokenizer, [("w1 w2 w3 w4", "w1"), ("w1", "w2")]) == [None, {(0, 0)}]

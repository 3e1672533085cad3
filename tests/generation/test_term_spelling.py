"""How tokenizers spell terms in running text, and where words end."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hf_vaswani.generation.term_spelling import JOINING, LETTER, OTHER, TermSpeller
from hf_vaswani.text.glossary import Term

PIECES = ["<unk>", "</s>", "▁hound", "hound", "▁Ho", "und", "s", "▁s", ".", "▁(", "▁狗"]


def tokenizer(model, pre_tokenizer, decoder):
    backend = Tokenizer(model)
    backend.pre_tokenizer, backend.decoder = pre_tokenizer, decoder
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def metaspace():
    model = models.Unigram([(piece, -float(len(piece) < 3) - 1) for piece in PIECES], unk_id=0)
    return tokenizer(model, pre_tokenizers.Metaspace(), decoders.Metaspace())


def word_pieces():
    vocabulary = {piece: i for i, piece in enumerate(["<unk>", "</s>", "hound", "ho", "##und", "##s", "."])}
    model = models.WordPiece(vocabulary, unk_token="<unk>")
    return tokenizer(model, pre_tokenizers.Whitespace(), decoders.WordPiece(cleanup=False))


def spelled(tokenizer, term, is_exact):
    return {
        tuple(tokenizer.convert_ids_to_tokens(ids)) for ids in TermSpeller(tokenizer).spellings([Term(term, is_exact)])
    }


def test_spellings_after_spaces_and_punctuation_and_with_a_capital():
    assert spelled(metaspace(), "hound", True) == {("▁hound",), ("hound",)}
    assert spelled(metaspace(), "hound", False) == {("▁hound",), ("hound",), ("▁Ho", "und")}
    assert spelled(word_pieces(), "hounds", True) == {("hound", "##s")}


def test_a_term_with_unknown_characters_has_no_spelling():
    speller = TermSpeller(metaspace())
    assert speller.spellings([Term("hound", True)]) and not speller.spellings([Term("cat", True)])


@pytest.mark.parametrize(
    "make, begins, ends",
    [
        (
            metaspace,
            {"▁hound": LETTER, "hound": JOINING, "s": JOINING, "▁s": LETTER, ".": OTHER, "▁(": OTHER, "▁狗": OTHER},
            {"▁hound": LETTER, "s": LETTER, ".": OTHER, "▁狗": OTHER},
        ),
        (word_pieces, {"hound": LETTER, "##s": JOINING, ".": OTHER}, {"hound": LETTER, "##s": LETTER, ".": OTHER}),
    ],
)
def test_what_tokens_begin_and_end_with(make, begins, ends):
    made = make()
    kinds = TermSpeller(made).token_kinds
    assert {token: int(kinds.begins[made.convert_tokens_to_ids(token)]) for token in begins} == begins
    assert {token: int(kinds.ends[made.convert_tokens_to_ids(token)]) for token in ends} == ends

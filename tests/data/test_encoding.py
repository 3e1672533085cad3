import pytest

from hf_vaswani.data.encoding import Collator, encode_pairs
from hf_vaswani.errors import InputError

PAIRS = [("w1 w2", "w3"), ("w4", "w5 w6 w7")]


def test_pairs_become_token_ids_with_their_lengths(tokenizer):
    encoded = encode_pairs(PAIRS, tokenizer)
    assert encoded.dataset["input_ids"][:] == [[5, 6, 2], [8, 2]]
    assert encoded.dataset["labels"][:] == [[7, 2], [9, 10, 11, 2]]
    assert encoded.source_lengths.tolist() == [3, 2]
    assert encoded.target_lengths.tolist() == [2, 4]


def test_collator_pads_source_with_the_pad_token_and_labels_with_the_ignore_index(tokenizer):
    encoded = encode_pairs(PAIRS, tokenizer)
    batch = Collator(tokenizer.pad_token_id)([encoded.dataset[i] for i in range(2)])
    assert batch["input_ids"].tolist() == [[5, 6, 2], [8, 2, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[7, 2, -100, -100], [9, 10, 11, 2]]


def test_empty_and_long_pairs_are_left_out_and_counted(tokenizer, caplog):
    pairs = [*PAIRS, (" \u200b", "w1"), ("w1", ""), ("w1", " ".join(["w2"] * 9))]
    with caplog.at_level("WARNING", logger="hf_vaswani"):
        assert len(encode_pairs(pairs, tokenizer, max_length=5)) == 2
    assert "3 of 5 given pairs left out: 2 with an empty side, 1 over 5 tokens" in caplog.text


def test_no_usable_pair_is_a_clear_error(tokenizer):
    with pytest.raises(
        InputError, match="No pair among 2 test pairs is usable: 1 with an empty side, 1 over 3 tokens"
    ):
        encode_pairs([("", "w1"), ("w1 w2 w3", "w1")], tokenizer, 3, "test")

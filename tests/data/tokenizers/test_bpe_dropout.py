import random
from collections import Counter

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from hf_vaswani.data.tokenizers.arguments import TokenizerArguments
from hf_vaswani.data.tokenizers.bpe_dropout import BpeDropout
from hf_vaswani.data.tokenizers.tokenizer import train_tokenizer
from hf_vaswani.errors import InputError

PAIRS = [
    ("Ein Hund läuft über die Straße.", "A dog runs across the street."),
    ("Zwei Hunde schlafen; 21 Katzen nicht!", "Two dogs sleep; 21 cats don't!"),
    ("كلب يجري في الشارع، أليس كذلك؟", "我们今天去北京大学，好吗？"),
] * 20
TEXTS = [side for pair in PAIRS[:3] for side in pair]
# Words too long for the cache, spaces, unknown characters, special and added tokens.
HARD = [
    "",
    "  a  b ",
    "schlafenschlafenStraße" * 5,
    "Жук 😀",
    "<s> Hund</s>",
    "dog<name> <name>dog",
    "a\u0308 ﷺ",
    "x\ty",
]

MERGES = [("a", "b"), ("c", "d"), ("ab", "c"), ("b", "c"), ("ab", "cd"), ("a", "bc")]
# No two of these ever compete for the same piece.
DISJOINT_MERGES = [("a", "b"), ("c", "d"), ("ab", "cd")]
PIECES = ["a", "b", "c", "d", "ab", "cd", "abc", "bc", "abcd"]


def learn(**arguments):
    return train_tokenizer(PAIRS, TokenizerArguments(**{"vocab_size": 200, **arguments}))


def small_backend(merges=MERGES, dropout: float | None = None) -> Tokenizer:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    backend = Tokenizer(models.BPE(vocabulary, merges, dropout=dropout))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend


def simulate(word: str, probability: float, generator: random.Random) -> tuple[str, ...]:
    """The algorithm as stated in the paper, with one coin toss per merge and step."""
    pieces = list(word)
    while True:
        possible = [
            (MERGES.index(pair), place) for place, pair in enumerate(zip(pieces, pieces[1:])) if pair in MERGES
        ]
        kept = [merge for merge in possible if generator.random() >= probability]
        if not kept:
            return tuple(pieces)
        _, place = min(kept)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


def shares(splits) -> dict[tuple[str, ...], float]:
    counts = Counter(splits)
    return {split: count / counts.total() for split, count in counts.items()}


def largest_difference(first: dict, second: dict) -> float:
    return max(abs(first.get(split, 0) - second.get(split, 0)) for split in first.keys() | second.keys())


@pytest.mark.parametrize("arguments", [{}, {"vocab_size": 450, "byte_fallback": True}, {"lowercase": True}])
@pytest.mark.parametrize("split_special_tokens", [True, False])
def test_without_dropout_ids_match_the_tokenizer(arguments, split_special_tokens):
    backend = learn(**arguments).backend_tokenizer
    backend.add_tokens([AddedToken("<name>")])
    backend.encode_special_tokens = split_special_tokens
    texts = TEXTS + HARD
    encoded = BpeDropout(backend, 0.0).encode(texts, np.random.default_rng(0))
    assert encoded == [encoding.ids for encoding in backend.encode_batch(texts)]


def test_truncation_and_padding_of_the_tokenizer_are_ignored():
    backend = learn().backend_tokenizer
    full = backend.encode(TEXTS[0]).ids
    backend.enable_truncation(5)
    backend.enable_padding(length=100)
    assert BpeDropout(backend, 0.0).encode([TEXTS[0]], np.random.default_rng(0)) == [full]


# With this sample size, the standard deviation of the difference of two shares is at most 0.005.
N, WORD = 20_000, "abcdabc"


def dropout_shares(backend: Tokenizer, probability: float) -> dict[tuple[str, ...], float]:
    encoded = BpeDropout(backend, probability).encode([WORD] * N, np.random.default_rng(6))
    return shares(tuple(PIECES[i] for i in ids) for ids in encoded)


@pytest.mark.parametrize("remembered", [BpeDropout.REMEMBERED_PIECES, 0])
@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_segmentation_distribution_matches_the_algorithm(probability, remembered, monkeypatch):
    monkeypatch.setattr(BpeDropout, "REMEMBERED_PIECES", remembered)
    generator = random.Random(5)
    expected = shares(simulate(WORD, probability, generator) for _ in range(N))
    assert len(expected) > 15
    assert largest_difference(dropout_shares(small_backend(), probability), expected) < 0.02


# When a queued merge is outdated, the library gives dropped merges another chance, unlike the paper. With competing
# merges, the two differ by up to 0.01 at probability 0.1, and by up to 0.08 at 0.5.
@pytest.mark.parametrize("merges, probability", [(MERGES, 0.1), (DISJOINT_MERGES, 0.5)])
def test_segmentation_distribution_matches_the_library(merges, probability):
    library = small_backend(merges, dropout=probability).encode_batch([WORD] * N)
    expected = shares(tuple(encoding.tokens) for encoding in library)
    # The library cannot be seeded, so the tolerance is at least six standard deviations.
    assert largest_difference(dropout_shares(small_backend(merges), probability), expected) < 0.04


def test_merges_are_dropped_with_the_given_probability():
    encoded = BpeDropout(small_backend(), 0.3).encode(["cd"] * 20_000, np.random.default_rng(1))
    dropped = sum(len(ids) == 2 for ids in encoded) / len(encoded)
    assert abs(dropped - 0.3) < 0.015  # more than four standard deviations


@pytest.mark.parametrize("remembered", [0, 3])
def test_caching_does_not_change_the_ids(remembered, monkeypatch):
    backend = learn().backend_tokenizer
    usual = BpeDropout(backend, 0.3).encode(TEXTS * 30, np.random.default_rng(3))
    monkeypatch.setattr(BpeDropout, "REMEMBERED_PIECES", remembered)
    monkeypatch.setattr(BpeDropout, "REMEMBERED_STATES", 5)
    assert BpeDropout(backend, 0.3).encode(TEXTS * 30, np.random.default_rng(3)) == usual


def test_same_seed_gives_the_same_ids_for_any_batching():
    backend, dropout = learn().backend_tokenizer, BpeDropout(learn().backend_tokenizer, 0.2)
    texts = TEXTS * 200  # more than one internal batch
    first = dropout.encode(texts, np.random.default_rng(7))
    assert BpeDropout(backend, 0.2).encode(texts, np.random.default_rng(7)) == first
    generator = np.random.default_rng(7)
    assert [dropout.encode([text], generator)[0] for text in texts] == first
    assert dropout.encode(texts, np.random.default_rng(8)) != first


def test_generator_resumes_from_its_stored_state():
    dropout, generator = BpeDropout(learn().backend_tokenizer, 0.2), np.random.default_rng(7)
    dropout.encode(TEXTS, generator)
    stored = generator.bit_generator.state
    expected = dropout.encode(TEXTS, generator)
    other = np.random.default_rng(0)
    other.bit_generator.state = stored
    assert BpeDropout(learn().backend_tokenizer, 0.2).encode(TEXTS, other) == expected


def test_decoding_restores_the_text():
    tokenizer = learn(byte_fallback=True, vocab_size=500, normalization="none", whitespace="keep")
    dropout = BpeDropout(tokenizer.backend_tokenizer, 0.5)
    texts = TEXTS + HARD
    encoded = dropout.encode(texts, np.random.default_rng(0))
    assert tokenizer.batch_decode(encoded, skip_special_tokens=True) == texts
    assert all(ids[-1] == tokenizer.eos_token_id for ids in encoded)
    assert sum(map(len, encoded)) > sum(len(tokenizer(text)["input_ids"]) for text in texts)


def test_non_bpe_tokenizers_are_rejected():
    with pytest.raises(InputError, match="this tokenizer uses WordLevel"):
        BpeDropout(learn(type="word").backend_tokenizer, 0.1)

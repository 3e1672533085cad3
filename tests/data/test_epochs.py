from collections import Counter

import numpy as np
import pytest
from datasets import Dataset

from hf_vaswani.data import epochs
from hf_vaswani.data.encoding import EncodedPairs, plain_encoder
from hf_vaswani.data.epochs import Budget, ResampledCorpus, StreamedCorpus, TokenizedCorpus
from hf_vaswani.data.filters import FilterSettings

PAIRS = [(" ".join(["w1"] * (i % 7 + 1)), f"w{i % 36} w{i // 36 % 36}") for i in range(100)]
STREAM = FilterSettings(count_duplicates=False)
BUDGET = Budget(max_tokens=30, max_length=10, seed=3)


def rows_of(part) -> list[tuple]:
    """The pairs of token ids, in batch order."""
    rows = part.pairs.dataset[:]
    return [(tuple(rows["input_ids"][i]), tuple(rows["labels"][i])) for batch in part.batches for i in batch]


def all_rows(corpus, epoch, first=0) -> list[tuple]:
    return [row for part in corpus.parts(epoch, first) for row in rows_of(part)]


@pytest.fixture
def encode(tokenizer):
    return plain_encoder(tokenizer)


@pytest.fixture
def expected(encode):
    return Counter(zip(*(map(tuple, side) for side in encode(*map(list, zip(*PAIRS))))))


@pytest.fixture(params=["tokenized", "resampled", "streamed"])
def corpus(request, encode, monkeypatch):
    monkeypatch.setattr(epochs, "PART_SIZE", 30)
    sources, targets = map(list, zip(*PAIRS))
    if request.param == "tokenized":
        return TokenizedCorpus(EncodedPairs.of(*encode(sources, targets)), BUDGET)
    if request.param == "resampled":
        return ResampledCorpus(Dataset.from_dict({"source": sources, "target": targets}), encode, encode, BUDGET)
    streams = [lambda: iter(PAIRS[:40]), lambda: iter(PAIRS[40:])]
    return StreamedCorpus(streams, None, STREAM, encode, encode, BUDGET, part_size=30)


def test_every_pair_appears_exactly_once_per_epoch_within_the_token_budget(corpus, expected):
    for epoch in (0, 1):
        assert Counter(all_rows(corpus, epoch)) == expected
        for part in corpus.parts(epoch):
            for batch in part.batches:
                lengths = part.pairs.source_lengths[batch], part.pairs.target_lengths[batch]
                assert len(batch) * max(side.max() for side in lengths) <= BUDGET.max_tokens


def test_order_is_fixed_by_seed_and_epoch(corpus):
    assert all_rows(corpus, 0) == all_rows(corpus, 0)
    assert all_rows(corpus, 0) != all_rows(corpus, 1)


def test_epoch_can_start_at_any_part(corpus):
    parts = list(corpus.parts(1))
    for number in range(len(parts) + 1):
        assert all_rows(corpus, 1, number) == [row for part in parts[number:] for row in rows_of(part)]
    assert [part.number for part in parts] == list(range(len(parts)))


def test_pairs_made_too_long_by_random_segmentation_keep_their_plain_tokens(encode):
    def doubled(sources, targets, generator):
        return tuple([ids[:-1] * 2 + ids[-1:] for ids in side] for side in encode(sources, targets))

    text = Dataset.from_dict({"source": ["w1 w2", "w1 w2 w3 w4 w5"], "target": ["w3", "w4"]})
    corpus = ResampledCorpus(text, doubled, encode, Budget(max_tokens=30, max_length=8))
    assert sorted(len(source) for source, _ in all_rows(corpus, 0)) == [5, 6]


def test_random_segmentation_depends_only_on_epoch_and_part(encode):
    def random_ids(sources, targets, generator):
        return tuple([[*generator.integers(4, 40, 3).tolist(), 2] for _ in side] for side in (sources, targets))

    text = Dataset.from_dict({"source": ["w1"] * 50, "target": ["w2"] * 50})
    corpus = ResampledCorpus(text, random_ids, encode, Budget(max_tokens=30))
    assert all_rows(corpus, 0) == all_rows(corpus, 0)
    assert Counter(all_rows(corpus, 0)) != Counter(all_rows(corpus, 1))


def test_stream_drops_and_counts_unusable_pairs(encode):
    pairs = [("w1", ""), ("w1 " * 20, "w2"), ("w3", "w4"), ("w3", "w4 w5 w6 w7")]
    settings = FilterSettings(count_duplicates=False, max_length_ratio=2)
    corpus = StreamedCorpus([lambda: iter(pairs)], None, settings, encode, encode, BUDGET, part_size=3)
    assert all_rows(corpus, 0) == [((7, 2), (8, 2))]
    counts = [part.counts for part in corpus.parts(0)]
    assert [part["pairs"] for part in counts] == [3, 1]
    assert counts[0] | counts[1] == {
        "pairs": 1, "empty": 0, "control_characters": 0, "copies": 0, "too_long": 0, "length_ratio": 1,
    }  # fmt: skip
    assert counts[0]["empty"] == counts[0]["too_long"] == 1


def test_every_corpus_type_keeps_the_mixture_shares(encode, monkeypatch):
    monkeypatch.setattr(epochs, "PART_SIZE", 30)
    sources, targets = ["w1"] * 60 + ["w2"] * 20, ["w3"] * 80
    origins = np.array([0] * 60 + [1] * 20)
    tokenized = TokenizedCorpus(EncodedPairs(EncodedPairs.of(*encode(sources, targets)).dataset,
                                             np.full(80, 2), np.full(80, 2), origins), BUDGET, [1.0, 1.0])  # fmt: skip
    text = Dataset.from_dict({"source": sources, "target": targets})
    resampled = ResampledCorpus(text, encode, encode, BUDGET, origins, [1.0, 1.0])
    for corpus in (tokenized, resampled):
        assert Counter(source for source, _ in all_rows(corpus, 0)) == {(5, 2): 60, (6, 2): 60}

"""What is measured of a pair, next to the same computed word by word."""

import math

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from hf_vaswani.cleaning.measures import MEASURES, CellLexicon, PairMeasures

WORDS = ["<unk>", "der", "hund", "bellt", "laut", "the", "dog", "barks", "tom", "."]
# t(target | source) and t(source | target)
FORWARD = {("der", "the"): 0.9, ("hund", "dog"): 0.6, ("bellt", "barks"): 0.05, ("hund", "barks"): 0.2}
BACKWARD = {("the", "der"): 0.5, ("dog", "hund"): 0.8, ("barks", "bellt"): 0.04}
COUNTS = {"der": 60, "hund": 20, "bellt": 10, "laut": 10, "the": 60, "dog": 20, "barks": 10, "tom": 10}


def lexicon(probabilities):
    entries = sorted(
        (WORDS.index(source) * len(WORDS) + WORDS.index(target), 100 * share)
        for (source, target), share in probabilities.items()
    )
    return CellLexicon(np.array([entry for entry, _ in entries]), np.array([count for _, count in entries]),
                       np.full(len(WORDS), 100.0))  # fmt: skip


@pytest.fixture
def measures():
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    counts = np.array([[COUNTS.get(word, 0) for word in WORDS]] * 2)
    return PairMeasures(tokenizer, ((lexicon(FORWARD), lexicon(BACKWARD)),), counts, 1.0)


def measure(measures, *pairs):
    return [dict(zip(MEASURES, row.tolist())) for row in measures(pairs)]


def test_words_are_explained_in_either_direction(measures):
    [found] = measure(measures, ("der hund bellt laut .", "the dog barks ."))
    best = {"der": 0.9, "hund": 0.8, "bellt": 0.05, "laut": 0.0}
    rarity = {word: math.log(200 / COUNTS[word]) for word in best}
    for least in (0.02, 0.1, 0.3):
        share = sum(rarity[word] for word in best if best[word] >= least) / sum(rarity.values())
        assert found[f"source_explained_{least:g}"] == pytest.approx(share)
    logs = [math.log(value) for value in (0.9, 0.6, 0.2)]  # the best of t(target | source) for each target
    assert found["target_best"] == pytest.approx(sum(logs) / 3)
    assert found["target_probability"] == pytest.approx(
        sum(math.log(value / 4) for value in (0.9, 0.6, 0.05 + 0.2)) / 3
    )


def test_gaps_are_runs_of_words_that_nothing_explains(measures):
    one, other = measure(measures, ("der hund bellt laut .", "the dog"), ("laut bellt der hund .", "the dog"))
    assert (one["source_gap"], one["source_tail"]) == (0.5, 0.5)
    assert (other["source_gap"], other["source_tail"]) == (0.5, 0)
    assert one["target_gap"] == other["target_gap"] == 0


def test_equal_words_numbers_marks_and_ends(measures):
    [found] = measure(measures, ("tom laut 12 .", "tom barks 13"))
    assert found["source_same"] == pytest.approx(1 / 3) and found["other_numbers"] == 2 and found["numbers"] == 0
    assert found["marks"] == 0 and found["ends"] == 0


def test_pairs_are_measured_alike_alone_and_with_others(measures):
    pairs = [("der hund bellt .", "the dog barks ."), (".", "the"), ("laut", "tom"), ("der", "the dog the dog barks")]
    alone = np.concatenate([measures([pair]) for pair in pairs])
    assert np.array_equal(measures(pairs), alone, equal_nan=True)
    assert np.isnan(alone[1]).all() and not np.isnan(alone[[0, 2, 3]]).any()


def test_a_pair_is_explained_by_the_half_of_the_text_that_it_is_not_in():
    pairs = [(f"wort{number} und", f"word{number} and") for number in range(300)]
    measures = PairMeasures.learn(pairs)
    found = measure(measures, *pairs)
    # Each of the numbered words is in one pair alone.
    assert max(row["source_explained_0.3"] for row in found) < 1
    halves = measures.halves(pairs)
    assert 0.3 < halves.mean() < 0.7
    of_other_halves = measures(pairs, 1 - halves)
    assert of_other_halves[:, list(MEASURES).index("target_best")].mean() > np.mean(
        [row["target_best"] for row in found]
    )


def test_only_the_beginning_of_a_very_long_pair_is_looked_at(measures):
    start = ("der hund bellt laut . " * 100).strip(), ("the dog barks . " * 100).strip()
    whole = tuple(f"{text} {text[0]} " * 1000 for text in start)  # whose words have 12 thousand million combinations
    [expected, found] = measure(measures, start, whole)
    assert found["source_explained_0.3"] == pytest.approx(expected["source_explained_0.3"], abs=0.05)

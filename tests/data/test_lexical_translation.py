"""IBM model 1, against its formulas written out word by word."""

from collections import defaultdict

import numpy as np
import pytest

from hf_vaswani.data import alignment
from hf_vaswani.data.alignment import learn_translations

# A token may repeat in a sentence; one pair has an empty side.
PAIRS = [([5, 6], [7, 4]), ([5, 8], [7, 9]), ([6], [4]), ([5, 5, 9], [7, 7]), ([], [3]), ([8, 6, 5], [9, 4, 7, 3])]


def model_1(pairs, iterations):
    """t(target | source) by expectation maximization, sentence by sentence; the empty word is -1."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            origins = [-1, *source]
            for t in target if source else []:
                whole = sum(probability[s, t] for s in origins)
                for s in origins:
                    counts[s, t] += probability[s, t] / whole
                    totals[s] += probability[s, t] / whole
        probability = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return probability


@pytest.mark.parametrize("chunk", [2**22, 5])
def test_probabilities_are_those_of_model_1(chunk, monkeypatch):
    monkeypatch.setattr(alignment, "CHUNK_POSITIONS", chunk)
    table = learn_translations(*zip(*[(np.array(s, int), np.array(t, int)) for s, t in PAIRS]), iterations=4)
    found = zip(table.sources.tolist(), table.targets.tolist(), table.probabilities.tolist())
    assert {(s, t): p for s, t, p in found} == pytest.approx(model_1(PAIRS, 4))


def test_best_translations_are_in_the_order_of_their_probabilities():
    table = learn_translations(*zip(*[(np.array(s, int), np.array(t, int)) for s, t in PAIRS]))
    expected = model_1(PAIRS, alignment.ITERATIONS)
    for source in (5, 6, 8, 9):
        ranked = sorted((t for s, t in expected if s == source), key=lambda t: -expected[source, t])
        assert table.best(2)[source] == ranked[:2]
    assert -1 not in table.best(2)


def test_a_large_corpus_is_sampled(monkeypatch):
    monkeypatch.setattr(alignment, "MOST_POSITIONS", 40)
    rows = [np.array([number, number]) for number in range(100)]
    assert len(learn_translations(rows, rows).best(1)) == 40 // 6


def test_without_usable_pairs_there_are_no_translations():
    assert learn_translations([np.array([], int)], [np.array([1])]).best(3) == {}

"""Scores several translations against each of several references: the utility of minimum Bayes risk decoding.

Sentence chrF2 (Popović 2015) and sentence BLEU (Papineni et al. 2002) equal sacreBLEU's. sacreBLEU counts n-grams
again for each pair of strings. Here the n-grams of each string are counted once, and a matrix product compares all
pairs: the k-th occurrence of an n-gram is a feature of its own, so the number of features that two strings share is
the number of n-grams that they share, each counted as often as it occurs in both.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from sacrebleu.metrics import BLEU

CHRF_ORDER, CHRF_BETA, BLEU_ORDER = 6, 2, 4
FEATURES_AT_ONCE = 1 << 16
# Characters of Thai, Lao, Burmese, and Khmer, kana, and Chinese characters with their punctuation.
WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]"
)


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """chrF2, 0 to 100, of each hypothesis against each reference: float64 `(hypotheses, references)`."""
    sides = [["".join(text.split()) for text in side] for side in (hypotheses, references)]
    precision, recall, orders = np.zeros((3, len(hypotheses), len(references)))
    for order in range(1, CHRF_ORDER + 1):
        grams = [[_grams(text, order) for text in side] for side in sides]
        shared = _shared(*grams)
        in_hypothesis, in_reference = _sizes(grams[0])[:, None], _sizes(grams[1])[None, :]
        # An order counts only if both strings are long enough for it.
        precision += shared / np.maximum(in_hypothesis, 1)
        recall += shared / np.maximum(in_reference, 1)
        orders += (in_hypothesis > 0) & (in_reference > 0)
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = CHRF_BETA**2 * precision + recall
    return 100 * (1 + CHRF_BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """BLEU, 0 to 100, of each hypothesis against each reference: float64 `(hypotheses, references)`.

    It equals sacreBLEU's `BLEU(effective_order=True)`: tokenized by 13a, with exponential smoothing, and with only the
    orders for which the hypothesis has n-grams. In scripts without spaces, each character is a token, since 13a would
    make a sentence one token.
    """
    tokenize = BLEU(effective_order=True).tokenizer
    spaced = [[WITHOUT_SPACES.sub(r" \g<0> ", text) for text in side] for side in (hypotheses, references)]
    sides = [[tuple(tokenize(text.rstrip()).split()) for text in side] for side in spaced]
    shape = len(hypotheses), len(references)
    smoothing, logarithms, matches = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for order in range(1, BLEU_ORDER + 1):
        grams = [[_grams(tokens, order) for tokens in side] for side in sides]
        shared, total = _shared(*grams), _sizes(grams[0])[:, None]
        # Each order that has n-grams but no match halves the number that stands in for its matches.
        smoothing *= np.where((shared == 0) & (total > 0), 2, 1)
        precision = np.where(shared > 0, shared, 1 / smoothing) / np.maximum(total, 1)
        logarithms += np.where(total > 0, np.log(precision), 0)
        matches += shared
    lengths, reference_lengths = (np.array([len(tokens) for tokens in side], dtype=np.float64) for side in sides)
    orders = np.clip(lengths, 1, BLEU_ORDER)[:, None]
    brevity = np.minimum(0, 1 - reference_lengths[None, :] / np.maximum(lengths, 1)[:, None])
    return np.where(matches > 0, 100 * np.exp(brevity + logarithms / orders), 0)


UTILITIES: dict[str, Callable[[Sequence[str], Sequence[str]], np.ndarray]] = {
    "chrf": sentence_chrf,
    "bleu": sentence_bleu,
}


def _grams(text: Sequence, order: int) -> Counter:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _sizes(side: Iterable[Counter]) -> np.ndarray:
    return np.array([counts.total() for counts in side], dtype=np.float64)


def _shared(hypotheses: list[Counter], references: list[Counter]) -> np.ndarray:
    """How many n-grams each hypothesis shares with each reference: float64 `(hypotheses, references)`."""
    columns: dict = {}
    rows, places = [], []
    for row, counts in enumerate([*hypotheses, *references]):
        for gram, count in counts.items():
            for occurrence in range(count):
                rows.append(row)
                places.append(columns.setdefault((gram, occurrence), len(columns)))
    rows, places = np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)
    # A feature in only one row is not shared; a string on both sides has two rows.
    common = np.bincount(places, minlength=len(columns)) > 1
    kept = common[places]
    rows, places = rows[kept], (np.cumsum(common) - 1)[places[kept]]
    shared = np.zeros((len(hypotheses), len(references)))
    for start in range(0, int(common.sum()), FEATURES_AT_ONCE):
        here = (places >= start) & (places < start + FEATURES_AT_ONCE)
        width = min(FEATURES_AT_ONCE, int(common.sum()) - start)
        present = np.zeros((len(hypotheses) + len(references), width), dtype=np.float32)
        present[rows[here], places[here] - start] = 1
        shared += present[: len(hypotheses)] @ present[len(hypotheses) :].T
    return shared

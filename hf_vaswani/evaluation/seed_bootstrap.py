"""Significance of differences between systems, each trained once, or several times with different random seeds.

The paired bootstrap of Koehn (2004, "Statistical Significance Tests for Machine Translation Evaluation") draws test
sets from the sentences, and so measures how much a difference depends on the test set. It cannot tell how much the
difference depends on the seed (Clark et al. 2011, "Better Hypothesis Testing for Statistical Machine Translation:
Controlling for Optimizer Instability"), since it sees only one training run of each system. Here each replicate also
draws training runs.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.base import Signature
from sacrebleu.significance import PairedTest, Result

from .score import METRICS, References, Score, make_metrics, reference_sets

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's defaults
SIGNIFICANT = 0.05
CONFIDENCE = 0.95
# Random streams for drawing runs: one for the baseline, one for the systems compared with it.
BASELINE, SYSTEM = 1, 2


def bootstrap(
    systems: list[list[str]],
    references: References,
    metrics: Iterable[str] = tuple(METRICS),
    resamples: int = RESAMPLES,
    seed: int = SEED,
    **settings: dict,
) -> list[list[Score]]:
    """Scores of systems with confidence intervals, and p-values against the first system, the baseline.

    Args:
        systems: the translations of the same text by each system; one is enough for confidence intervals.
        references, metrics, settings: as in [`scores`].
        resamples: number of test sets drawn from the sentences with replacement, the same for all systems.
        seed: 1 or more; part of the signature.

    Returns:
        The scores of each system in the order of `metrics`, with `mean` and `ci`, and `p_value` for all but the
        baseline: the share of resamples whose difference is further from their mean than the measured one is from 0.

    Raises:
        InputError: as in [`scores`].
    """
    names = list(dict.fromkeys(metrics))
    made = dict(zip(names, make_metrics(names, **settings)))
    for hypotheses in systems:
        sets = reference_sets(hypotheses, references)
    with _seeded(seed):
        test = PairedTest(list(enumerate(systems)), made, sets, test_type="bs", n_samples=resamples)
        signatures, results = test()
    return [
        [
            _score(name, signatures[name], results[name][system], results[name][0], len(hypotheses))
            for name in signatures
        ]
        for system in range(len(systems))
    ]


def _score(name: str, signature: Signature, result: Result, baseline: Result, sentences: int) -> Score:
    # sacreBLEU would report significance even if there is no difference, or only one sentence to resample.
    is_certain = result.score != baseline.score and sentences > 1
    p_value = result.p_value if result is baseline or is_certain else 1.0
    return Score(name, result.score, str(signature), float(result.mean), float(result.ci), p_value)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Set sacreBLEU's seed, which it takes only from an environment variable."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        os.environ.pop("SACREBLEU_SEED")
        if before is not None:
            os.environ["SACREBLEU_SEED"] = before


@dataclass(frozen=True)
class Difference:
    """A system's mean BLEU over its runs, minus the baseline's."""

    value: float  # the difference on the whole test set, with all runs
    # The bounds of the middle 95% of the replicates' differences.
    low: float
    high: float
    p_value: float  # the share of replicates whose difference is at least as far from their mean as `value` is from 0


def seed_bootstrap(
    systems: list[list[list[str]]],
    references: References,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    **settings,
) -> list[Difference]:
    """The difference in BLEU of each system from the first one, the baseline.

    Each replicate draws sentences with replacement, the same ones for all systems, and for each system as many runs as
    it has, also with replacement. A system's score is the mean of the corpus BLEU of the drawn runs on the drawn
    sentences. The p-value is two-sided, from the replicates' differences shifted to mean 0, with one added to the
    numerator and the denominator, as in sacreBLEU. With one run of each system, this is sacreBLEU's paired bootstrap.

    Few runs say little about the spread among seeds, and a bootstrap underestimates it: with n runs, the variance
    among seeds is scaled by (n - 1) / n. It takes at least two runs for that variance to count at all.

    Args:
        systems: for each system, for each of its runs, the translations of the same text.
        references: as in [`scores`].
        resamples: number of replicates.
        seed: random seed of the draws. A system's result depends on the baseline, but not on the other systems.
        settings: arguments of `sacrebleu.metrics.BLEU`, such as `tokenize="none"`.

    Returns:
        The difference of each system but the first.

    Raises:
        InputError: as in [`scores`].
    """
    [metric] = make_metrics(["bleu"], bleu=settings)
    baseline, *others = [sentence_statistics(metric, runs, references) for runs in systems]
    replicates = _replicates(metric, baseline, resamples, seed, BASELINE)
    differences = []
    for runs in others:
        values = _replicates(metric, runs, resamples, seed, SYSTEM) - replicates
        value = float(_scores(metric, runs.sum(axis=1)).mean() - _scores(metric, baseline.sum(axis=1)).mean())
        low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        # With a single sentence and single runs, all draws are the same, and the difference cannot be significant.
        is_shown = runs.shape[1] > 1 or len(runs) > 1 or len(baseline) > 1
        p_value = _p_value(values, value) if is_shown else 1.0
        differences.append(Difference(value, float(low), float(high), p_value))
    return differences


def sentence_statistics(metric: BLEU, runs: list[list[str]], references: References) -> np.ndarray:
    """What BLEU counts in each sentence (lengths, matches and n-grams): float64 `(runs, sentences, counts)`."""
    counts = [metric._extract_corpus_statistics(texts, reference_sets(texts, references)) for texts in runs]
    return np.array(counts, dtype=float)  # whole numbers, which floats multiply faster


def _replicates(metric: BLEU, runs: np.ndarray, resamples: int, seed: int, stream: int) -> np.ndarray:
    """The scores of a system in all replicates: float64 `(resamples,)`."""
    sentence_draws, run_draws = np.random.default_rng(seed), np.random.default_rng([seed, stream])
    number, sentences = runs.shape[:2]
    scores = np.empty(resamples)
    for replicate in range(resamples):
        times = np.bincount(sentence_draws.integers(sentences, size=sentences), minlength=sentences)
        of_runs = _scores(metric, np.tensordot(runs, times.astype(float), axes=([1], [0])))
        scores[replicate] = of_runs[run_draws.integers(number, size=number)].mean()
    return scores


def _scores(metric: BLEU, counts: np.ndarray) -> np.ndarray:
    """The corpus BLEU of each run, from its counts summed over all sentences, `(runs, counts)`."""
    return np.array([metric._compute_score_from_stats([int(count) for count in row]).score for row in counts])


def _p_value(replicates: np.ndarray, value: float) -> float:
    deviations = np.abs(replicates - replicates.mean())
    return float((deviations >= abs(value)).sum() + 1) / (len(replicates) + 1)

"""Significance of differences between systems: sacreBLEU's paired bootstrap resampling (Koehn 2004)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sacrebleu.metrics.base import Signature
from sacrebleu.significance import PairedTest, Result

from .score import METRICS, References, Score, make_metrics, reference_sets

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's defaults
SIGNIFICANT = 0.05


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

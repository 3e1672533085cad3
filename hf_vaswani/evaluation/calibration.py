"""Calibrates a model's confidence in its translations with translations whose quality is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, counted
from ..generation.confidence import Calibration, TranslationStatistics
from ..translator.pipeline import TranslationPipeline
from .score import sentence_scores

FOLDS = 5
DEFAULT_SAMPLES = 8
# Fewer say too little about the weights.
LEAST_PAIRS = 50


@dataclass(frozen=True)
class CalibrationReport:
    """A calibration, and how well such calibrations predict sentence chrF on text that they were not fitted on.

    Attributes:
        sentences: number of translations that it was fitted on.
        correlation: Spearman's rank correlation of confidence and chrF.
        score_correlation: the same for the search's score and chrF.
        error: mean absolute difference of confidence and chrF / 100.
    """

    calibration: Calibration
    sentences: int
    correlation: float
    score_correlation: float
    error: float

    def __str__(self) -> str:
        return (
            f"Calibrated with {self.sentences:,} translations. Correlation with sentence chrF: {self.correlation:.3f} "
            f"(score of the search alone: {self.score_correlation:.3f}); mean error {self.error:.3f}."
        )


def calibrate(
    pipeline: TranslationPipeline,
    sources: Sequence[str],
    references: Sequence[str],
    samples: int = DEFAULT_SAMPLES,
    **options: object,
) -> CalibrationReport:
    """Translate sources with the model's own settings, and fit its confidence to the sentence chrF of the results.

    Args:
        samples: number of samples that each translation is compared with; 0 compares with none, which takes no time.
        options: further arguments of the pipeline's call, such as `progress`.

    Raises:
        InputError: there are fewer than 50 pairs.
    """
    filled = [(source, reference) for source, reference in zip(sources, references) if source.strip()]
    if len(filled) < LEAST_PAIRS:
        raise InputError(f"{counted(len(filled), 'pair')} cannot calibrate a model. Give {LEAST_PAIRS} or more.")
    recording = pipeline.translator(
        return_scores=True, return_warnings=False, split_sentences=False, truncation=True, **options
    )
    recording.estimator = _Recorder(samples)
    results: list[Any] = recording.translate([source for source, _ in filled])
    best = [result[0] for result in results]
    known: list[TranslationStatistics] = [hypothesis["confidence"] for hypothesis in best]
    texts = [hypothesis["translation_text"] for hypothesis in best]
    [scored] = sentence_scores(texts, [reference for _, reference in filled], ["chrf"])
    chrf = np.array(scored.values)
    calibration = Calibration.fit(known, list(chrf), samples)
    predicted = np.zeros(len(chrf))
    for fold in range(FOLDS):
        others = np.arange(len(chrf)) % FOLDS != fold
        own = Calibration.fit([known[n] for n in np.flatnonzero(others)], list(chrf[others]))
        predicted[~others] = [own(known[n]) for n in np.flatnonzero(~others)]
    search = np.array([hypothesis["score"] for hypothesis in best])
    error = float(np.abs(predicted - chrf / 100).mean())
    return CalibrationReport(calibration, len(chrf), spearman(predicted, chrf), spearman(search, chrf), error)


@dataclass(frozen=True)
class _Recorder:
    """In place of an estimate, what one is computed from."""

    samples: int

    def __call__(self, statistics: TranslationStatistics) -> TranslationStatistics:
        return statistics


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation of two arrays `(n,)`; 0 if one of them is constant."""
    ranks = [_ranks(values) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]

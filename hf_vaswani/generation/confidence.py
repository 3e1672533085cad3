"""How good a translation probably is, from 0 to 1: what a model's own probabilities say about sentence chrF.

Three numbers predict the quality of a translation: the probability of its tokens, as in Fomicheva et al. 2020 (section
4.1); its length compared to its source's, since what is left out is missed; and how similar it is to samples of the
model. Their weights are fitted on a validation set: the mean confidence of translations is their mean chrF / 100.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from operator import mul
from typing import Any, Protocol

import numpy as np

MOST_SAMPLES = 1000
RIDGE = 1e-3  # per translation, for standardized features


@dataclass(frozen=True)
class TranslationStatistics:
    """What a confidence is computed from.

    Attributes:
        log_probability: natural logarithm of the probability of the whole translation.
        length: number of its tokens, the end token included.
        source_length: number of tokens of the source, special tokens included.
        similarity: mean sentence chrF / 100 of the translation and of samples of the model, if there are any.
    """

    log_probability: float
    length: int
    source_length: int
    similarity: float = 0.0

    def features(self) -> tuple[float, float, float]:
        """The geometric mean of the tokens' probabilities, the logarithm of the ratio of lengths, the similarity."""
        length = max(self.length, 1)
        probability = math.exp(min(self.log_probability / length, 0.0))
        return probability, math.log(length / max(self.source_length, 1)), self.similarity


class Estimator(Protocol):
    """Rates translations, comparing each with a number of samples of the model."""

    samples: int

    def __call__(self, translation: TranslationStatistics, /) -> Any: ...


@dataclass(frozen=True)
class Calibration:
    """The weights by which a model's confidence is computed, as its config has them (`config.confidence`)."""

    intercept: float
    token_probability: float
    length_ratio: float
    similarity: float
    samples: int

    @classmethod
    def of(cls, config: object) -> "Calibration":
        """The calibration of a model's config.

        Raises:
            ValueError: it has none, or something else.
        """
        values = getattr(config, "confidence", None)
        if values is None:
            raise ValueError(
                "The model has no calibrated confidence. Calibrate it once with translations whose quality is known: "
                "hf-vaswani calibrate MODEL --source FILE --reference FILE"
            )
        if error := calibration_error(values):
            raise ValueError(error)
        return cls(**values)

    @classmethod
    def fit(
        cls, translations: Sequence[TranslationStatistics], chrf: Sequence[float], samples: int = 0
    ) -> "Calibration":
        """Fit the weights by ridge regression.

        Args:
            samples: how many samples of the model each similarity is the mean of.
            chrf: sentence chrF of each translation, from 0 to 100.
        """
        features = np.array([each.features() for each in translations])
        quality = np.array(chrf) / 100
        mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
        standard = (features - mean) / spread
        gram = standard.T @ standard + RIDGE * len(standard) * np.eye(standard.shape[1])
        weights = np.linalg.solve(gram, standard.T @ (quality - quality.mean())) / spread
        intercept = quality.mean() - weights @ mean
        return cls(*(float(f"{value:.6g}") for value in (intercept, *weights)), samples)

    def __call__(self, translation: TranslationStatistics) -> float:
        """The confidence in a translation, from 0 to 1."""
        weights = self.token_probability, self.length_ratio, self.similarity
        value = self.intercept + sum(map(mul, weights, translation.features()))
        return round(min(max(value, 0.0), 1.0), 4)

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


def calibration_error(values: object) -> str | None:
    """What is wrong with `confidence` of a config, if anything."""
    names = [field.name for field in fields(Calibration)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        return f"confidence must have {', '.join(names)}, got {values!r}"
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values.values()):
        return f"confidence must have finite numbers, got {values!r}"
    if not isinstance(values["samples"], int) or not 0 <= values["samples"] <= MOST_SAMPLES:
        return f"confidence: samples must be from 0 to {MOST_SAMPLES}, got {values['samples']!r}"
    return None


__all__ = ["Calibration", "Estimator", "TranslationStatistics"]

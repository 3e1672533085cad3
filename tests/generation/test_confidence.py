"""The confidence in a translation, and its calibration."""

import math

import numpy as np
import pytest

from hf_vaswani.generation.confidence import Calibration, TranslationStatistics


def translations(number):
    generator = np.random.default_rng(1)
    return [
        TranslationStatistics(-length * float(generator.uniform(0.05, 2)), length, int(generator.integers(4, 30)))
        for length in generator.integers(3, 30, number).tolist()
    ]


def test_weights_that_made_the_scores_are_found():
    known = translations(400)
    chrf = [
        100 * (0.3 + 0.5 * math.exp(each.log_probability / each.length)
               + 0.1 * math.log(each.length / each.source_length))
        for each in known
    ]  # fmt: skip
    found = Calibration.fit(known, chrf)
    assert found.intercept == pytest.approx(0.3, abs=2e-3)
    assert found.token_probability == pytest.approx(0.5, abs=2e-3)
    assert found.length_ratio == pytest.approx(0.1, abs=2e-3)
    assert (found.similarity, found.samples) == (0.0, 0)
    # -10 / 5 a token; 5 target and 10 source tokens.
    expected = 0.3 + 0.5 * math.exp(-2) + 0.1 * math.log(0.5)
    assert found(TranslationStatistics(-10.0, 5, 10)) == pytest.approx(expected, abs=3e-3)


def test_confidence_is_from_0_to_1():
    calibration = Calibration(0.0, 3.0, -2.0, 0.0, 0)
    assert calibration(TranslationStatistics(-0.1, 10, 10)) == 1.0
    assert calibration(TranslationStatistics(-50.0, 10, 5)) == 0.0

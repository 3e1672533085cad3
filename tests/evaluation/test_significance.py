import math
import os
import re
import subprocess
import sys

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.score import scores
from hf_vaswani.evaluation.seed_bootstrap import bootstrap

REFERENCE = [f"the {word} stands on hill {i} ." for i, word in enumerate(["house", "mill", "tower", "oak"] * 10)]
GOOD = [text.replace("stands", "stood") if i % 3 else text for i, text in enumerate(REFERENCE)]
POOR = [text.replace("stands on", "lies at") if i % 4 else text for i, text in enumerate(REFERENCE)]


def test_system_that_is_better_everywhere_is_better_in_all_resamples():
    worse = [text.replace("stood", "lay").replace("hill", "rock") for text in GOOD]
    baseline, system = bootstrap([GOOD, worse], REFERENCE, resamples=99)
    assert [score.p_value for score in baseline] == [None] * 3
    # None of the 99 differences is that far from their mean; one is added to numerator and denominator.
    assert [score.p_value for score in system] == [0.01] * 3


def test_system_does_not_beat_itself():
    baseline, system = bootstrap([GOOD, GOOD], REFERENCE, resamples=50)
    for first, second in zip(baseline, system):
        assert first.value == second.value
        assert second.p_value == 1
        assert (first.mean, first.ci) == (second.mean, second.ci)


def test_scores_match_those_without_bootstrap():
    for system, got in zip([GOOD, POOR], bootstrap([GOOD, POOR], REFERENCE, resamples=2, bleu={"tokenize": "none"})):
        plain = scores(system, REFERENCE, bleu={"tokenize": "none"})
        assert [(score.name, score.value) for score in got] == [(score.name, score.value) for score in plain]


def test_confidence_interval_matches_the_binomial_distribution():
    # One word per sentence, half of them wrong: the TER of a resample is the share of wrong words, which is binomial.
    sentences = 400
    [[score]] = bootstrap([["a", "b"] * (sentences // 2)], ["a"] * sentences, ["ter"])
    assert score.value == 50
    assert score.mean == pytest.approx(50, abs=0.5)
    assert score.ci == pytest.approx(100 * 1.96 * math.sqrt(0.25 / sentences), rel=0.1)
    assert "|bs:1000|seed:12345|" in score.signature


def test_result_depends_on_the_seed_and_the_environment_is_unchanged(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    runs = [bootstrap([GOOD, POOR], REFERENCE, ["ter"], 20, seed)[1][0] for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0].mean != runs[2].mean
    assert "seed:2|" in runs[2].signature
    assert os.environ["SACREBLEU_SEED"] == "7"


def test_values_match_the_sacrebleu_command(write_lines):
    reference, *systems = (write_lines(*file) for file in [("r", REFERENCE), ("good", GOOD), ("poor", POOR)])
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", *systems, "-m", "bleu", "chrf", "ter"]
    options = ["--paired-bs", "--paired-bs-n", "200", "--format", "text", "-w", "4", "--quiet", "--no-color"]
    printed = subprocess.run([*command, *options], check=True, capture_output=True, text=True).stdout
    cells = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", printed)
    p_values = re.findall(r"p = ([\d.]+)", printed)
    got = [score for row in bootstrap([GOOD, POOR], REFERENCE, resamples=200) for score in row]
    assert cells == [tuple(f"{x:.4f}" for x in (s.value, s.mean, s.ci)) for s in got]
    assert p_values == [f"{score.p_value:.4f}" for score in got[3:]]


def test_systems_of_unequal_length_are_rejected():
    with pytest.raises(InputError, match="39 translations and 40 references"):
        bootstrap([GOOD, POOR[1:]], REFERENCE)


def test_difference_in_one_sentence_is_never_significant():
    _, system = bootstrap([["a b c d"], ["a b c e"]], ["a b c e"], resamples=50)
    assert [score.p_value for score in system] == [1.0] * 3

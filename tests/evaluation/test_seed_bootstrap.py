import numpy as np
import pytest
import sacrebleu

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.seed_bootstrap import bootstrap, seed_bootstrap

REFERENCE = [f"the {word} stands on hill {i} ." for i, word in enumerate(["house", "mill", "tower", "oak"] * 8)]
GOOD = [text.replace("stands", "stood") if i % 3 else text for i, text in enumerate(REFERENCE)]
POOR = [text.replace("stands on", "lies at") if i % 4 else text for i, text in enumerate(REFERENCE)]
MIXED = [text.replace("the", "a") if i % 2 else text for i, text in enumerate(REFERENCE)]


def corpus_bleu(texts: list[str], references: list[str] = REFERENCE) -> float:
    return sacrebleu.corpus_bleu(texts, [references], force=True).score


def test_value_is_the_difference_of_mean_corpus_bleu():
    [difference] = seed_bootstrap([[GOOD, MIXED], [POOR, GOOD, GOOD]], REFERENCE, resamples=5)
    means = [(corpus_bleu(GOOD) + corpus_bleu(MIXED)) / 2, (corpus_bleu(POOR) + 2 * corpus_bleu(GOOD)) / 3]
    assert difference.value == pytest.approx(means[1] - means[0], abs=1e-9)


def test_replicates_are_the_mean_bleu_of_sampled_runs_on_sampled_sentences():
    systems, resamples = [[GOOD, MIXED, POOR], [POOR, MIXED]], 40
    [difference] = seed_bootstrap(systems, REFERENCE, resamples, seed=3)
    # The same samples, with the sampled texts scored by sacreBLEU.
    sentences, of_baseline, of_system = (np.random.default_rng(key) for key in (3, [3, 1], [3, 2]))
    values = []
    for _ in range(resamples):
        drawn = sentences.integers(len(REFERENCE), size=len(REFERENCE))
        references, means = [REFERENCE[i] for i in drawn], []
        for runs, generator in zip(systems, (of_baseline, of_system)):
            chosen = [runs[i] for i in generator.integers(len(runs), size=len(runs))]
            means.append(np.mean([corpus_bleu([texts[i] for i in drawn], references) for texts in chosen]))
        values.append(means[1] - means[0])
    values = np.array(values)
    assert (difference.low, difference.high) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])))
    further = sum(abs(value - values.mean()) >= abs(difference.value) for value in values)
    assert difference.p_value == pytest.approx((further + 1) / (resamples + 1))


def test_single_runs_match_sacrebleus_paired_bootstrap():
    close = [text.replace("hill", "rock") if i % 8 == 1 else text for i, text in enumerate(GOOD)]
    [difference] = seed_bootstrap([[GOOD], [close]], REFERENCE)
    _, [score] = bootstrap([GOOD, close], REFERENCE, ["bleu"])
    assert 0.01 < score.p_value < 0.5
    assert difference.p_value == pytest.approx(score.p_value, abs=0.05)


def test_interval_includes_seed_variance_even_without_sentence_variance():
    reference = ["a b c d e"] * 20
    best, worst = ["a b c d e"] * 20, ["a b c d x"] * 20
    [difference] = seed_bootstrap([[best], [best, worst]], reference)
    gap = corpus_bleu(worst, reference) - 100
    # Two draws from two runs: the first twice, the second twice, or one of each.
    assert (difference.low, difference.value, difference.high) == pytest.approx((gap, gap / 2, 0))
    assert difference.p_value > 0.2
    [without_seeds] = seed_bootstrap([[best], [worst]], reference)
    assert without_seeds.low == without_seeds.high == pytest.approx(gap)
    assert without_seeds.p_value == pytest.approx(1 / 1001)


def test_system_does_not_beat_itself():
    [difference] = seed_bootstrap([[GOOD, POOR], [GOOD, POOR]], REFERENCE, resamples=50)
    assert (difference.value, difference.p_value) == (0, 1)


def test_single_sentence_of_a_single_run_is_never_significant():
    [difference] = seed_bootstrap([[["a b c d"]], [["a b c e"]]], ["a b c d"], resamples=20)
    assert difference.value < 0 and difference.p_value == 1


def test_result_of_a_system_does_not_depend_on_the_others():
    alone = seed_bootstrap([[GOOD, MIXED], [POOR, MIXED]], REFERENCE, 20)
    both = seed_bootstrap([[GOOD, MIXED], [MIXED], [POOR, MIXED]], REFERENCE, 20)
    assert both[1:] == alone


def test_texts_of_different_lengths_are_rejected():
    with pytest.raises(InputError, match="31 translations and 32 references"):
        seed_bootstrap([[GOOD], [POOR[1:]]], REFERENCE, 2)

"""Scores compared with values printed in papers, plain formulas, and the `sacrebleu` command."""

import json
import math
import subprocess
import sys
from collections import Counter

import pytest

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation.score import bleu, chrf, scores, sentence_scores, ter

# Papineni et al. 2002, examples 1 and 2, without the final periods, which the paper does not count.
GOOD = "It is a guide to action which ensures that the military always obeys the commands of the party"
POOR = "It is to insure the troops forever hearing the activity guidebook that party direct"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]
CAT = "the the the the the the the"
CAT_REFERENCES = ["The cat is on the mat", "There is a cat on the mat"]


def one_each(texts: list[str]) -> list[list[str]]:
    return [[text] for text in texts]


@pytest.fixture
def corpus(write_lines):
    """Files with a hypothesis and two references, whose text every tokenizer and metric treats differently."""
    text = "The Café, cost 1,234.50 $ (or 'more') isn't U.S. law; x-ray 東京 は — ünïcode & ends"
    words = text.split()
    first = [" ".join(words[i % 7 : i % 7 + 5 + i % 4]) + "." for i in range(30)]
    second = [text.replace("The", "A").replace("cost", "costs") for text in first]
    hypothesis = [" ".join([*text.split()[1:], "the", words[i % 11]]) for i, text in enumerate(first)]
    return write_lines("hypothesis", hypothesis), write_lines("first", first), write_lines("second", second)


def read(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def sacrebleu(*arguments: str) -> dict[str, dict]:
    """The output of the command, by metric name."""
    command = [sys.executable, "-m", "sacrebleu", *arguments, "--format", "json", "--width", "12", "--quiet"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {entry["name"]: entry for entry in (printed if isinstance(printed, list) else [printed])}


@pytest.mark.parametrize(
    ("hypothesis", "precisions"), [(GOOD, [17 / 18, 10 / 17, 7 / 16, 4 / 15]), (POOR, [8 / 14, 1 / 13])]
)
def test_bleu_has_the_modified_precisions_of_its_paper(hypothesis, precisions):
    # The poor candidate has 14 words and the reference of the closest length 16, hence a brevity penalty.
    penalty = min(1.0, math.exp(1 - 16 / len(hypothesis.split())))
    for order in range(1, len(precisions) + 1):
        expected = 100 * penalty * math.prod(precisions[:order]) ** (1 / order)
        score = bleu([hypothesis], one_each(REFERENCES), tokenize="none", max_ngram_order=order)
        assert score.value == pytest.approx(expected, abs=1e-9)


def test_bleu_of_the_papers_example_matches_to_two_decimals():
    assert f"{bleu([GOOD], one_each(REFERENCES)).value:.2f}" == "50.46"


def test_bleu_clips_word_counts_to_those_of_a_reference():
    # "Standard unigram precision 7/7, modified unigram precision 2/7": section 2.1
    score = bleu([CAT], one_each(CAT_REFERENCES), lowercase=True, max_ngram_order=1)
    assert score.value == pytest.approx(100 * 2 / 7)
    assert "case:lc" in score.signature


def test_ter_counts_a_phrase_shift_as_one_edit():
    # Snover et al. 2006, section 3: one shift, two substitutions, one insertion: 4 edits for 13 words.
    reference = "SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times"
    hypothesis = "THIS WEEK THE SAUDIS denied information published in the new york times"
    assert ter([hypothesis], [reference]).value == pytest.approx(100 * 4 / 13)


@pytest.mark.parametrize("word_order", [0, 2])
def test_chrf_is_the_f_measure_of_character_and_word_n_grams(word_order):
    hypothesis, reference = "the cat sat on a mat", "a cat is on the mat"

    def n_grams(items, order: int) -> Counter:
        return Counter(tuple(items[i : i + order]) for i in range(len(items) - order + 1))

    precisions, recalls = [], []
    sides = [(hypothesis.replace(" ", ""), reference.replace(" ", ""), 6), (hypothesis.split(), reference.split(), 2)]
    for got, wanted, orders in sides if word_order else sides[:1]:
        for order in range(1, orders + 1):
            common = (n_grams(got, order) & n_grams(wanted, order)).total()
            precisions.append(common / (len(got) - order + 1))
            recalls.append(common / (len(wanted) - order + 1))
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    score = chrf([hypothesis], [reference], word_order=word_order)
    assert score.value == pytest.approx(100 * (1 + 2**2) * precision * recall / (2**2 * precision + recall))
    assert score.name == ("chrF2++" if word_order else "chrF2")


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("", {}),
        ("--tokenize intl --lowercase", {"bleu": {"tokenize": "intl", "lowercase": True}}),
        ("--tokenize zh --chrf-word-order 2", {"bleu": {"tokenize": "zh"}, "chrf": {"word_order": 2}}),
        ("--tokenize char --ter-case-sensitive", {"bleu": {"tokenize": "char"}, "ter": {"case_sensitive": True}}),
    ],
)
def test_scores_match_the_sacrebleu_command_to_the_last_digit(corpus, command, settings):
    hypothesis, *references = corpus
    printed = sacrebleu(*references, "--input", hypothesis, "--metrics", "bleu", "chrf", "ter", *command.split())
    got = scores(read(hypothesis), [read(path) for path in references], **settings)
    assert len(got) == len(printed) == 3
    for score in got:
        assert round(score.value, 12) == printed[score.name]["score"]
        assert score.signature == printed[score.name]["signature"]
        assert 0 < score.value < 100


def test_sentence_scores_match_the_sacrebleu_command(corpus):
    hypothesis, reference, _ = corpus
    command = [sys.executable, "-m", "sacrebleu", reference, "--input", hypothesis, "--sentence-level", "--quiet"]
    lines = subprocess.run([*command, "-w", "12", "-b"], check=True, capture_output=True, text=True).stdout.split()
    [got] = sentence_scores(read(hypothesis), read(reference), ["bleu"])
    assert [f"{value:.12f}" for value in got.values] == lines
    assert "eff:yes" in got.signature


def test_references_grouped_by_sentence_are_refused_with_the_remedy():
    grouped = [["a b", "b a"], ["c", "d"], ["e", "f"]]
    with pytest.raises(InputError, match=r"^references are lists of .* list\(zip\(\*references\)\)$"):
        scores(["a b", "c", "e"], grouped)
    assert scores(["a b", "c", "e"], list(zip(*grouped)), ["chrf"])[0].value == 100


def test_sentences_may_have_different_numbers_of_references():
    # "x y" has one reference; with an empty second one its precision would be the same, but not the signature.
    score = bleu(["a b", "x y"], [["a c", "x z"], ["d b", None]], max_ngram_order=1)
    assert score.value == pytest.approx(100 * 3 / 4)
    assert score.signature.startswith("nrefs:var|")


def test_metrics_come_in_the_requested_order():
    assert [score.name for score in scores(["a"], ["a"], ["ter", "bleu"])] == ["TER", "BLEU"]


@pytest.mark.parametrize("score", [bleu, chrf, ter, sentence_scores])
def test_texts_of_unequal_length_are_rejected_and_not_truncated(score):
    with pytest.raises(InputError, match="2 translations and 1 reference:"):
        score(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no translations"):
        score([], [])


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ("A", "A", "hypotheses must be a list of texts, not 'A'"),
        (["a", None], ["a", "b"], r"hypotheses must be a list of texts, not \['a', None\]"),
        (["a"], [None], r"references must be a list of texts, not \[None\]"),
    ],
)
def test_what_is_not_a_list_of_texts_is_rejected(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        bleu(hypotheses, references)


def test_all_unknown_settings_are_reported_together():
    with pytest.raises(InputError) as error:
        scores(["a"], ["a"], ["blue", "bleu", "ter"], bleu={"tokenize": "13b"}, ter={"lower": True})
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert "'blue' is not a metric" in lines[0] and "13a" in lines[1] and "lower" in lines[2]


def test_missing_tokenizer_package_is_a_clear_error(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(InputError, match=r"pip install \"sacrebleu\[ja\]\""):
        bleu(["a"], ["a"], tokenize="ja-mecab")

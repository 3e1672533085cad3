import pytest
import sacrebleu

from hf_vaswani.evaluation.analysis import best_and_worst, scores_by_length, short_example
from hf_vaswani.records.run_report import Example


def test_best_and_worst_have_the_highest_and_lowest_chrf():
    references = ["a long sentence here", "the second of them all", "third one", "another that is quite long", "x"]
    hypotheses = ["a long sentence here", "the second of it all", "thirty ones", "nothing to do with", "x"]
    sources = [f"s{i}" for i in range(5)]
    best, worst = best_and_worst(sources, hypotheses, references, [5, 6, 3, 6, 2], number=2)
    assert [entry.source for entry in best] == ["s0", "s1"]
    assert [entry.source for entry in worst] == ["s3", "s2"]
    second = best[1]
    assert second.translation == "the second of it all" and second.reference == "the second of them all"
    expected = sacrebleu.sentence_chrf("the second of it all", ["the second of them all"]).score
    assert second.chrf2 == pytest.approx(expected)


def test_best_are_chosen_from_the_longer_half():
    references = ["yes", "no", "the third", "a whole sentence", "another sentence"]
    hypotheses = ["yes", "no", "a first", "a whole sentence", "another one"]
    best, _ = best_and_worst(list("abcde"), hypotheses, references, [1, 1, 3, 4, 5])
    assert [entry.source for entry in best] == ["d", "e", "c"]


def test_no_translation_is_listed_twice_or_as_both_best_and_worst():
    best, worst = best_and_worst(["a", "b", "a"], ["x", "y", "x"], ["x", "y", "x"], [1, 1, 1])
    assert sorted(entry.source for entry in best + worst) == ["a", "b"]


def test_scores_by_length_are_computed_for_each_third():
    lengths = [3] * 10 + [5] * 10 + [9] * 10
    references = [f"this is reference number {i}" for i in range(30)]
    hypotheses = [*references[:10], *(text.replace("number", "no.") for text in references[10:20]), *["?"] * 10]
    groups = scores_by_length(hypotheses[::-1], references[::-1], lengths[::-1])
    assert [(group.shortest, group.longest, group.sentences) for group in groups] == [
        (3, 3, 10), (5, 5, 10), (9, 9, 10),
    ]  # fmt: skip
    expected = sacrebleu.corpus_chrf(hypotheses[10:20], [references[10:20]]).score
    assert [group.chrf2 for group in groups] == pytest.approx([100, expected, 0], abs=0.01)


def test_sentences_of_one_length_are_in_one_group():
    groups = scores_by_length(["a"] * 40, ["a"] * 40, [4] * 30 + [7] * 10)
    assert [(group.shortest, group.longest, group.sentences) for group in groups] == [(4, 4, 30), (7, 7, 10)]


def test_few_sentences_have_no_score_by_length():
    assert scores_by_length(["a"] * 29, ["a"] * 29, list(range(29))) == []


def test_example_is_the_first_sentence_of_a_good_length():
    sources = ["short", "x" * 61, " a sentence to show ", "another one to show"]
    assert short_example(sources, ["1", "2", "3", "4"]) == Example(source="a sentence to show", translation="3")
    assert short_example(["short"], ["1"]) == Example(source="short", translation="1")

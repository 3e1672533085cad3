"""Which translations become pairs to train on."""

import gzip
import json

import pytest
from sacrebleu.metrics import BLEU, CHRF
from transformers import GenerationConfig, pipeline

from hf_vaswani.errors import TrainingError
from hf_vaswani.training.synthetic_pairs import Selection, greatest_length, texts_from_pairs, write_pairs

from ..conftest import tiny_model
from ..families import family

RECORDS = [
    {"text": "a", "translations": [["A", -0.1, False], ["A", -0.2, False], ["", -0.3, False], ["B", -0.4, False]]},
    {"text": "b", "translations": [["C", -0.5, True], ["D", -2.0, False]]},
    {"text": "c", "translations": [["E", -1.0, False]]},
    {"text": "d", "translations": None},
]


@pytest.fixture
def write(tmp_path):
    """Writes the pairs of some translations; returns them as rows, and the counts."""

    def run(records, texts=(), **selection):
        path, output = tmp_path / "translations.jsonl", tmp_path / "pairs.jsonl.gz"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        counts = write_pairs(path, output, Selection(**selection), texts)
        with gzip.open(output, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file], counts

    return run


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        ({}, "ABDE"),
        ({"min_score": -1.0}, "ABE"),
        ({"keep_share": 0.5}, "AB"),
        ({"keep_share": 0.75, "min_score": -0.5}, "AB"),
        ({"keep_share": 0.01}, "A"),
    ],
)
def test_useless_translations_are_left_out_and_counted(write, selection, kept):
    pairs, counts = write(RECORDS, **selection)
    assert [pair["target"] for pair in pairs] == list(kept)
    assert (counts.lines, counts.failed, counts.translations) == (4, 1, 7)
    assert (counts.repeated, counts.empty, counts.cut) == (1, 1, 1)
    assert (counts.pairs, counts.low) == (len(kept), 4 - len(kept))


def test_text_is_on_the_chosen_side_of_each_pair(write):
    for side, expected in (("source", ("c", "E")), ("target", ("E", "c"))):
        [*_, last], _ = write(RECORDS, side=side)
        assert (last["source"], last["target"], last["score"]) == (*expected, -1.0)


def test_same_translations_give_the_same_bytes(write, tmp_path):
    write(RECORDS)
    before = (tmp_path / "pairs.jsonl.gz").read_bytes()
    write(RECORDS)
    assert (tmp_path / "pairs.jsonl.gz").read_bytes() == before


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_translation_closest_to_one_of_the_texts_own_is_kept(write, metric):
    own = {"a": ["the cat sat on a mat"], "b": ["dogs bark", "the dog barks at night"], "c": []}
    found = {
        "a": ["a cat", "the cat sat on the mat", "cats"],
        "b": ["a dog", "the dog barked at night"],
        "c": ["first", "second"],
    }
    records = [{"text": text, "translations": [[line, -float(place), False] for place, line in enumerate(lines)]}
               for text, lines in found.items()]  # fmt: skip
    pairs, counts = write(records, own.items(), keep_closest=metric)
    score = {"bleu": BLEU(effective_order=True), "chrf": CHRF()}[metric].sentence_score
    expected = {
        text: max(lines, key=lambda line, text=text: max((score(line, [o]).score for o in own[text]), default=0.0))
        for text, lines in found.items()
    }
    assert {pair["source"]: pair["target"] for pair in pairs} == expected
    assert expected["a"] != found["a"][0] and expected["b"] != found["b"][0] and expected["c"] == "first"
    assert (counts.pairs, counts.farther) == (3, 4)


def test_no_remaining_pairs_is_an_error_that_says_why_and_leaves_no_file(write, tmp_path):
    with pytest.raises(
        TrainingError, match=r"no pairs are left \(0 pairs of 4 lines; .*, 4 with low scores; .*Lower --min_score"
    ):
        write(RECORDS, min_score=0.0)
    assert not (tmp_path / "pairs.jsonl.gz").exists()
    cut = [{"text": "a", "translations": [["A", -0.1, True]]}]
    with pytest.raises(TrainingError, match=r"no pairs are left \(0 pairs of 1 line; left out: 1 cut off\)\.$"):
        write(cut)


def test_texts_have_all_translations_of_the_pairs_that_follow_each_other():
    pairs = [("a", "x"), ("b", "x"), ("b", "y"), ("", "y"), (" ", "y"), ("a", "y")]
    assert list(texts_from_pairs(iter(pairs), "source")) == [("a", ["x"]), ("b", ["x", "y"]), ("a", ["y"])]
    assert list(texts_from_pairs(iter(pairs), "target")) == [("x", ["a", "b"]), ("y", ["b", " ", "a"])]


def test_greatest_length_is_the_limit_of_generation_wherever_it_is_set(tmp_path):
    def greatest(name, settings=None, **options):
        model, tokenizer = family(name, tmp_path)
        model.config.task_specific_params = settings
        model.generation_config = GenerationConfig(decoder_start_token_id=model.config.decoder_start_token_id)
        translator = pipeline("translation_de_to_en", model=model, tokenizer=tokenizer)
        return greatest_length(translator.translator(**options), "hund haus"), len(tokenizer("hund haus")["input_ids"])

    assert greatest("T5")[0] == 256
    assert greatest("T5", max_new_tokens=7)[0] == 7
    # The decoder start token is one of the 300.
    assert greatest("T5", {"translation_de_to_en": {"max_length": 300}})[0] == 299
    found, source = greatest("Vaswani")
    assert found == source + 50


@pytest.mark.parametrize("settings", [{}, {"max_new_tokens": 40}, {"max_length": 40}])
def test_greatest_length_is_within_the_positions(tokenizer, settings):
    model = tiny_model(position_type="learned", max_position_embeddings=10)
    engine = pipeline("translation", model=model, tokenizer=tokenizer).translator(**settings)
    assert greatest_length(engine, "w1 w2") == 9

"""A run on several directions: one model, one vocabulary, scores of each direction."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vaswani.cli import main
from hf_vaswani.commands.translate_pairs import iterate_texts
from hf_vaswani.data.augmentation.arguments import AugmentationArguments
from hf_vaswani.data.augmentation.augmenter import augmented_encoder
from hf_vaswani.errors import InputError
from hf_vaswani.training.train import train
from hf_vaswani.training.trainer import train_with_trainer

from .helpers import records, same_weights

WORDS = [" ".join("abcdefgh"[(n * k + k) % 8] for k in range(1, 3 + n % 4)) for n in range(60)]


@pytest.fixture
def directions(recipe, write_lines, tmp_path):
    """Loads a recipe for two target languages, one of them in both directions."""
    makers = {"xx": str.upper, "yy": lambda text: text[::-1]}

    def entries(size):
        return [
            {"source": write_lines(f"{size}.{code}.en", WORDS[:size]),
             "target": write_lines(f"{size}.{code}", list(map(make, WORDS[:size]))),
             "source_language": "en", "target_language": code, "both_directions": code == "yy"}
            for code, make in makers.items()
        ]  # fmt: skip

    text = json.dumps({"train": entries(60), "validation": entries(8), "test": entries(6), "temperature": 2})
    path = tmp_path / "directions.yaml"
    lines = [line for line in (tmp_path / "recipe.yaml").read_text().splitlines() if line.strip()]
    path.write_text("\n".join([f"data: {text}", *lines]), encoding="utf-8")

    from hf_vaswani.training.recipe.recipe import load_recipe

    return lambda *more, output="out": load_recipe(path, [f"--output_dir={tmp_path / output}", *more])


@pytest.fixture
def trained(directions, tmp_path):
    train(directions())
    return tmp_path / "out"


def test_model_knows_its_directions_and_translates_into_each(trained):
    config = AutoModelForSeq2SeqLM.from_pretrained(trained).config
    assert config.language_pairs == [["en", "xx"], ["en", "yy"], ["yy", "en"]]
    assert (config.source_language, config.target_language) == (None, None)
    translator = pipeline("translation", str(trained))
    chosen = translator.translator(src_lang="en", tgt_lang="yy").encoder.rows(["a b", ">>xx<< a b"])
    marks = [translator.tokenizer.convert_ids_to_tokens(row["input_ids"])[0] for row in chosen]
    assert marks == [">>yy<<", ">>xx<<"]
    with pytest.raises(ValueError, match="this model translates en to xx or en to yy or yy to en"):
        translator("a b", src_lang="xx", tgt_lang="en")
    with pytest.raises(ValueError, match="several languages: en, xx, yy. Choose one with tgt_lang"):
        translator("a b")


def one_direction(directions, trained, code, *more):
    """Fine-tune the model on one of its directions, or on a new one."""
    folder = trained.parent
    text = [f"--{split}_{side}={folder / f'{size}.{name}'}" for split, size in (("train", 60), ("validation", 8))
            for side, name in (("source", "xx.en"), ("target", "xx"))]  # fmt: skip
    languages = ["--source_language=en", f"--target_language={code}", "--temperature=null"]
    recipe = directions(*text, *languages, "--test=null", f"--start_from={trained}", *more, output="tuned")
    train(recipe)
    return folder / "tuned"


def test_fine_tuned_on_one_direction_it_keeps_the_others(directions, trained, capsys):
    capsys.readouterr()
    tuned = one_direction(directions, trained, "xx")
    config = AutoModelForSeq2SeqLM.from_pretrained(tuned).config
    assert config.language_pairs == [["en", "xx"], ["en", "yy"], ["yy", "en"]]
    assert (config.source_language, config.target_language) == (None, None)
    first = capsys.readouterr().out.partition("first pair: ")[2]
    assert first.startswith(">>xx<<")


def test_a_model_with_a_mark_for_its_only_target_is_fine_tuned_with_it(directions, trained, capsys):
    marked = one_direction(directions, trained, "xx", "--start_from=null", "--mark_targets=true")
    assert AutoModelForSeq2SeqLM.from_pretrained(marked).config.language_pairs == [["en", "xx"]]
    capsys.readouterr()
    more = one_direction(directions, marked, "yy", "--add_language=yy", "--like=xx", "--output_dir", f"{marked}_more")
    assert capsys.readouterr().out.partition("first pair: ")[2].startswith(">>yy<<")
    del more
    assert AutoModelForSeq2SeqLM.from_pretrained(f"{marked}_more").config.language_pairs == [
        ["en", "xx"],
        ["en", "yy"],
    ]


@pytest.mark.parametrize("start", ["a" * 300, "missing/folder"])
def test_a_start_that_cannot_be_read_is_one_error(directions, start):
    with pytest.raises(InputError, match="training.start_from"):
        train(directions(f"--start_from={start}"))


def test_a_model_without_marks_takes_no_second_target(directions, trained, write_lines):
    sides = [f"--{split}_{side}={write_lines(f'{split}.{side}', WORDS)}" for split in ("train", "validation")
             for side in ("source", "target")]  # fmt: skip
    codes = [{"source": sides[0].partition("=")[2], "target": sides[1].partition("=")[2], "source_language": code,
              "target_language": "en"} for code in ("xx", "yy")]  # fmt: skip
    into_one = directions(
        f"--train={json.dumps(codes)}", f"--validation={json.dumps(codes)}", "--test=null", output="one"
    )
    train(into_one)
    start = f"--start_from={into_one.training.output_dir}"
    for languages, message in (
        (["--source_language=xx", "--target_language=yy"], "target_language='yy': the model translates into en only"),
        ([], "data.source_language and data.target_language are missing"),
    ):
        with pytest.raises(InputError, match=message):
            train(directions(*sides, *languages, "--temperature=null", "--test=null", start, output="other"))


@pytest.mark.parametrize(
    ("side", "languages", "make"),
    [
        ("source", ("yy", "en"), lambda text: text[::-1]),
        ("target", ("yy", "en"), lambda text: text[::-1]),
        ("target", ("en", "xx"), str),
        ("source", ("xx", None), str.upper),
    ],
)
def test_text_of_a_run_is_translated_as_its_files_have_it(trained, side, languages, make):
    options = SimpleNamespace(
        input=str(trained), side=side, source_language=languages[0], target_language=languages[1]
    )
    assert {text for text, _ in iterate_texts(options)} == set(map(make, WORDS))


def test_text_of_a_run_needs_the_choice_of_a_direction(trained):
    options = SimpleNamespace(input=str(trained), side="source", source_language=None, target_language=None)
    with pytest.raises(InputError, match="has text in en-xx, en-yy: choose what to translate with --source_language"):
        iterate_texts(options)


def test_a_language_is_added_that_begins_as_another(directions, trained):
    with pytest.raises(InputError, match="no token for >>zz<<.*training.add_language adds one"):
        one_direction(directions, trained, "zz")
    with pytest.raises(InputError, match="like='zz': .* translates into en, xx, yy"):
        one_direction(directions, trained, "zz", "--add_language=zz", "--like=zz")
    tuned = one_direction(directions, trained, "zz", "--add_language=zz", "--like=xx", "--learning_rate=1e-12")
    config = AutoModelForSeq2SeqLM.from_pretrained(tuned).config
    assert config.language_pairs == [["en", "xx"], ["en", "yy"], ["yy", "en"], ["en", "zz"]]
    before, after = pipeline("translation", str(trained)), pipeline("translation", str(tuned))
    texts = ["a b", "c d e"]
    assert after(texts, tgt_lang="xx") == before(texts, tgt_lang="xx") == after(texts, tgt_lang="zz")


def test_a_tag_that_the_start_model_lacks_begins_as_the_mean_of_all_tokens(directions, trained, tmp_path):
    made = tmp_path / "made.jsonl"
    made.write_text(json.dumps({"source": "a b", "target": "A B"}) + "\n", encoding="utf-8")
    keys = {"tag": "bt", "source_language": "en", "target_language": "xx"}
    text = json.dumps({"own": None, str(made): keys})
    train(directions(f"--text={text}", f"--start_from={trained}", "--learning_rate=1e-12", output="tagged"))
    before, after = (
        AutoModelForSeq2SeqLM.from_pretrained(folder).get_input_embeddings().weight.detach()
        for folder in (trained, tmp_path / "tagged")
    )
    new = AutoTokenizer.from_pretrained(tmp_path / "tagged").convert_tokens_to_ids("<bt>")
    assert new == len(before) == len(after) - 1
    torch.testing.assert_close(after[new], before.mean(dim=0))
    torch.testing.assert_close(after[:new], before)


def test_marks_are_whole_tokens_that_the_tokenizer_writes(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained)
    tokenizer.tgt_lang = "xx"
    ids = tokenizer("a b")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[0] == ">>xx<<"
    assert ids == tokenizer(">>xx<< a b")["input_ids"]
    assert ids[1:] == AutoTokenizer.from_pretrained(trained)("a b")["input_ids"]
    assert tokenizer(text_target="a b")["input_ids"] == ids[1:]
    assert len(tokenizer) == AutoModelForSeq2SeqLM.from_pretrained(trained).config.vocab_size <= 60


def test_sampling_never_writes_a_mark(trained):
    translator = pipeline("translation", str(trained))
    sampled = translator(["a b"] * 300, tgt_lang="xx", do_sample=True, temperature=50.0, num_beams=1)
    assert not any(">>" in result["translation_text"] for result in sampled)


def test_card_names_the_files_of_each_direction(trained):
    rows = [line for line in (trained / "README.md").read_text().splitlines() if line.startswith("| en-xx |")]
    assert any("6.xx.en" in row for row in rows)


def test_another_model_is_compared_in_the_first_direction(directions, trained, tmp_path):
    train(directions(f"--compare_with={trained}", output="student"))
    compared = json.loads((tmp_path / "student" / "results.json").read_text())["teacher"]
    assert (compared["test"], compared["sentences"]) == ("en-xx", 6)


def test_each_direction_is_scored_in_validation_and_at_the_end(trained, capsys):
    validations = [record for record in records(trained) if "validation_loss" in record]
    names = ("en-xx", "en-yy", "yy-en")
    for record in validations:
        own = [record[f"validation_{name}_loss"] for name in names]
        assert record["validation_loss"] == pytest.approx(sum(own) / 3, rel=0.01)
    results = json.loads((trained / "results.json").read_text())
    assert set(results["tests"]) == set(names)
    assert results["directions"] == [["en", "xx"], ["en", "yy"], ["yy", "en"]]
    card = (trained / "README.md").read_text()
    assert "en-yy" in card and "single sentences from en to xx, en to yy, yy to en." in card
    mean = sum(results["tests"][name]["chrf2"] for name in names) / 3
    assert re.search(rf"\| mean of 3 directions \| 18 \| .* \| {mean:.2f} \|", card)


def test_best_weights_are_those_of_the_direction_that_is_named(directions, tmp_path):
    train(directions("--metric_for_best_model=yy-en_chrf", "--eval_steps=4", "--keep_best=1"))
    [best] = (tmp_path / "out" / "best").glob("update-*")
    scores = json.loads((best / "scores.json").read_text())
    values = [record["validation_yy-en_chrf"] for record in records(tmp_path / "out") if "validation_loss" in record]
    assert scores["yy-en_chrf"] == pytest.approx(max(values), abs=0.05)


def test_metric_of_an_unknown_direction_is_refused_before_training(directions):
    with pytest.raises(InputError, match="metric_for_best_model"):
        train(directions("--metric_for_best_model=zz-en_chrf"))


def test_run_that_was_stopped_ends_with_the_same_weights(directions, tmp_path):
    train(directions(output="whole"))
    train(directions("--max_steps=8", output="parts"))
    train(directions(output="parts"))
    assert same_weights(tmp_path / "whole", tmp_path / "parts")


def test_trainer_makes_the_same_model(directions, tmp_path):
    train(directions(output="loop"))
    train_with_trainer(directions(output="trainer"))
    models = [AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name).state_dict() for name in ("loop", "trainer")]
    assert all(value.allclose(models[1][name], atol=1e-5) for name, value in models[0].items())


def test_command_translates_into_the_language_that_is_given(trained, tmp_path, capsys):
    (tmp_path / "in").write_text("a b\n")
    assert main(["translate", str(trained), "--input", str(tmp_path / "in"), "--target_language", "yy"]) == 0
    assert main(["translate", str(trained), "--input", str(tmp_path / "in"), "--target_language", "zz"]) == 2
    assert "this model translates en to xx or en to yy or yy to en" in capsys.readouterr().err


def test_run_on_a_tokenizer_without_the_marks_is_refused(recipe, directions, tmp_path):
    train(recipe(output="plain"))
    with pytest.raises(InputError, match="has no token for >>xx<<, >>yy<<, >>en<<"):
        train(directions(f"--tokenizer.path={tmp_path / 'plain'}"))


def test_augmentation_and_dropout_leave_marks_alone(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained)
    arguments = AugmentationArguments(uppercase=1, typos=1, no_punctuation=1)
    encode = augmented_encoder(arguments, 0.5, tokenizer, [], None)
    sources = [">>yy<< abcde, fgh!", "abcd"]
    ids, _ = encode(sources * 20, ["a"] * 40, np.random.default_rng(0))
    firsts = [tokenizer.convert_ids_to_tokens(row)[0] for row in ids]
    assert set(firsts[::2]) == {">>yy<<"}
    assert ">>" not in "".join(firsts[1::2])
    assert len({tuple(row) for row in ids[::2]}) > 1

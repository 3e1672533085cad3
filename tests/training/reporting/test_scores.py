"""The `evaluation` section of a recipe, additional test sets, and the figures at the end of a run."""

import importlib
import json
import logging
import math

import pytest
import sacrebleu
import torch
import yaml
from transformers import pipeline

from hf_vaswani.errors import InputError
from hf_vaswani.evaluation import attention
from hf_vaswani.evaluation.score_settings import ScoreSettings
from hf_vaswani.training import validation
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.reporting.figures import readable_sentences
from hf_vaswani.training.reporting.report import summary
from hf_vaswani.training.train import train
from hf_vaswani.translator.lines import write_translations
from hf_vaswani.translator.mbr import translate_mbr

from ..helpers import records

FEW = ("--max_steps=4", "--eval_sentences=4")


def stored(folder) -> dict:
    return json.loads((folder / "results.json").read_text())


def lines(path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def more_tests(tmp_path):
    """An option that adds two test sets: the validation text and a few short lines."""
    for side in "xy":
        (tmp_path / f"short.{side}").write_text("".join(f"{t}\n" for t in ("a b c", "b c d e", "h")))

    def option() -> str:
        sets = {
            "valid.2": {"source": str(tmp_path / "validation.x"), "target": str(tmp_path / "validation.y")},
            "short": {"source": str(tmp_path / "short.x"), "target": str(tmp_path / "short.y")},
        }
        return f"--tests={yaml.safe_dump(sets, default_flow_style=True, sort_keys=False).strip()}"

    return option


# Test sets.


def test_each_test_set_is_translated_scored_and_stored_under_its_name(recipe, more_tests, tmp_path):
    results = train(recipe(*FEW, more_tests()))
    folder, values = results.folder, stored(results.folder)
    files = {"test": "test", "valid.2": "validation", "short": "short"}
    assert list(values["tests"]) == list(files)
    translator = pipeline("translation", model=str(folder))
    for name, file in files.items():
        written = lines(folder / f"{name}_translations.txt")
        assert written == [t["translation_text"] for t in translator(lines(tmp_path / f"{file}.x"))]
        scores, references = values["tests"][name], [lines(tmp_path / f"{file}.y")]
        assert scores["sentences"] == len(written)
        assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, references).score)
        assert scores["chrf2"] == pytest.approx(sacrebleu.corpus_chrf(written, references).score)
        assert "tok:13a" in scores["bleu_signature"] and "nc:6" in scores["chrf2_signature"]
        assert f"{name} chrF2 {scores['chrf2']:.2f} (" in summary(results)
    assert values["test_bleu"] == values["tests"]["test"]["bleu"]
    for above, is_diverged in ((0.9, False), (1.1, True), (math.nan, True)):
        loss = math.log(values["tokenizer"]["target_tokens"]) + above
        assert ("the run diverged" in summary(results.model_copy(update={"validation_loss": loss}))) == is_diverged
    assert values["test_chrf2_signature"] == values["tests"]["test"]["chrf2_signature"]
    assert "greedy_bleu" not in values["tests"]["test"]


def test_advice_on_a_low_score_depends_on_the_score_of_the_validation_text(recipe):
    results = train(recipe("--max_steps=1", "--eval_steps=9"))
    log = results.folder / "log.jsonl"
    for validation_bleu, bleu, advice in (
        (4.9, 0.03, "text differs"),
        (30.0, 9.9, "text differs"),
        (30.0, 10.1, None),
        (4.9, 4.8, "needs more steps"),
        (0.9, 0.03, "needs more steps"),
        (None, 0.03, "needs more steps"),
        (None, 5.1, None),
    ):
        values = [60.0, validation_bleu] if validation_bleu is not None else []
        log.write_text("".join(f"{json.dumps({'update': 1, 'validation_bleu': value})}\n" for value in values))
        with log.open("a") as file:
            file.write('{"update": 1, "loss": 2.0}\n')
        scores = results.tests["test"].model_copy(update={"bleu": bleu})
        words = summary(results.model_copy(update={"tests": {"test": scores}}))
        found = [known for known in ("text differs", "needs more steps") if known in words]
        assert found == ([advice] if advice else []), (validation_bleu, bleu)


def test_advice_on_a_low_score_follows_the_validation_chrf_near_copies_and_losses(recipe):
    results = train(recipe("--max_steps=1", "--eval_steps=9"))
    size = results.pairs["validation"]
    advices = ("text differs", "near copies", "needs more steps", "learns its training text by heart")
    for chrfs, losses, chrf2, copies, advice in (
        ([10.0, 25.0], [3.0, 2.0], 9.0, 0, "text differs"),
        ([10.0, 25.0], [3.0, 2.0], 9.0, size, "near copies"),
        ([10.0, 25.0], [3.0, 2.0], 24.0, size, "needs more steps"),
        ([10.0, 19.0], [3.0, 2.0], 9.0, 0, "needs more steps"),
        ([10.0, 25.0], [3.0, 2.0, 2.5], 24.0, 0, "learns its training text by heart"),
        ([10.0, 25.0], [3.0, 2.0, 2.001], 24.0, 0, "needs more steps"),
    ):
        rows = [{"update": 10 * step, "validation_loss": loss} for step, loss in enumerate(losses, start=1)]
        rows += [{"update": 40, "validation_chrf": value} for value in chrfs]
        (results.folder / "log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        scores = results.tests["test"].model_copy(update={"bleu": 0.5, "chrf2": chrf2})
        near = {"validation": copies} if copies else {}
        words = summary(results.model_copy(update={"tests": {"test": scores}, "near_copies": near}))
        assert [known for known in advices if known in words] == [advice], (chrfs, losses, chrf2, copies)
    assert "lowest at step 20, with 2.0000" not in words


def test_near_copies_of_training_pairs_are_counted(recipe, write_lines):
    sources = ["The 3 dogs ran.", "A cat sleeps here", "12", "Short.", *(f"line with word {c}" for c in "abcdefgh")]
    files = {
        "train": (sources, [f"{source} y" for source in sources]),
        "validation": (["the 4 DOGS ran!", "A cat sleeps there", "13", "short"], ["p", "q", "r", "s"]),
        "test": (["Another line of text"], ["t"]),
    }
    options = [
        f"--{split}_{side}={write_lines(f'{split}.{side}', lines)}"
        for split, sides in files.items() for side, lines in zip(("source", "target"), sides)
    ]  # fmt: skip
    results = train(recipe(*options, "--max_steps=1"))
    assert results.near_copies == stored(results.folder)["near_copies"] == {"validation": 1}


def test_greedy_search_is_scored_alongside_the_recipes_own_search(recipe, tmp_path):
    results = train(recipe(*FEW, "--greedy"))
    folder, scores = results.folder, stored(results.folder)["tests"]["test"]
    translator = pipeline("translation", model=str(folder))
    texts, references = lines(tmp_path / "test.x"), [lines(tmp_path / "test.y")]
    greedy = [t["translation_text"] for t in translator(texts, num_beams=1)]
    assert lines(folder / "test_translations_greedy.txt") == greedy
    assert scores["greedy_chrf2"] == pytest.approx(sacrebleu.corpus_chrf(greedy, references).score)
    assert scores["greedy_bleu_signature"] == scores["bleu_signature"]
    bleu, chrf = scores["greedy_bleu"], scores["greedy_chrf2"]
    assert f"test with greedy search: BLEU {bleu:.2f}, chrF2 {chrf:.2f}\n" in summary(results)


def test_minimum_bayes_risk_decoding_is_scored_with_the_same_samples_each_time(recipe, tmp_path):
    results = train(recipe(*FEW, "--mbr=chrf", "--samples=5"))
    folder, scores = results.folder, stored(results.folder)["tests"]["test"]
    texts, references = lines(tmp_path / "test.x"), [lines(tmp_path / "test.y")]
    torch.manual_seed(0)
    rankings = translate_mbr(pipeline("translation", model=str(folder)), texts, samples=5, utility="chrf")
    chosen = [ranking[0].text for ranking in rankings]
    assert lines(folder / "test_translations_mbr.txt") == chosen != lines(folder / "test_translations.txt")
    assert scores["mbr_bleu"] == pytest.approx(sacrebleu.corpus_bleu(chosen, references).score)
    assert scores["mbr_bleu_signature"] == scores["bleu_signature"]
    bleu, chrf = scores["mbr_bleu"], scores["mbr_chrf2"]
    assert f"test with minimum Bayes risk decoding: BLEU {bleu:.2f}, chrF2 {chrf:.2f}\n" in summary(results)
    card = (folder / "README.md").read_text()
    assert f"| minimum Bayes risk (chrf) of 5 samples | {bleu:.2f} | {chrf:.2f} |" in card
    train(recipe(*FEW))
    assert not (folder / "test_translations_mbr.txt").exists()


def test_greedy_recipe_translates_the_test_set_once(recipe, monkeypatch):
    calls, module = [], importlib.import_module("hf_vaswani.translator.pipeline")
    translate = module.translate
    monkeypatch.setattr(
        module, "translate", lambda *given, **options: calls.append(options) or translate(*given, **options)
    )
    results = train(recipe("--max_steps=4", "--eval_steps=9", "--greedy", "--num_beams=1"))
    assert len(calls) == 1
    scores = stored(results.folder)["tests"]["test"]
    assert scores["greedy_chrf2"] == scores["chrf2"]


def test_bleu_without_tokenization_uses_the_tokens_of_the_text(recipe, tmp_path, monkeypatch, caplog):
    references = ["a b,c d e f g .", "b b,c d e f h ."] * 60
    for split in ("validation", "test"):
        (tmp_path / f"{split}.x").write_text("a b c\n" * 120)
        (tmp_path / f"{split}.y").write_text("".join(f"{line}\n" for line in references))
    # All translations end with a separate period, about which sacreBLEU warns if it is to tokenize them.
    hypotheses = ["a b,c d e f h ."] * 120
    module = importlib.import_module("hf_vaswani.translator.pipeline")
    monkeypatch.setattr(module, "translate", lambda model, tokenizer, texts, **_: hypotheses[: len(texts)])
    with caplog.at_level(logging.WARNING):
        results = train(recipe("--max_steps=1", "--eval_steps=1", "--tokenize=none"))
    expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
    assert expected != pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references], force=True).score)
    [measured] = [record for record in records(results.folder) if "validation_bleu" in record]
    assert measured["validation_bleu"] == pytest.approx(expected)
    values = stored(results.folder)
    assert values["test_bleu"] == pytest.approx(expected)
    assert "tok:none" in values["test_bleu_signature"]
    assert "tokenized" not in caplog.text


def test_additional_test_sets_alone_give_no_main_test_score(recipe, more_tests):
    results = train(recipe(*FEW, "--test_source=null", "--test_target=null", more_tests()))
    values = stored(results.folder)
    assert list(values["tests"]) == ["valid.2", "short"]
    assert not any(name.startswith("test_") for name in values)
    assert results.examples[0][0] == lines(results.folder.parent / "validation.x")[0]


def test_perplexity_is_reported_with_the_loss(recipe):
    results = train(recipe(*FEW))
    perplexity = math.exp(results.validation_loss)
    assert stored(results.folder)["validation_perplexity"] == pytest.approx(perplexity)
    assert f"perplexity {perplexity:.2f};" in summary(results)


def test_report_and_card_name_the_engine_of_the_scored_translations(recipe):
    folder = train(recipe(*FEW)).folder
    assert stored(folder)["tests"]["test"]["engine"] == "torch"
    assert "PyTorch computed the translations." in (folder / "README.md").read_text(encoding="utf-8")


# What may change, and what is rejected.


def test_finished_run_is_reevaluated_with_different_settings(recipe, more_tests):
    first = train(recipe(*FEW))
    weights = (first.folder / "model.safetensors").read_bytes()
    again = train(recipe(*FEW, "--tokenize=char", "--greedy", "--attention=1", more_tests()))
    assert again.steps == 4 and (again.folder / "model.safetensors").read_bytes() == weights
    assert "tok:char" in again.tests["test"].bleu_signature
    assert len(again.tests) == 3 and again.tests["short"].greedy_bleu is not None


def test_bleu_that_selects_the_best_weights_cannot_change(recipe):
    train(recipe(*FEW, "--metric_for_best_model=bleu"))
    with pytest.raises(InputError, match="evaluation.tokenize was '13a' and is now 'none'"):
        train(recipe(*FEW, "--metric_for_best_model=bleu", "--tokenize=none"))


def test_bleu_is_computed_as_the_target_language_needs_it(recipe):
    chosen = {
        language: recipe(f"--target_language={language}", *more).evaluation.tokenize
        for language, *more in (["en"], ["zh"], ["th"], ["zh_Hans", "--tokenize=13a"])
    }
    assert chosen == {"en": "13a", "zh": "zh", "th": "char", "zh_Hans": "13a"}
    assert recipe("--source_language=zh", "--target_language=en", "--reversed=true").evaluation.tokenize == "zh"


def test_a_model_without_capitals_is_scored_and_chosen_by_lowercased_text(recipe, tmp_path, capsys, monkeypatch):
    for name in ("validation.y", "test.y"):
        (tmp_path / name).write_text((tmp_path / name).read_text().upper())
    perfect = lambda self, model, texts, **options: [text[::-1] for text in texts]  # noqa: E731
    monkeypatch.setattr(validation.Validator, "translate", perfect)
    report = train(recipe(*FEW, "--lowercase", "--metric_for_best_model=bleu", "--eval_steps=4"))
    assert "case:lc" in capsys.readouterr().out
    scores = report.tests["test"]
    assert (scores.bleu, scores.chrf2) == pytest.approx((100, 100)) and "case:lc" in scores.bleu_signature
    assert [group.chrf2 for group in report.analysis.worst] == pytest.approx([100] * 3)
    assert [r["validation_bleu"] for r in records(report.folder) if "validation_bleu" in r] == pytest.approx([100])


def test_references_that_the_model_cannot_write_are_told_before_training_and_in_the_card(recipe, tmp_path, capsys):
    (tmp_path / "test.y").write_text("\n".join(["é"] * 3 + ["a b"] * 5) + "\n")
    report = train(recipe(*FEW))
    said = capsys.readouterr().out
    warning = "the model cannot write 3 of 8 references of the test set: 3 with characters or words"
    assert said.index(warning) < said.index("The final model is")
    assert list(stored(report.folder)["tests"]["test"]["unreachable"].values()) == [3]
    card = (report.folder / "README.md").read_text()
    assert "cannot write, which the scores count as wrong: test, 3 with characters or words that" in card


def test_all_errors_in_evaluation_keys_are_reported_together(recipe):
    with pytest.raises(InputError) as error:
        recipe(
            "--attention=-1",
            "--attention_layers=some",
            "--greedy=often",
            "--mbr=ter",
            "--evaluation.samples=1",
            f"--tests={{test: a.tsv, train: a.tsv, a/b: a.tsv, {'ü' * 51}: a.tsv}}",
        )
    for expected in (
        "evaluation.attention must be at least 0, got -1",
        "evaluation.attention_layers must be one of 'mean', 'all', got 'some'",
        "evaluation.greedy must be true or false, got 'often'",
        "evaluation.mbr must be one of 'chrf', 'bleu' or null, got 'ter'",
        "evaluation.samples must be at least 2, got 1",
        "data.tests: 'a/b' cannot be the name of a test set",
        "data.tests: 'üüü",
        "data.tests: 'test' cannot be",
        "data.tests: 'train' cannot be",
    ):
        assert expected in str(error.value)
    with pytest.raises(InputError, match="data.tests must be keys with values, got 'a.tsv'"):
        recipe("--tests=a.tsv")


def test_unknown_tokenizer_and_bad_test_sets_are_rejected_before_any_work(recipe, tmp_path):
    with pytest.raises(InputError) as error:
        train(
            recipe("--tokenize=moses", "--tests={a: absent.tsv, b: null, c: {fil: x.tsv}, d: [], 2017: {source: x}}")
        )
    errors = str(error.value).splitlines()
    assert [line.partition(":")[0] for line in errors] == [
        "data.tests.b must be the path of a file, or keys and values, got None", "data.tests.c",
        "data.tests.d must be the path of a file, or keys and values, got []", "evaluation.tokenize",
    ]  # fmt: skip
    assert "'moses' is not a BLEU tokenizer. Choose from" in errors[-1]
    with pytest.raises(InputError) as error:
        train(recipe("--tests={a: absent.tsv, 2017: {source: x}}"))
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == ["data.tests.a", "data.tests.2017"]
    assert not (tmp_path / "out").exists()


def test_evaluation_section_is_read_from_the_file(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "data: {dataset: built-in, tests: {news: {source: a.de, target: a.en}}}\ntraining: {output_dir: o}\n"
        "evaluation: {tokenize: none, greedy: true, mbr: bleu, samples: 8, rerank_with: outputs/en_de, "
        "rerank_beams: 4, rerank_length_penalty: 0.5, attention: 2, attention_layers: all}\n"
    )
    loaded = load_recipe(path)
    assert loaded.data.tests == {"news": {"source": "a.de", "target": "a.en"}}
    assert loaded.to_dict()["evaluation"] == {
        "tokenize": "none", "greedy": True, "mbr": "bleu", "samples": 8, "rerank_with": "outputs/en_de",
        "rerank_beams": 4, "rerank_length_penalty": 0.5, "attention": 2, "attention_layers": "all",
        "compare_with": None, "confidence": False, "glossary": None,
    }  # fmt: skip


# Figures.


@pytest.mark.slow
@pytest.mark.draws_figures
def test_attention_of_test_sentences_is_drawn_and_named_after_line_and_kind(recipe, tmp_path):
    texts = ["a b", "a b c d e", "a b c d e", "a b c d e f"]
    for side in "xy":
        (tmp_path / f"test.{side}").write_text("".join(f"{text}\n" for text in texts))
    results = train(recipe(*FEW, "--type=word", "--min_frequency=1", "--attention=2"))
    names = [f"attention_test_{line}_{kind}.png" for line in (2, 4) for kind in ("encoder", "decoder", "cross")]
    assert stored(results.folder)["figures"] == ["pictures/curves.png", *(f"pictures/{name}" for name in names)]
    assert f"figures: {results.folder / 'pictures'}\n" in summary(results)
    for name in names:
        assert (results.folder / "pictures" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.draws_figures
def test_every_layer_gets_a_figure_of_all_heads_replacing_earlier_figures(recipe, monkeypatch):
    options = (*FEW, "--encoder_layers=2", "--test_source=null", "--test_target=null")
    folder = train(recipe(*options, "--attention=3")).folder
    mine = folder / "pictures" / "mine.png"
    mine.write_bytes(b"mine")
    drawn = []
    figure = attention.attention_figure
    monkeypatch.setattr(attention, "attention_figure", lambda *given: drawn.append(figure(*given)) or drawn[-1])
    results = train(recipe(*options, "--attention=1", "--attention_layers=all"))
    [_, first, *_] = results.figures
    prefix = first.removesuffix("_encoder_layer_0.png")
    assert results.figures[1:] == [
        f"{prefix}_{end}.png" for end in ("encoder_layer_0", "encoder_layer_1", "decoder_layer_0", "cross_layer_0")
    ]
    assert prefix.startswith("pictures/attention_validation_")
    assert {f"pictures/{path.name}" for path in (folder / "pictures").iterdir() if path != mine} == {*results.figures}
    panels = [[axes.get_title() for axes in each.axes if axes.images] for each in drawn]
    assert panels == [["head 0", "head 1"]] * 4
    assert mine.read_bytes() == b"mine"


def test_figure_that_cannot_be_drawn_loses_no_results(recipe, monkeypatch, capsys):
    def fail(*given, **options):
        raise RuntimeError("no\nfont")

    monkeypatch.setattr(attention, "attention_figure", fail)
    results = train(recipe(*FEW, "--attention=2"))
    assert "Attention could not be drawn: RuntimeError: no font\n" in capsys.readouterr().out
    values = stored(results.folder)
    assert values["figures"] == ["pictures/curves.png"] and "test_bleu" in values
    assert (results.folder / "model.safetensors").exists() and (results.folder / "README.md").exists()


def test_readable_sentences_are_the_first_of_five_to_twenty_tokens(tokenizer):
    def words(count: int, first: int = 0) -> str:
        return " ".join(f"w{number % 36}" for number in range(first, first + count))

    texts = [words(4), words(30), words(5), "", words(20), words(5), words(21), words(7)]
    assert readable_sentences(tokenizer, texts, 0) == []
    assert readable_sentences(tokenizer, texts, 2) == [2, 4]
    assert readable_sentences(tokenizer, texts, 3) == [2, 4, 7]
    # Then those closest in length: each text once, and no blank ones.
    assert readable_sentences(tokenizer, texts, 4) == [0, 2, 4, 7]
    assert readable_sentences(tokenizer, texts, 9) == [0, 1, 2, 4, 6, 7]


def test_translation_with_a_line_break_is_written_as_one_line(tmp_path):
    write_translations(tmp_path / "t", ["a dog\nruns", "a\r\ncat", "b"])
    assert (tmp_path / "t").read_bytes() == b"a dog runs\na cat\nb\n"


def test_model_with_nan_loss_is_validated_without_translations(monkeypatch):
    def fail(*arguments, **options):
        raise ValueError("The model's scores are NaN.")

    validator = object.__new__(validation.Validator)
    validator.texts, validator.scoring = [("a b c d", "d c b a")], ScoreSettings()
    monkeypatch.setattr(validation.Validator, "likelihood", lambda self, model: (math.nan, 0.0))
    monkeypatch.setattr(validation.Validator, "translate", fail)
    assert validator.measure(None)["bleu"] == 0

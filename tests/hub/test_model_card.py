"""The model card: only measured values, in the Hub's format, whatever the text contains."""

import contextlib
import copy
import io
import re

import pytest
import yaml
from huggingface_hub import ModelCard, metadata_eval_result
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

from hf_vaswani.errors import InputError
from hf_vaswani.hub.model_card import card_text
from hf_vaswani.records.run_report import parse_report
from hf_vaswani.training.publishing.portable_run import shared_recipe
from hf_vaswani.training.recipe.recipe import Recipe, load_recipe
from hf_vaswani.training.schedule import SCHEDULES
from tests.training.recipe.test_recipes import RECIPES

BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
SAMPLE = {"chrf2": 12.34, "source": "Ein Hund.", "translation": "A cat.", "reference": "A dog."}
RESULTS = {
    "steps": 1234,
    "minutes": 5.0,
    "parameters": 2_345_678,
    "validation_loss": 1.0986123,
    "validation_perplexity": 3.0,
    "validation_accuracy": 0.6543,
    "averaged": [1000, 1100, 1234],
    "filters": {"pairs": 1000, "empty": 3, "copies": 0, "duplicates": 20},
    "tests": {
        "test": {
            "sentences": 60, "bleu": 34.567, "bleu_signature": BLEU, "chrf2": 55.555, "chrf2_signature": CHRF,
        },
    },
    "sources": {
        "train": [{"dataset": "opus_books", "on_hub": True, "config": "de-en", "split": "train", "revision": None,
                   "weight": None}],
        "validation": [{"files": ["valid.de", "valid.en"], "weight": None}],
        "test": [{"files": ["test_2016.de", "test_2016.en"], "weight": None}],
    },
    "pairs": {"train": 997, "validation": 50, "test": 60},
    "pair_errors": [
        {"pairs": 3, "meaning": "with an empty side", "left_out": True},
        {"pairs": 0, "meaning": "whose target is the source", "left_out": False},
        {"pairs": 20, "meaning": "that repeat an earlier pair", "left_out": False},
    ],
    "tokenizer": {"type": "BPE", "joint": True, "source_tokens": 4000, "target_tokens": 4000},
    "architecture": {
        "encoder_layers": 3, "decoder_layers": 2, "d_model": 128, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 512, "decoder_ffn_dim": 256, "norm_position": "post",
        "position_type": "sinusoidal", "max_position_embeddings": 1024, "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True, "dropout": 0.3, "attention_dropout": 0.0, "activation_dropout": 0.2,
        "label_smoothing": 0.1,
    },
    "seen": {"pairs": 9970, "source_tokens": 111_222, "target_tokens": 123_400},
    "epochs": 10.0,
    "flops": 1.26e15,
    "seconds": 302.0,
    "energy": {},
    "machines": ["AMD X, 2 cores"],
    "processes": [1],
    "precision": "fp32",
    "versions": {"hf_vaswani": "0.1.0", "torch": "2.13.0"},
    "analysis": {
        "sentences": 60,
        "example": {"source": "Ein Hund.", "translation": "A cat."},
        "best": [SAMPLE],
        "worst": [{**SAMPLE, "translation": ""}],
        "by_length": [{"shortest": 2, "longest": 9, "sentences": 40, "chrf2": 61.234}],
        "source_tokens": 1000, "unknown_tokens": 5, "empty": 1, "at_limit": 2, "sources_cut": 0,
        "longest_trained": 44, "beyond_training": 3,
    },
}  # fmt: skip


def recipe_dict(**data):
    recipe = Recipe(model={"d_model": 64}).to_dict()
    recipe["data"].update(source_language="de", target_language="en", **data)
    recipe["training"]["output_dir"] = "/somewhere/private"
    return recipe


def card_of(recipe=None, name="de-en", figures_in="", **changes):
    """The text of a card; a key changed to `None` is removed."""
    results = {key: value for key, value in {**RESULTS, **changes}.items() if value is not None}
    return card_from(results, recipe, name, figures_in)


def card_from(results, recipe=None, name="de-en", figures_in=""):
    """The text of the card of a whole report."""
    recipe = recipe or recipe_dict()
    falls_to_end = SCHEDULES[recipe["training"]["lr_scheduler_type"]].falls_to_end
    return card_text(name, recipe, parse_report(results), shared_recipe(recipe), figures_in, falls_to_end=falls_to_end)


def recipe_in(card: str) -> str:
    return card.split("```yaml\n")[1].split("\n```")[0]


def without_scores():
    return {"tests": {}, "analysis": None}


def test_card_contains_what_was_measured():
    text = card_of()
    for expected in (
        "2,345,678 parameters", "997 sentence pairs", r"| test\_2016 | 60 | beam 4 | 34.57 | 55.55 |",
        f"`{BLEU}`", f"`{CHRF}`", "1.0986 (perplexity 3.00)", "65.4%", "1,234 steps in 5.0 minutes, 10.0 epochs",
        "111,222 source and 123,400 target tokens", "100 target tokens per step", "AMD X, 2 cores; fp32",
        "1.3·10^15", "steps 1,000, 1,100 and 1,234", "Of 1,000 training pairs read, 997 are trained on.",
        "Left out: 3 with an empty side.", "Kept: 20 that repeat an earlier pair.", "byte-pair encoding",
        "3 + 2 layers", "post-norm; d_model 128; heads 4; feed-forward 512 + 256",
        "Adam, betas 0.9 and 0.98; learning rate 1 × equation 3, 4,000 steps of warm-up; steps of up to",
        "- dropout 0.3; dropout inside the FFN 0.2; label smoothing 0.1\n",
        "one vocabulary of 4,000", "0.50% of the test set's source tokens are unknown",
        "3 of 60 test sources are longer than any source trained on (44 tokens)",
        "- At least 2 of 60 test translations are cut off at the maximum length (source + 50 tokens).",
        "1 of 60 test translations are empty", "| 2–9 | 40 | 61.23 |",
        "| 12.3 | Ein Hund. | A cat. | A dog. |",
        "| 12.3 | Ein Hund. | *(nothing)* | A dog. |", "de to en", r"hf\_vaswani 0.1.0, torch 2.13.0",
        "valid.de, valid.en", "[opus\\_books](https://huggingface.co/datasets/opus_books), de-en, train",
    ):  # fmt: skip
        assert expected in text, expected


def test_metadata_is_readable_by_the_hub(tmp_path):
    path = tmp_path / "README.md"
    recipe = recipe_dict()
    recipe["training"]["license"] = "apache-2.0"
    path.write_text(card_of(recipe, base_model="Helsinki-NLP/opus-mt-de-en"), encoding="utf-8")
    data = ModelCard.load(path).data
    assert data.pipeline_tag == "translation" and data.library_name == "transformers"
    assert data.language == ["de", "en"] and data.license == "apache-2.0"
    assert data.datasets == ["opus_books"] and data.base_model == "Helsinki-NLP/opus-mt-de-en"
    assert data.metrics == ["bleu", "chrf"]
    expected = metadata_eval_result(
        model_pretty_name="de-en", task_pretty_name=None, task_id="translation", metrics_pretty_name=f"BLEU ({BLEU})",
        metrics_id="bleu", metrics_value=34.57, dataset_pretty_name="test_2016", dataset_id="test_2016",
    )  # fmt: skip
    [index] = yaml.safe_load(path.read_text().split("---\n")[1])["model-index"]
    assert index["name"] == "de-en"
    [result] = index["results"]
    assert [metric["value"] for metric in result["metrics"]] == [34.57, 55.55]
    [expected] = expected["model-index"][0]["results"]
    assert result["metrics"][0] == {
        key: value for key, value in expected["metrics"][0].items() if value is not None and key != "verified"
    }
    assert result["dataset"] == expected["dataset"]
    name, scores = model_index_to_eval_results([index])
    assert scores == data.eval_results
    assert eval_results_to_model_index(name, scores) == [index]


def test_hub_test_set_is_identified_by_id_config_and_split():
    sources = {**RESULTS["sources"], "test": [{**RESULTS["sources"]["train"][0], "split": "test", "revision": "abc"}]}
    [score, _] = ModelCard(card_of(sources=sources)).data.eval_results
    found = (score.dataset_type, score.dataset_name, score.dataset_config, score.dataset_split, score.dataset_revision)
    assert found == ("opus_books", "opus_books, de-en, test", "de-en", "test", "abc")


def test_test_sets_with_the_same_name_are_distinguished_on_the_hub():
    scores = RESULTS["tests"]["test"]
    tests = {"test": scores, "test_2016": {**scores, "bleu": 30.0}}
    results = ModelCard(card_of(tests=tests)).data.eval_results
    found = {(score.dataset_type, score.metric_type): score.metric_value for score in results}
    assert found["test_2016", "bleu"] == 34.57 and found["test_2016, test_2016", "bleu"] == 30.0


@pytest.mark.parametrize("codes", [("pt-BR", "zh_Hans"), ("PT", "zh"), ("pt", "zh-CN")])
def test_languages_with_a_region_become_the_hubs_language_codes(codes):
    recipe = recipe_dict()
    recipe["data"].update(source_language=codes[0], target_language=codes[1])
    assert ModelCard(card_of(recipe)).data.language == ["pt", "zh"]


@pytest.mark.parametrize(
    ("changes", "direction"),
    [
        ({}, "from de to en"),
        ({"reversed": True}, "from en to de"),
        ({"text": ["own", "reversed"]}, "from one language to another"),
        ({"text": {"own": 2, "reversed": 1}}, "from one language to another"),
    ],
)
def test_direction_is_that_of_the_model(changes, direction):
    recipe = recipe_dict()
    recipe["data"].update(source_language="de", target_language="en", **changes)
    card = card_of(recipe)
    assert f"Translates single sentences {direction}." in card
    assert (ModelCard(card).data.language or []) == re.findall(r"\b(?:de|en)\b", direction)


def test_languages_of_the_model_come_before_those_of_the_recipe():
    recipe = recipe_dict()
    recipe["data"].update(source_language="source", target_language="target")
    assert ModelCard(card_of(recipe, languages=["fr", "nl"])).data.language == ["fr", "nl"]


def test_column_names_that_are_not_languages_are_not_listed_as_languages():
    recipe = recipe_dict()
    recipe["data"].update(source_language="source_text", target_language="en")
    assert ModelCard(card_of(recipe)).data.language == ["en"]


def test_greedy_search_is_listed_once_if_it_is_the_models_default():
    recipe = recipe_dict()
    recipe["generation"]["num_beams"] = 1
    scores = RESULTS["tests"]["test"]
    text = card_of(recipe, tests={"test": {**scores, "greedy_bleu": scores["bleu"], "greedy_chrf2": scores["chrf2"]}})
    assert text.count("| greedy |") == 1


def test_key_and_value_sizes_are_shown_if_they_differ_from_the_default():
    architecture = {**RESULTS["architecture"], "d_k": 16, "d_v": None}
    assert "; heads 4 of d_k 16; feed-forward" in card_of(architecture=architecture)
    assert "; heads 4 of d_k 16, d_v 8; feed-forward" in card_of(architecture={**architecture, "d_v": 8})


def test_each_test_set_has_its_scores_and_greedy_is_listed_next_to_beam_search():
    tests = {
        "test": {**RESULTS["tests"]["test"], "greedy_bleu": 33.0, "greedy_chrf2": 54.0},
        "test_2017": {"bleu": 30.0, "bleu_signature": BLEU, "chrf2": 50.0, "chrf2_signature": CHRF, "sentences": 7},
    }
    text = card_of(tests=tests)
    assert "| greedy | 33.00 | 54.00 |" in text
    assert r"| test\_2017 | 7 | beam 4 | 30.00 | 50.00 |" in text
    scores = ModelCard(text).data.eval_results
    assert [(score.dataset_name, score.metric_value) for score in scores] == [
        ("test_2016", 34.57), ("test_2016", 55.55), ("test_2017", 30.0), ("test_2017", 50.0),
    ]  # fmt: skip


def test_analyzed_test_set_is_named_if_there_are_several():
    more = {"test_2017": {"bleu": 30.0, "bleu_signature": BLEU, "sentences": 7}}
    translations, limits = parts_of(card_of(tests={**RESULTS["tests"], **more}), "Translations", "Limits")
    assert r"test set test\_2016," in translations and r"test set test\_2016." in limits
    translations, limits = parts_of(card_of(tests=more), "Translations", "Limits")
    assert r"test set test\_2017," in translations and r"test set test\_2017." in limits
    assert "The counts below" not in card_of(**without_scores())


def test_card_without_a_test_set_has_no_score_and_says_the_model_was_not_tested():
    text = card_of(**without_scores(), pairs={"train": 997, "validation": 50, "test": 0})
    assert "BLEU" not in text and "chrF" not in text
    assert "model-index" not in text and "model_name" not in text
    assert "was not tested" in text
    assert "1.0986" in text


def test_card_says_that_the_test_set_was_held_out():
    sources = {"train": RESULTS["sources"]["train"]}
    text = card_of(recipe_dict(test_share=0.1, validation_share=0.004), sources=sources)
    assert "| test | 10% of the text, held out at random | 60 |" in text
    assert "| validation | 0.4% of the text, held out at random | 50 |" in text


def test_maximum_translation_length_is_bounded_by_learned_positions():
    architecture = {**RESULTS["architecture"], "position_type": "learned", "max_position_embeddings": 80}
    assert "(source + 50 tokens, and never more than 79)" in card_of(architecture=architecture)


def test_model_trained_on_tokenized_text_asks_for_tokenized_text():
    recipe = recipe_dict()
    recipe["evaluation"]["tokenize"] = "none"
    use, limits = parts_of(card_of(recipe), "Use", "Limits")
    assert "Give the model text in the form it was trained on" in use
    assert "- BLEU counted the text's own tokens." in limits
    use, limits = parts_of(card_of(), "Use", "Limits")
    assert "in the form" not in use and "own tokens" not in limits


def parts_of(card: str, *headings: str) -> list[str]:
    return [card.split(f"## {heading}\n")[1].split("\n## ")[0] for heading in headings]


def training_of(card: str) -> str:
    [training] = parts_of(card, "Training")
    return training


def test_settings_beyond_the_papers_are_listed():
    recipe = recipe_dict()
    recipe["training"].update(weight_decay=0.01, max_grad_norm=1.0, ema_decay=0.999, r_drop=3.0)
    recipe["tokenizer"]["bpe_dropout"] = 0.1
    text = training_of(card_of(recipe))
    assert "- AdamW, weight decay 0.01, betas 0.9 and 0.98; " in text
    assert "; gradients clipped to norm 1; moving average of the weights, decay 0.999\n" in text
    assert "; BPE dropout 0.1; R-Drop, alpha 3; label smoothing 0.1\n" in text
    recipe["training"]["optim"] = "muon"
    assert (
        "- Muon for hidden matrices and AdamW, betas 0.9 and 0.98, for other parameters, weight decay 0.01; "
        in training_of(card_of(recipe))
    )
    plain = training_of(card_of())
    for word in ("Muon", "AdamW", "weight decay", "clipped", "moving average", "BPE dropout", "R-Drop"):
        assert word not in plain


@pytest.mark.parametrize(
    ("schedule", "warmup", "words"),
    [
        ("constant", 0, "; learning rate 0.0001, constant; "),
        ("constant", 50, "; learning rate 0.0001, constant, 50 steps of warm-up; "),
        ("inverse_sqrt", 500, r"; learning rate up to 0.0001, inverse\_sqrt, 500 steps of warm-up; "),
    ],
)
def test_learning_rate_is_described_by_its_schedule(schedule, warmup, words):
    recipe = recipe_dict()
    recipe["training"].update(lr_scheduler_type=schedule, learning_rate=1e-4, warmup_steps=warmup)
    assert words in training_of(card_of(recipe))


def test_dropout_rates_of_zero_are_not_listed():
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.1}
    text = card_of(architecture={**RESULTS["architecture"], **rates})
    assert "\n- dropout inside the FFN 0.1; label smoothing 0.1\n" in text


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        ([2], "up to 6,000 tokens a side, padding included, and 48 pairs, in 6 forward passes\n"),
        ([2, 4], "up to 3,000 tokens a side, padding included, and 24 pairs, in 3 forward passes on each device\n"),
        (None, "up to 3,000 tokens a side, padding included, and 24 pairs, in 3 forward passes on each device\n"),
    ],
)
def test_size_of_a_step_covers_all_forward_passes(processes, words):
    recipe = recipe_dict()
    recipe["training"].update(max_tokens=1000, max_sentences=8, gradient_accumulation_steps=3)
    assert f"; steps of {words}" in training_of(card_of(recipe, processes=processes))


def identity_of_score(recipe, sources):
    [score, _] = ModelCard(card_of(recipe, sources=sources)).data.eval_results
    return score.dataset_type, score.dataset_name, score.dataset_config, score.dataset_split


def test_score_of_a_held_out_test_set_names_the_text_and_the_share():
    sources = {"train": RESULTS["sources"]["train"]}
    name = "opus_books, de-en, train, 5% held out, seed 3"
    recipe = recipe_dict(test_share=0.05, split_seed=3)
    assert identity_of_score(recipe, sources) == ("opus_books", name, "de-en", "train")
    assert f"| {name.replace('_', chr(92) + '_')} | 60 |" in card_of(recipe, sources=sources)


def test_test_set_held_out_of_several_texts_or_of_files_has_no_hub_identity():
    recipe, [books] = recipe_dict(test_share=0.005), RESULTS["sources"]["train"]
    mixed, files = "test, 0.5% held out, seed 1", "europarl, 0.5% held out, seed 1"
    assert identity_of_score(recipe, {"train": [books, books]}) == (mixed, mixed, None, None)
    file = {"files": ["europarl.de", "europarl.en"], "weight": None}
    assert identity_of_score(recipe, {"train": [file]}) == (files, files, None, None)


def test_test_set_of_several_texts_is_not_attributed_to_the_first():
    [books] = RESULTS["sources"]["train"]
    assert identity_of_score(recipe_dict(), {"test": [books, books]}) == ("test", "test", None, None)


def test_existing_tokenizer_is_not_described_by_keys_for_a_new_one():
    recipe = recipe_dict()
    recipe["tokenizer"].update(lowercase=True, pre_tokenizer="whitespace", word_boundary="after")
    words = (
        "all text lowercased",
        "words split only at whitespace",
        "word-boundary markers at the ends of words",
        "Unicode form NFC",
    )
    [new] = parts_of(card_of(recipe), "Model")
    assert all(word in new for word in words)
    for section, key in (("tokenizer", "path"), ("training", "start_from")):
        changed = copy.deepcopy(recipe)
        changed[section][key] = "elsewhere"
        [model] = parts_of(card_of(changed), "Model")
        assert not any(word in model for word in words)


@pytest.mark.parametrize(
    ("settings", "results", "expected"),
    [
        ({}, {}, "`hf-vaswani train recipe.yaml --output_dir FOLDER` with this file and the text above trains the"),
        ({"max_minutes": 6}, {}, "--output_dir FOLDER` with"),
        ({"max_minutes": 5}, {}, "--output_dir FOLDER --max_minutes null --max_steps 1234` with"),
        (
            {"max_minutes": 5, "lr_scheduler_type": "linear"},
            {},
            "model again. The time limit ended this run",
        ),
        ({"mixed_precision": "auto"}, {}, "--output_dir FOLDER --mixed_precision no` with"),
        (
            {"mixed_precision": "auto"},
            {"precision": "bf16, mixed", "processes": [4]},
            " --mixed_precision bf16 --gradient_accumulation_steps",
        ),
        (
            {"gradient_accumulation_steps": 2},
            {"processes": [4]},
            "--output_dir FOLDER --gradient_accumulation_steps 8` with",
        ),
        ({}, {"processes": [4]}, "trains the model again, in one process instead of 4."),
        ({"start_from": "/models/first"}, {}, "` with this file, first and the text above trains the model again."),
    ],
)
def test_command_to_retrain_the_model_reproduces_its_steps(settings, results, expected):
    recipe = recipe_dict()
    recipe["training"].update({"mixed_precision": "no", **settings})
    [again] = parts_of(card_of(recipe, **results), "Recipe")
    assert expected in again


def test_energy_is_shown_only_if_it_was_measured():
    assert "Energy: not measured" in card_of()
    text = card_of(energy={"cpu": [7.2e6, 301.0], "gpu": [3.6e5, 151.0]})
    assert "Energy: 2 kWh (CPUs) and 0.1 kWh (GPUs, in 2.5 minutes of training alone) of the whole machine" in text
    assert "first machine" not in text
    several = card_of(energy={"gpu": [3.6e6, 302.0]}, machines=["8 × NVIDIA X, on 2 machines"])
    assert "Energy: 1 kWh (GPUs) of the first machine alone" in several


def test_metadata_has_emissions_if_energy_was_measured():
    assert ModelCard(card_of()).data.to_dict().get("co2_eq_emissions") is None
    energy = {"cpu": [7.2e6, 301.0], "gpu": [3.6e5, 151.0]}
    found = ModelCard(card_of(energy=energy)).data.co2_eq_emissions
    # 2.1 kWh at 475 g.
    assert found["emissions"] == 998 and found["training_type"] == "pre-training" and "2.1 kWh" in found["source"]
    assert found["hardware_used"] == "AMD X, 2 cores"
    recipe = recipe_dict()
    recipe["training"]["start_from"] = "somebody/model"
    assert ModelCard(card_of(recipe, energy=energy)).data.co2_eq_emissions["training_type"] == "fine-tuning"


def test_values_missing_from_older_reports_are_omitted():
    unknown = {"seen": None, "epochs": None, "flops": None, "machines": []}
    text = card_from({**RESULTS, **unknown})
    assert "tokens per step" not in text and "epochs" not in text and "floating-point" not in text
    assert "Hardware: not recorded" in text


def test_license_of_the_text_is_not_used_as_the_models_license():
    text = card_of(recipe_dict(license="CC BY 2.0 FR"))
    assert "License of the text: CC BY 2.0 FR. No license was chosen for the model." in text
    assert ModelCard(text).data.license is None
    assert "The license of the text is not named" in card_of()


def test_card_has_file_names_but_no_local_paths(tmp_path):
    files = {
        f"{split}_{side}": f"texts/{split}.{side}" for split in ("train", "test") for side in ("source", "target")
    }
    mixed = {"train": [{"source": ["/texts/more.de"], "target": ["../texts/more.en"], "weight": 2.0}]}
    text = card_of(recipe_dict(**files, **mixed, dataset=str(tmp_path), license="x" * 5000))
    assert "train.source" in text and "more.de" in text
    assert "texts/" not in text and str(tmp_path) not in text
    assert "/somewhere" not in text


def test_recipe_in_the_card_gives_the_same_training_run(tmp_path):
    recipe = recipe_dict(dataset="built-in", test_split=None)
    recipe["training"].update(freeze=["model.encoder"], adam_beta1=0.8, adam_beta2=0.9, max_minutes=2.0, ema_decay=0.9)
    recipe["tokenizer"].update(type="word", lowercase=True)
    recipe["evaluation"]["tokenize"] = "13a"  # as loading chooses it
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_in(card_of(recipe)), encoding="utf-8")
    assert load_recipe(path, ["--output_dir=/somewhere/private"]).to_dict() == recipe


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_in_the_card_equals_the_trained_one(name, tmp_path, monkeypatch):
    # Of a model's folder that exists here, such as the quickstart's, the card gives only the name.
    monkeypatch.chdir(tmp_path)
    has_text = "dataset:" in RECIPES[name].read_text()
    trained = load_recipe(RECIPES[name], [] if has_text else ["--train=train.tsv", "--validation=valid.tsv"])
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_in(card_of(trained.to_dict())), encoding="utf-8")
    assert load_recipe(path, [f"--output_dir={trained.training.output_dir}"]).to_dict() == trained.to_dict()


def test_recipe_in_the_card_has_only_the_chosen_keys_of_an_existing_tokenizer():
    recipe = recipe_dict()
    recipe["training"]["start_from"] = "first"
    recipe["tokenizer"]["bpe_dropout"] = 0.1
    assert yaml.safe_load(recipe_in(card_of(recipe)))["tokenizer"] == {"bpe_dropout": 0.1}


def test_recipe_in_the_card_omits_empty_defaults():
    training = yaml.safe_load(recipe_in(card_of()))["training"]
    assert training["max_steps"] == 100_000
    assert not {"num_train_epochs", "freeze", "report_to"} & training.keys()


NASTY = [
    "a | b", "`code` ```\nfence", "{{ 7 * 7 }} {% include '/etc/passwd' %} {# gone #}", "---\nlicense: mit\n---",
    "<script>alert(1)</script><!--", "</details>", "# heading\n\n- list", 'quote " and \\n and \'\'\'', "مرحبا | ب",
    "$$x$$", "\u2028", "\ud800", "[link](javascript:x)",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_text_of_the_data_cannot_change_the_cards_structure(text):
    plain, nasty = copy.deepcopy(RESULTS), copy.deepcopy(RESULTS)
    for sample in [nasty["analysis"]["example"], nasty["analysis"]["best"][0], nasty["analysis"]["worst"][0]]:
        for side in sample:
            if side != "chrf2":
                sample[side] = text
    nasty["sources"]["test"] = nasty["sources"]["validation"] = [{"files": [text], "weight": None}]
    cards = [card_of(recipe_dict(license=text), **results) for results in (plain, nasty)]
    assert "49" not in cards[1].replace("4986", "")
    outlines = [outline(card) for card in cards]
    assert outlines[0] == outlines[1]
    data = ModelCard(cards[1]).data
    assert data.license is None and data.pipeline_tag == "translation"
    assert yaml.safe_load(re.search(r"^(```+)yaml\n(.*?)\n\1$", cards[1], re.S | re.M)[2])["data"]["license"] == text


def outline(card: str) -> list[str]:
    """Headings, numbers of table columns, and HTML tags, without code blocks."""
    lines = re.sub(r"^(```+)\w+\n.*?\n\1$", "", ModelCard(card).text, flags=re.S | re.M).splitlines()
    cells = [str(len(re.findall(r"(?<!\\)\|", line))) for line in lines]
    return [
        line if line.startswith("#") else cell + "".join(re.findall("<[^>]*>", line))
        for line, cell in zip(lines, cells)
    ]


def test_any_model_name_is_escaped_in_heading_code_and_metadata():
    name = 'my "best" | <model>'
    text = card_of(name=name)
    assert '# my "best" \\| &lt;model&gt;\n' in text
    assert ModelCard(text).data.model_name == name
    code = text.split("```python\n")[1].split("\n```")[0]
    assert 'model="my \\"best\\" | <model>")' in code


def test_figures_are_shown_from_their_folder():
    pictures = ["curves.png", *(f"attention_{i}.png" for i in range(9))]
    text = card_of(figures=pictures)
    assert "![Learning curves](curves.png)" in text and "![attention 0](attention_0.png)" in text
    assert text.count("![attention") == 4
    assert "![Learning curves](de-en/curves.png)" in card_of(figures=pictures, figures_in="de-en")
    assert "![" not in card_of()


def test_figures_are_recognized_by_kind_whatever_the_name_of_the_test_set():
    kinds = ("encoder", "decoder", "cross")
    drawn = [f"pictures/attention_{name}_1_{kind}.png" for name in ("cross_domain", "curves_x") for kind in kinds]
    text = card_of(figures=["pictures/curves.png", *drawn])
    shown = re.findall(r"!\[(.*?)\]\((.*?)\)", text)
    assert [path for title, path in shown if title == "Learning curves"] == ["pictures/curves.png"]
    assert [path for _, path in shown[1:3]] == [drawn[2], drawn[5]] and len(shown) == 5


def test_spaces_in_figure_paths_are_escaped():
    assert "](my%20model/curves.png)" in card_of(figures=["curves.png"], figures_in="my model")


def test_code_in_the_card_runs(saved_model):
    findings = {**RESULTS["analysis"], "example": {"source": 'w1 "w2" \\ {w3}', "translation": "x"}}
    code = card_of(name="the-model", findings=findings).split("```python\n")[1].split("\n```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('"the-model"', repr(str(saved_model))), {})
    assert printed.getvalue().endswith("\n")


def test_card_of_a_partial_epoch_says_so(tmp_path):
    text = card_of(epochs=0.18)
    assert "trained from scratch on 0.18 epochs of 997 sentence pairs" in text
    assert "997 are trained on; training ended before it had seen them all. Left out:" in text


def test_name_of_the_text_precedes_those_of_its_test_sets():
    tests = {**RESULTS["tests"], "test_2017": {"bleu": 30.0, "bleu_signature": BLEU}}
    text = card_of(text="Multi30k", tests=tests)
    assert "997 sentence pairs of Multi30k" in text
    names = {result.dataset_name for result in ModelCard(text).data.eval_results}
    assert names == {"Multi30k, test_2016", "Multi30k, test_2017"}


def test_cross_attention_is_shown_first():
    names = ["curves.png", *(f"attention_{kind}.png" for kind in ("encoder", "decoder", "cross"))]
    text = card_of(figures=names)
    assert text.index("(attention_cross.png)") < text.index("(attention_encoder.png)")


# Parts that only some reports have.
FIRST = {"command": "train", "seconds": 3.0, "settings": {"data": {"text": {"own": 1, "more": 2}}},
         "inputs": [{"role": "training.start_from", "name": "model", "digest": "1"},
                    {"role": "training.distill_from", "name": "teacher", "digest": "2"}],
         "results": {"steps": 3, "parameters": 5, "validation_loss": 1.0, "tests": {"test": {"bleu": 1.0}}},
}  # fmt: skip
SECOND = {"command": "translate", "seconds": 3.0, "settings": {"side": "source", "num_beams": 4, "n_best": 2},
          "inputs": [{"role": "model", "name": "first", "digest": "3", "made": FIRST},
                     {"role": "input", "name": "text", "digest": "4"}],
          "results": {"lines": 3, "pairs": 2, "cut": 1}}  # fmt: skip
SEARCH = {"search": "beam 4", "sentences_per_second": 2.0, "bleu": 1.0, "chrf2": 2.0}
OTHERS = {
    "inputs": [{"role": "data.text", "name": "pairs", "digest": "5", "made": SECOND}],
    "teacher": {"models": ["first"], "parameters": 5, "sentences": 3, "test": "test", "teacher": SEARCH,
                "student": SEARCH, "agreement": 3.0, "signature": BLEU},
    "adapter": {"parameters": 3, "all_parameters": 9, "base": "you/base", "merged": False},
    "final_weights": {"average": "auto", "weights": "the last", "compared": [
        {"weights": weights, "steps": [4], "validation_loss": 1.0} for weights in ("the last", "the best")]},
    "trail": {"texts": {}, "environments": [{}]}, "languages": ["de", "en"], "text": "Multi30k", "base_model": "a/b",
}  # fmt: skip


def variants(value, added):
    """A JSON value with a text added to one of the texts in it, each in turn, keys included."""
    if isinstance(value, str):
        yield value + added
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in variants(entry, added))
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield {key + added if name == key else name: other for name, other in value.items()}
            yield from ({**value, key: other} for other in variants(entry, added))


def test_no_text_of_the_results_becomes_markup():
    added, cards = "\n\n<script>x</script> </summary>`` ```", 0
    for results in variants({**RESULTS, **OTHERS}, added):
        with contextlib.suppress(InputError, ValueError, KeyError, TypeError):  # not the results of any run
            card = card_from(results)
            text = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", card.partition("\n---\n")[2], flags=re.DOTALL | re.MULTILINE)
            text = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
            assert "<script" not in text and text.count("</summary>") <= 3, results
            cards += 1
    assert cards > 60


def test_card_lists_what_was_made_before_the_run():
    text = card_of(**{name: OTHERS[name] for name in ("inputs", "trail")})
    assert "trained by 3 commands on 997" in text
    assert "| first | training on own 1, more 2, from model, distilling teacher | 3 steps, 5 parameters; " in text
    assert "| pairs | first translates text, source side: beam 4, 2 best | 2 pairs of 3 lines; left out: 1 cut" in text
    assert '"name": "pairs"' in text.partition("<summary>provenance.json</summary>")[2]


@pytest.mark.parametrize("results", [{}, {"steps": "x"}, {"pairs": [], "lines": 3}, {"tests": 3}])
@pytest.mark.parametrize("command", ["train", "translate", "average", "sing"])
def test_card_can_be_written_whatever_others_say_of_what_they_made(command, results):
    made = {"command": command, "results": results, "settings": {"data": {"text": 3}}}
    made["settings"] |= {} if command == "train" else {"num_beams": "x", "n_best": "y"}
    assert "| pairs |" in card_of(inputs=[{"role": "data.text", "name": "pairs", "digest": "5", "made": made}])


def test_results_of_an_earlier_version_with_stages_still_have_a_card():
    stages = [{"name": "first", "kind": "train", "seconds": 3.0}]
    recipe = {**recipe_dict(), "stages": {"first": {"train": {}}}}
    results = {**RESULTS, "stages": stages, "total_seconds": 9.0, "recipe": recipe}
    assert "997 sentence pairs" in card_from(results)

"""The model card: measured figures alone, in the Hub's format, whatever the text holds."""

import contextlib
import copy
import io
import re

import pytest
import yaml
from huggingface_hub import ModelCard, metadata_eval_result
from huggingface_hub.repocard_data import eval_results_to_model_index, model_index_to_eval_results

from hf_vaswani.hub.card import card_text
from hf_vaswani.training.recipe import Recipe, load_recipe

BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
CHRF = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
SAMPLE = {"chrf2": 12.34, "source": "Ein Hund.", "translation": "A cat.", "reference": "A dog."}
RESULTS = {
    "update": 1234,
    "minutes": 5.0,
    "parameters": 2_345_678,
    "validation_loss": 1.0986123,
    "validation_perplexity": 3.0,
    "validation_accuracy": 0.6543,
    "averaged": [1000, 1100, 1234],
    "filters": {"pairs": 1000, "empty": 3, "copies": 0, "duplicates": 20},
    "test_bleu": 34.567,
    "test_bleu_signature": BLEU,
    "test_chrf2": 55.555,
    "test_chrf2_signature": CHRF,
    "sources": {
        "train": [{"dataset": "opus_books", "on_hub": True, "config": "de-en", "split": "train", "revision": None,
                   "weight": None}],
        "validation": [{"files": ["valid.de", "valid.en"], "weight": None}],
        "test": [{"files": ["test_2016.de", "test_2016.en"], "weight": None}],
    },
    "pairs": {"train": 997, "validation": 50, "test": 60},
    "faults": [
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
    "precision": "fp32",
    "versions": {"hf_vaswani": "0.1.0", "torch": "2.13.0"},
    "findings": {
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


def card_of(recipe=None, **changes):
    """The text of a card; a change to `None` takes the key out."""
    results = {key: value for key, value in {**RESULTS, **changes}.items() if value is not None}
    return card_text("de-en", recipe or recipe_dict(), results)


def without_scores():
    return {key: None for key in RESULTS if key.startswith("test_") or key == "findings"}


def test_card_holds_what_was_measured():
    text = card_of()
    for expected in (
        "2,345,678 parameters", "997 sentence pairs", r"| test\_2016 | 60 | beam 4 | 34.57 | 55.55 |",
        f"`{BLEU}`", f"`{CHRF}`", "1.0986 (perplexity 3.00)", "65.4%", "1,234 updates in 5.0 minutes, 10.0 epochs",
        "111,222 source and 123,400 target tokens", "100 target tokens an update", "AMD X, 2 cores; fp32",
        "1.3·10^15", "updates 1,000, 1,100 and 1,234", "Of 1,000 training pairs read, 997 are trained on.",
        "Left out: 3 with an empty side.", "Kept: 20 that repeat an earlier pair.", "byte-pair encoding",
        "3 + 2 layers", "post-norm; d_model 128; heads 4; feed-forward 512 + 256",
        "learning rate 1 × equation 3, 4,000 updates of warm-up; dropout 0.3, inside the FFN 0.2; label smoothing 0.1",
        "one vocabulary of 4,000", "0.50% of the test set's source tokens are unknown",
        "3 of 60 test sources are longer than all that was trained on (44 tokens)",
        "2 of 60 test translations break off", "1 of 60 test translations are empty", "| 2–9 | 40 | 61.23 |",
        "| 12.3 | Ein Hund. | A cat. | A dog. |",
        "| 12.3 | Ein Hund. | *(nothing)* | A dog. |", "de to en", "hf_vaswani 0.1.0, torch 2.13.0",
        "valid.de, valid.en", "[opus\\_books](https://huggingface.co/datasets/opus_books), de-en, train",
    ):  # fmt: skip
        assert expected in text, expected


def test_metadata_is_what_the_hub_reads(tmp_path):
    path = tmp_path / "README.md"
    recipe = recipe_dict()
    recipe["training"]["license"] = "apache-2.0"
    recipe["training"]["start_from"] = "Helsinki-NLP/opus-mt-de-en"
    path.write_text(card_of(recipe), encoding="utf-8")
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


def test_test_set_of_the_hub_is_named_by_id_configuration_and_split():
    sources = {**RESULTS["sources"], "test": [{**RESULTS["sources"]["train"][0], "split": "test", "revision": "abc"}]}
    [score, _] = ModelCard(card_of(sources=sources)).data.eval_results
    found = (score.dataset_type, score.dataset_name, score.dataset_config, score.dataset_split, score.dataset_revision)
    assert found == ("opus_books", "opus_books, de-en, test", "de-en", "test", "abc")


def test_each_test_set_has_its_scores_and_greedy_search_stands_beside_beam():
    more = {
        "test_2017": {"bleu": 30.0, "bleu_signature": BLEU, "chrf2": 50.0, "chrf2_signature": CHRF, "sentences": 7}
    }
    text = card_of(tests=more, test_greedy_bleu=33.0, test_greedy_chrf2=54.0)
    assert "| greedy | 33.00 | 54.00 |" in text
    assert r"| test\_2017 | 7 | beam 4 | 30.00 | 50.00 |" in text
    scores = ModelCard(text).data.eval_results
    assert [(score.dataset_name, score.metric_value) for score in scores] == [
        ("test_2016", 34.57), ("test_2016", 55.55), ("test_2017", 30.0), ("test_2017", 50.0),
    ]  # fmt: skip


def test_card_without_a_test_set_states_no_score_and_says_that_it_was_not_tested():
    text = card_of(**without_scores(), pairs={"train": 997, "validation": 50, "test": 0})
    assert "BLEU" not in text and "chrF" not in text
    assert "model-index" not in text and "model_name" not in text
    assert "was not tested" in text
    assert "1.0986" in text


def test_card_of_a_test_set_that_was_held_out_says_so():
    sources = {"train": RESULTS["sources"]["train"]}
    text = card_of(recipe_dict(test_share=0.1, validation_share=0.05), sources=sources)
    assert "| test | 10% of the text, held out at random | 60 |" in text


def test_energy_is_told_where_it_was_measured_and_only_there():
    assert "Energy: not measured" in card_of()
    text = card_of(energy={"cpu": [7.2e6, 301.0], "gpu": [3.6e5, 151.0]})
    assert (
        "Energy: 2 kWh (CPU packages, whoever used them) and 0.1 kWh (GPUs, in 2.5 minutes of the training alone)"
        in text
    )
    assert "first machine" not in text
    several = card_of(energy={"gpu": [3.6e6, 302.0]}, machines=["8 × NVIDIA X, on 2 machines"])
    assert "Energy: 1 kWh (GPUs), measured; of the first machine alone" in several


def test_what_an_earlier_version_did_not_count_is_not_told():
    unknown = {"seen": None, "epochs": None, "flops": None, "machines": []}
    text = card_text("de-en", recipe_dict(), {**RESULTS, **unknown})
    assert "tokens an update" not in text and "epochs" not in text and "floating-point" not in text
    assert "Hardware: not recorded" in text


def test_licence_of_the_text_is_not_taken_for_that_of_the_model():
    text = card_of(recipe_dict(license="CC BY 2.0 FR"))
    assert "Licence of the text: CC BY 2.0 FR. No licence was chosen for the model." in text
    assert ModelCard(text).data.license is None
    assert "The licence of the text is not named" in card_of()


def test_card_names_files_and_no_paths_of_this_machine(tmp_path):
    files = {
        f"{split}_{side}": f"texts/{split}.{side}" for split in ("train", "test") for side in ("source", "target")
    }
    mixed = {"train": [{"source": ["/texts/more.de"], "target": ["../texts/more.en"], "weight": 2.0}]}
    text = card_of(recipe_dict(**files, **mixed, dataset=str(tmp_path), license="x" * 5000))
    assert "train.source" in text and "more.de" in text
    assert "texts/" not in text and str(tmp_path) not in text
    assert "/somewhere" not in text


def test_recipe_in_the_card_gives_the_same_training(tmp_path):
    recipe = recipe_dict(dataset="embedded", test_split=None)
    recipe["training"].update(freeze=["model.encoder"], adam_betas=[0.8, 0.9], max_minutes=2.0, ema_decay=0.9)
    recipe["tokenizer"].update(type="word", lowercase=True)
    text = card_of(recipe)
    path = tmp_path / "recipe.yaml"
    path.write_text(text.split("```yaml\n")[1].split("\n```")[0], encoding="utf-8")
    assert load_recipe(path, ["--output_dir=/somewhere/private"]).to_dict() == recipe


NASTY = [
    "a | b", "`code` ```\nfence", "{{ 7 * 7 }} {% include '/etc/passwd' %} {# gone #}", "---\nlicense: mit\n---",
    "<script>alert(1)</script><!--", "</details>", "# heading\n\n- list", 'quote " and \\n and \'\'\'', "مرحبا | ب",
    "$$x$$", "\u2028", "\ud800", "[link](javascript:x)",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_text_of_the_data_changes_nothing_of_the_card(text):
    plain, nasty = copy.deepcopy(RESULTS), copy.deepcopy(RESULTS)
    for sample in [nasty["findings"]["example"], nasty["findings"]["best"][0], nasty["findings"]["worst"][0]]:
        for side in sample:
            if side != "chrf2":
                sample[side] = text
    nasty["sources"]["test"] = nasty["sources"]["validation"] = [{"files": [text], "weight": None}]
    cards = [card_text("de-en", recipe_dict(license=text), results) for results in (plain, nasty)]
    assert "49" not in cards[1].replace("4986", "")
    outlines = [outline(card) for card in cards]
    assert outlines[0] == outlines[1]
    data = ModelCard(cards[1]).data
    assert data.license is None and data.pipeline_tag == "translation"
    assert yaml.safe_load(re.search(r"^(```+)yaml\n(.*?)\n\1$", cards[1], re.S | re.M)[2])["data"]["license"] == text


def outline(card: str) -> list[str]:
    """Headings, columns of tables, and tags of HTML, code left out."""
    lines = re.sub(r"^(```+)\w+\n.*?\n\1$", "", ModelCard(card).text, flags=re.S | re.M).splitlines()
    cells = [str(len(re.findall(r"(?<!\\)\|", line))) for line in lines]
    return [
        line if line.startswith("#") else cell + "".join(re.findall("<[^>]*>", line))
        for line, cell in zip(lines, cells)
    ]


def test_model_of_any_name_is_named_in_heading_code_and_metadata():
    name = 'my "best" | <model>'
    text = card_text(name, recipe_dict(), RESULTS)
    assert '# my "best" \\| &lt;model&gt;\n' in text
    assert ModelCard(text).data.model_name == name
    code = text.split("```python\n")[1].split("\n```")[0]
    assert 'model="my \\"best\\" | <model>")' in code


def test_pictures_are_shown_from_where_they_lie():
    pictures = ["curves.png", *(f"attention_{i}.png" for i in range(9))]
    text = card_of(pictures=pictures)
    assert "![Learning curves](curves.png)" in text and "![attention 0](attention_0.png)" in text
    assert text.count("![attention") == 4
    assert "![Learning curves](de-en/curves.png)" in card_text(
        "de-en", recipe_dict(), {**RESULTS, "pictures": pictures}, "de-en"
    )
    assert "![" not in card_of()


def test_code_in_the_card_runs(saved_model):
    results = copy.deepcopy(RESULTS)
    results["findings"]["example"] = {"source": 'w1 "w2" \\ {w3}', "translation": "x"}
    code = card_text("the-model", recipe_dict(), results).split("```python\n")[1].split("\n```")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('"the-model"', repr(str(saved_model))), {})
    assert printed.getvalue().endswith("\n")


def test_name_of_the_text_stands_before_that_of_its_test_sets():
    tests = {"test_2017": {"bleu": 30.0, "bleu_signature": BLEU}}
    text = card_of(text="Multi30k", tests=tests)
    assert "997 sentence pairs of Multi30k" in text
    names = {result.dataset_name for result in ModelCard(text).data.eval_results}
    assert names == {"Multi30k, test_2016", "Multi30k, test_2017"}


def test_cross_attention_is_shown_first():
    names = ["curves.png", *(f"attention_{kind}.png" for kind in ("encoder", "decoder", "cross"))]
    text = card_of(pictures=names)
    assert text.index("(attention_cross.png)") < text.index("(attention_encoder.png)")

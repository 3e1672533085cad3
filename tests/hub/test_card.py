import yaml
from huggingface_hub import ModelCard

from hf_vaswani.hub.card import write_card
from hf_vaswani.training.recipe import Recipe

RESULTS = {
    "update": 1234,
    "minutes": 5.04,
    "parameters": 2_345_678,
    "validation_loss": 1.23456,
    "validation_accuracy": 0.6543,
    "averaged": [1000, 1100, 1234],
    "test_bleu": 34.567,
    "test_bleu_signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    "test_chrf2": 55.555,
    "test_chrf2_signature": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
}


def recipe_dict(**data):
    recipe = Recipe(model={"d_model": 64}).to_dict()
    recipe["data"].update(source_language="de", target_language="en", **data)
    recipe["training"]["output_dir"] = "/somewhere/private"
    return recipe


def test_card_holds_the_measured_figures_and_the_recipe(tmp_path):
    card = ModelCard.load(write_card(tmp_path, "de-en", recipe_dict(dataset="embedded"), RESULTS))
    text = card.text
    for expected in (
        "2,345,678",
        "1,234 updates",
        "updates 1,000, 1,100 and 1,234",
        "34.57",
        RESULTS["test_bleu_signature"],
        "de to en",
        "55.55",
        "65.4%",
    ):
        assert expected in text
    block = text.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(block)["model"] == {"d_model": 64}
    assert card.data.pipeline_tag == "translation"
    assert card.data.language == ["de", "en"]
    assert [(r.metric_type, r.metric_value) for r in card.data.eval_results] == [("bleu", 34.57), ("chrf", 55.55)]


def test_card_names_files_and_no_paths_of_this_machine(tmp_path):
    files = {
        f"{split}_{side}": f"/data/{split}.{side}" for split in ("train", "test") for side in ("source", "target")
    }
    mixed = {"train": [{"source": ["/data/more.de"], "target": ["/data/more.en"], "weight": 2.0}]}
    text = write_card(tmp_path, "de-en", recipe_dict(**files, **mixed), RESULTS).read_text()
    assert "train.source" in text
    assert "more.de" in text
    assert "/data/" not in text
    assert "/somewhere" not in text


def test_card_without_a_test_set_states_no_score(tmp_path):
    results = {key: value for key, value in RESULTS.items() if "bleu" not in key and "chrf" not in key}
    text = write_card(tmp_path, "de-en", recipe_dict(dataset="embedded"), results).read_text()
    assert "BLEU" not in text
    assert "1.2346" in text

"""What is generated from the declarations of recipe keys: the tables of the documentation and the JSON schema."""

import json

import pytest
import yaml

from hf_vaswani.training.recipe.bundled_recipes import FOLDER, SCHEMA_FILE, SCHEMA_LINE, bundled_recipes, printed
from hf_vaswani.training.recipe.recipe import recipe_keys
from hf_vaswani.training.recipe.reference import key_tables, recipe_schema, schema_text

SECTIONS = recipe_schema()["properties"]


def test_schema_file_is_up_to_date_with_the_keys():
    assert (FOLDER / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


def test_schema_has_each_key_with_its_description_and_bounds():
    sections = recipe_schema()["properties"]
    for section, keys in recipe_keys().items():
        assert sections[section]["properties"].keys() == keys.keys()
        assert all(entry["description"] for entry in sections[section]["properties"].values())
    training = sections["training"]["properties"]
    assert training["lr_scheduler_type"]["enum"] == ["paper", "inverse_sqrt", "linear", "cosine", "constant"]
    assert training["seed"] == {
        "type": "integer", "default": 1, "minimum": 0, "exclusiveMaximum": 2**32, "title": "Seed",
        "description": training["seed"]["description"],
    }  # fmt: skip
    assert sections["tokenizer"]["properties"]["type"]["enum"] == ["bpe", "wordpiece", "unigram", "word"]


@pytest.mark.parametrize("name", bundled_recipes())
def test_bundled_recipe_conforms_to_the_schema_that_it_names(name):
    first, *_ = bundled_recipes()[name].read_text(encoding="utf-8").splitlines()
    assert first == f"{SCHEMA_LINE}{SCHEMA_FILE}"
    content = yaml.safe_load(printed(name))
    for section, values in content.items():
        assert values.keys() <= SECTIONS[section]["properties"].keys()


def test_printed_recipe_gives_the_path_of_the_schema():
    [line] = [line for line in printed("quickstart").splitlines() if line.startswith(SCHEMA_LINE)]
    with open(line.removeprefix(SCHEMA_LINE), encoding="utf-8") as file:
        assert json.load(file) == recipe_schema()


def test_key_tables_have_a_row_for_each_key_with_default_and_bounds():
    rows = {line.split("`")[1]: line for line in key_tables().splitlines() if line.startswith("| `")}
    assert [name for keys in recipe_keys().values() for name in keys if name not in rows] == []
    assert rows["max_steps"].startswith("| `max_steps` ↻ | optimizer steps")
    assert rows["max_steps"].endswith("| a whole number 1 to 1,000,000,000,000 | `100000` |")
    assert "↻" not in rows["learning_rate"]

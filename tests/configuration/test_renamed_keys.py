"""Keys of earlier versions: rejected with a pointer to their new names, but read from what earlier versions stored."""

import pytest

from hf_vaswani.configuration.renamed_keys import RENAMED_KEYS, with_new_names
from hf_vaswani.data.sources.text_source import TextSource, check_source
from hf_vaswani.errors import InputError
from hf_vaswani.training.recipe.recipe import load_recipe

OLD_KEYS = [(section, key) for section, keys in RENAMED_KEYS.items() for key in keys]


def errors_of(path, *options) -> list[str]:
    with pytest.raises(InputError) as error:
        load_recipe(path, list(options))
    return str(error.value).splitlines()


@pytest.mark.parametrize(("section", "key"), OLD_KEYS)
def test_old_key_is_rejected_with_its_new_name_in_a_file_and_as_an_option(section, key, tmp_path):
    new = f"it is now '{section}.{RENAMED_KEYS[section][key].replace(' and ', f' and {section}.')}'"
    path = tmp_path / "recipe.yaml"
    path.write_text(f"{section}: {{{key}: 1}}")
    assert f"unknown key '{section}.{key}'; {new}" in errors_of(path)[0]
    assert f"--{key}: unknown key; {new}" in errors_of("quickstart", f"--{key}=1")
    assert f"--{section}.{key}: unknown key; {new}" in errors_of("quickstart", f"--{section}.{key}=1")


def test_old_name_of_the_built_in_corpus_is_rejected_with_its_new_name():
    assert check_source(TextSource(dataset="embedded", split="train"), ("de", "en")) == [
        "the synthetic corpus is now called 'built-in', not 'embedded'"
    ]


def test_stored_recipe_of_an_earlier_version_gets_the_new_names():
    stored = {
        "data": {"dataset": "embedded", "processes": 2, "train": [{"dataset": "embedded", "weight": 2}, "a.tsv"],
                 "tests": {"news": {"dataset": "embedded"}}},
        "tokenizer": {"words": "spaces", "space_mark": "after"},
        "training": {"max_updates": 100, "adam_betas": [0.9, 0.98], "seed": 3,
                     "mixed_precision": None},
        "texts": {"train": "0123"},
    }  # fmt: skip
    assert with_new_names(stored) == {
        "data": {"dataset": "built-in", "num_proc": 2, "train": [{"dataset": "built-in", "weight": 2}, "a.tsv"],
                 "tests": {"news": {"dataset": "built-in"}}},
        "tokenizer": {"pre_tokenizer": "whitespace", "word_boundary": "after"},
        "training": {"max_steps": 100, "adam_beta1": 0.9, "adam_beta2": 0.98, "seed": 3,
                     "mixed_precision": "auto"},
        "texts": {"train": "0123"},
    }  # fmt: skip

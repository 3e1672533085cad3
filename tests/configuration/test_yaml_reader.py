"""Recipes and cards may use aliases, but not to stand for more than anyone could write."""

import pytest
import yaml

from hf_vaswani.configuration.yaml_reader import read_yaml
from hf_vaswani.hub.export_card import card_metadata
from hf_vaswani.training.checkpoints.artifacts import read_stored

LINES = [f"  {letter}: [{', '.join([f'*{before}'] * 9)}]" for before, letter in zip("abcdefgh", "bcdefghi")]
ANCHORED = [line.replace(": ", f": &{line.strip()[0]} ", 1) for line in LINES]
BOMBS = {  # a few lines that stand for 9 ** 9 values, 9 ** 8 merged keys, and 400 million characters
    "aliases": "\n".join(["data:", "  a: &a [x, x, x, x, x, x, x, x, x]", *ANCHORED]),
    "merges": "\n".join(["data:", "  a: &a {k: 1}", *(line.replace("[", "{<<: [") + "}" for line in ANCHORED)]),
    "a long text": f"data: {{name: &a {'x' * 20_000}, tests: [{', '.join(['*a'] * 20_000)}]}}",
    "itself": "data: &a {tests: *a}",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_aliases_that_stand_for_too_much_are_an_error(bomb):
    with pytest.raises(yaml.YAMLError, match="too large once its aliases are replaced"):
        read_yaml(bomb)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_card_with_such_aliases_counts_as_one_without_metadata(bomb, tmp_path):
    for text, license in ((bomb, None), ("data: &a [1]\nmore: [*a, *a]", "mit")):
        (tmp_path / "README.md").write_text(f"---\nlicense: mit\n{text}\n---\n# A card\n")
        assert card_metadata(str(tmp_path)).get("license") == license


def test_aliases_and_merges_are_read():
    text = "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: [*a, *a]}"
    assert read_yaml(text) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": [{"x": 1}] * 2}}


def test_stored_recipe_is_read_as_it_was_written(tmp_path):
    values = [
        1e-9,
        0.5,
        float("inf"),
        3,
        -7,
        "1e-9",
        "0100",
        "1:30",
        "2026-01-01",
        "no",
        "null",
        None,
        True,
        "a\nb",
        "",
    ]
    stored = {"data": {"tests": values}, "training": {"tests": values}}
    for writer in (yaml.safe_dump, lambda content: yaml.safe_dump(content, sort_keys=False, allow_unicode=True)):
        (tmp_path / "training_recipe.yaml").write_text(writer(stored))
        assert read_stored(tmp_path / "training_recipe.yaml") == stored


@pytest.mark.parametrize(
    "text, where",
    [("a:\n  b: 3\n c: 2\n", "line 3, column 2: expected"), ("a:\n\tb: 3\n", "line 2, column 1: found character")],
)
def test_syntax_error_is_one_line_with_its_place(text, where):
    with pytest.raises(yaml.YAMLError, match=rf"^{where} .*\. Check the indentation, [a-z ]*\.$"):
        read_yaml(text)

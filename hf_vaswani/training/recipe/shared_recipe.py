"""A recipe in a form that others can use: without this machine's paths and settings."""

from typing import Any

from ...configuration.keys import traits
from ...hub.file_names import file_names
from .recipe import SECTIONS


def shared_recipe(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe in a form that others can use: without private keys and keys left empty, with file names instead of
    paths."""
    is_new_tokenizer = not (recipe["tokenizer"]["path"] or recipe["training"]["start_from"])
    shared = {}
    for section, values in recipe.items():
        if section == "peft" and values.get("r") is None:
            continue
        shared[section] = {}
        for name, value in values.items():
            key = SECTIONS[section].model_fields.get(name)
            if key is None or section == "model":  # of another version; keys of the model are there only if given
                shared[section][name] = file_names(value)
                continue
            is_default = value == key.default
            # The defaults of a new tokenizer would not describe one that was loaded.
            is_left_out = is_default and (value in (None, [], {}) or (section == "tokenizer" and not is_new_tokenizer))
            if not (traits(key).private or is_left_out):
                shared[section][name] = file_names(value, traits(key).is_path)
    return shared

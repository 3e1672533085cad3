"""A recipe as others can use it: without this machine's paths and settings."""

from typing import Any

from ...configuration.keys import traits
from ...hub.file_names import file_names
from .recipe import SECTIONS


def shared_recipe(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: no private keys, file names instead of paths, and no key that is empty by
    default and left so."""
    is_new_tokenizer = not (recipe["tokenizer"]["path"] or recipe["training"]["start_from"])
    shared = {}
    for section, values in recipe.items():
        if section == "peft" and values.get("r") is None:
            continue
        shared[section] = {}
        for name, value in values.items():
            key = SECTIONS[section].model_fields.get(name)
            if key is None or section == "model":  # of another version; what of the model is there was given
                shared[section][name] = file_names(value)
                continue
            is_default = value == key.default
            # The defaults of a new tokenizer would describe another than the one that was loaded.
            is_left_out = is_default and (value in (None, [], {}) or (section == "tokenizer" and not is_new_tokenizer))
            if not (traits(key).private or is_left_out):
                shared[section][name] = file_names(value, traits(key).is_path)
    return shared

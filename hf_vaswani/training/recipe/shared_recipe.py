"""A recipe in a form that others can use: without this machine's paths and settings."""

from typing import Any

from ...configuration.keys import traits
from ...hub.file_names import file_names
from ..stages.arguments import SECTION_OF_KIND
from ..stages.options import PREFIX as STAGES
from .recipe import SECTIONS


def shared_recipe(recipe: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe in a form that others can use: without private keys and keys left empty, with file names instead of
    paths."""
    stages = recipe.get(STAGES, {})
    loaded = [name for name in (recipe["tokenizer"]["path"], recipe["training"]["start_from"]) if name]
    is_new_tokenizer = all(name in stages for name in loaded)
    shared = {}
    for section, values in recipe.items():
        if section == STAGES:
            shared[section] = {name: _shared_stage(stage, stages) for name, stage in values.items()}
            continue
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


def _shared_stage(stage: dict[str, Any], stages: dict[str, Any]) -> dict[str, Any]:
    """A stage without private keys and paths; names of stages stay as they are."""
    [(kind, content)] = stage.items()
    if kind in SECTION_OF_KIND:
        return {kind: _shared_values(content, SECTION_OF_KIND[kind], stages)}
    return {kind: {name: _shared_values(values, SECTIONS[name], stages) for name, values in content.items()}}


def _shared_values(values: dict[str, Any], section: Any, stages: dict[str, Any]) -> dict[str, Any]:
    shared = {}
    for name, value in values.items():
        key = section.model_fields.get(name)
        if key is None or not traits(key).private:
            is_path = key is not None and traits(key).is_path
            parts = value if isinstance(value, list) else [value]
            is_of_stages = parts and all(isinstance(part, str) and part in stages for part in parts)
            shared[name] = value if is_of_stages else file_names(value, is_path)
    return shared

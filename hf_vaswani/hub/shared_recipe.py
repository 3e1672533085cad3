"""A recipe as others can use it: without this machine's paths and settings."""

import os
from pathlib import Path
from typing import Any

# Keys of a recipe that say nothing of the model.
PRIVATE = {"output_dir", "overwrite", "cache_dir", "num_proc", "cpu_threads"}
# Those whose values are files, if they are text.
FILE_KEYS = {"file", "source", "target", "train", "validation", "test"} | {
    f"{split}_{side}" for split in ("train", "validation", "test") for side in ("source", "target")
}


def shared(recipe: dict[str, dict[str, Any]], defaults: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The recipe as others can use it: file names instead of this machine's paths, and no key that is empty by
    default and left so."""
    sections = {
        section: {
            key: file_names(value, key)
            for key, value in keys.items()
            if key not in PRIVATE and (value not in (None, [], {}) or value != defaults[section].get(key))
        }
        for section, keys in recipe.items()
    }
    if not has_new_tokenizer(recipe):  # whose defaults would describe another
        sections["tokenizer"] = {
            key: value for key, value in sections["tokenizer"].items() if value != defaults["tokenizer"].get(key)
        }
    return {**sections, "model": recipe["model"]}


def has_new_tokenizer(recipe: dict[str, dict[str, Any]]) -> bool:
    """Whether the run made its tokenizer by the recipe's keys, and did not load one."""
    return not (recipe["tokenizer"]["path"] or recipe["training"]["start_from"])


def file_names(value: Any, key: str = "") -> Any:
    """A recipe's value with the last part of each path: of what a key names a file, and of what looks like a path or
    is one here."""
    if isinstance(value, dict):
        return {name: file_names(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [file_names(entry, key) for entry in value]
    if not isinstance(value, str):
        return value
    is_path = os.path.isabs(value) or value.startswith((".", "~")) or os.path.exists(value)
    return Path(value).name if is_path or key in FILE_KEYS else value

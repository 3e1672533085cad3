"""A run in a form that another machine can resume, bit for bit: the files of its folder that this takes.

These are the newest checkpoint and the stored recipe, tokenizer, architecture, log and trail. Since the final model
may be a mean of checkpoints, or of best weights, the earlier ones that can still become part of it are included.
"""

import os
import shutil
from pathlib import Path

import yaml

from ...configuration.keys import Sections, traits
from ...hub.repository import file_names
from ...records.trail import TRAIL_FILE
from ..checkpoints.artifacts import ARCHITECTURE, BEST, CHECKPOINTS, LOG_FILE, RECIPE_FILE, TOKENIZER, read_stored
from ..checkpoints.checkpoint import checkpoint_folders
from ..recipe.arguments import TrainingArguments
from ..recipe.recipe import recipe_keys


def write_portable_run(folder: Path, target: Path, arguments: TrainingArguments) -> None:
    """Put the files from which a run can be resumed into a new folder, unaffected by what the run changes later.

    Symbolic links stay links, so that [`commit_folder`] notices those that lead elsewhere.

    Args:
        folder: output folder of the run.
        target: the new folder.

    Raises:
        OSError: if it cannot be written.
    """
    target.mkdir(parents=True)
    # The mean that the next checkpoint is part of includes all but the oldest of these.
    wanted = 1 if arguments.average == "best" else arguments.average_last
    for path in checkpoint_folders(folder / CHECKPOINTS)[-wanted:] + checkpoint_folders(folder / BEST):
        link_folder(path, target / path.relative_to(folder))
    for name in (TOKENIZER, ARCHITECTURE):
        shutil.copytree(folder / name, target / name, symlinks=True)
    for name in (LOG_FILE, TRAIL_FILE):
        if (folder / name).exists():
            shutil.copyfile(folder / name, target / name, follow_symlinks=False)
    recipe = portable_recipe(read_stored(folder / RECIPE_FILE))
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
    (target / RECIPE_FILE).write_text(text, encoding="utf-8")


def portable_recipe(stored: Sections) -> Sections:
    """A stored recipe without what concerns only this machine: private keys, and the folders in changeable paths.

    The other keys, `training.start_from`, `training.distill_from`, and `tokenizer.path` among them, identify the run,
    and stay as they were given.
    """
    keys, portable = recipe_keys(), {}
    for section, values in stored.items():
        portable[section] = {}
        for name, value in values.items():
            key = keys.get(section, {}).get(name)
            if key is not None and traits(key).private:
                continue
            may_change = key is not None and traits(key).resumable
            portable[section][name] = file_names(value, traits(key).is_path) if may_change else value
    return portable


def shared_recipe(recipe: Sections) -> Sections:
    """The recipe in a form that others can use: without private keys and keys left empty, with file names instead of
    paths."""
    is_new_tokenizer = not (recipe["tokenizer"]["path"] or recipe["training"]["start_from"])
    keys, shared = recipe_keys(), {}
    for section, values in recipe.items():
        if section == "peft" and values.get("r") is None:
            continue
        shared[section] = {}
        for name, value in values.items():
            key = keys[section].get(name)
            if key is None or section == "model":  # which are there only if given
                shared[section][name] = file_names(value)
                continue
            is_default = value == key.default
            # The defaults of a new tokenizer would not describe one that was loaded.
            is_left_out = is_default and (value in (None, [], {}) or (section == "tokenizer" and not is_new_tokenizer))
            if not (traits(key).private or is_left_out):
                shared[section][name] = file_names(value, traits(key).is_path)
    return shared


def link_folder(source: Path, target: Path) -> None:
    """Hard-link a folder's files into a new folder, or copy them if links are impossible; for files that never
    change."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, target / file.name, follow_symlinks=False)

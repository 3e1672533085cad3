"""A run as another machine can resume it, to the bit: the files of its folder that this takes, under the same names.

That is the newest checkpoint, and the stored recipe, tokenizer, architecture, log and trail. The final model may be a
mean of checkpoints, or of best weights: the earlier ones that can still be in it belong to the run, too.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from ...configuration.keys import traits
from ...hub.file_names import file_names
from ...hub.trail import TRAIL_FILE
from ..checkpoints.checkpoint import checkpoint_folders
from ..checkpoints.output_folder import (
    ARCHITECTURE,
    BEST,
    CHECKPOINTS,
    LOG_FILE,
    RECIPE_FILE,
    TOKENIZER,
    read_stored,
)
from ..recipe.arguments import TrainingArguments
from ..recipe.recipe import recipe_keys


def write_portable_run(folder: Path, target: Path, arguments: TrainingArguments) -> None:
    """Put what a run is resumed from into a new folder. What the run deletes or changes later stays there as it is.

    Args:
        folder: output folder of the run.

    Raises:
        OSError: if it cannot be written.
    """
    target.mkdir(parents=True)
    # The next checkpoint is in the mean with all but one of these.
    wanted = arguments.average_last if arguments.average in ("auto", "last") else 1
    for path in checkpoint_folders(folder / CHECKPOINTS)[-wanted:] + checkpoint_folders(folder / BEST):
        link_folder(path, target / path.relative_to(folder))
    for name in (TOKENIZER, ARCHITECTURE):
        shutil.copytree(folder / name, target / name)
    for name in (LOG_FILE, TRAIL_FILE):
        if (folder / name).exists():
            shutil.copyfile(folder / name, target / name)
    recipe = portable_recipe(read_stored(folder / RECIPE_FILE))
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
    (target / RECIPE_FILE).write_text(text, encoding="utf-8")


def portable_recipe(stored: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A stored recipe without what concerns this machine alone: private keys, and paths that may change.

    A run is known by the other keys, `training.start_from` and `tokenizer.path` among them, which are as they were
    given.
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


def link_folder(source: Path, target: Path) -> None:
    """A folder's files under other names, without a copy where the file system can: for files that never change."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:  # a file system without hard links
            shutil.copyfile(file, target / file.name)

"""The output folder before the first step: checks whether a run can use it, and prepares it."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...core.tokenization_vaswani import TARGET_TOKENIZER_FILE
from ...data.sources.text_source import TextSource
from ...data.tokenizers.tokenizer import SAVED_FILES, save_tokenizer
from ...errors import InputError
from ...files import atomic_write, leads_out, left_parts, writing
from ...records.trail import TRAIL_FILE
from ..checkpoints.artifacts import (
    ALL_TRANSLATIONS,
    ARCHITECTURE,
    BEST,
    CHECKPOINTS,
    CURVES_FILE,
    FIGURES,
    FINAL_PART,
    LOG_FILE,
    RECIPE_FILE,
    TOKENIZER,
    TRACKED_AS,
    UPLOADS,
    artifacts,
    is_checkpoint,
    read_stored,
    remove_stale,
)
from ..checkpoints.checkpoint import DIGESTS_FILE, belongs_to_checkpoints, checkpoint_folders, is_checkpoint_name
from ..recipe.arguments import MAIN_TEST
from ..recipe.recipe import Recipe
from .run_fingerprint import RunFingerprint

if TYPE_CHECKING:
    from ..optimization.word_distillation import WordTeacher

# The folders in which a run writes and deletes files.
OWN_FOLDERS = (CHECKPOINTS, BEST, TOKENIZER, ARCHITECTURE, FIGURES, TRACKED_AS, UPLOADS, FINAL_PART)
ARCHITECTURE_FILES = ("config.json", "generation_config.json")
Sources = dict[str, list[TextSource]]
# Stored after the recipe's sections: digests of the weights that an adapter is trained on, and of those of a teacher.
BASE, TEACHER, DIGEST = "base", "teacher", "digest"


def output_errors(recipe: Recipe, sources: Sources) -> list[str]:
    """Why the output folder cannot be used.

    Args:
        sources: the sources of each split.
    """
    folder = Path(recipe.training.output_dir)
    name = f"training.output_dir={folder}"
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        return [f"{name} cannot be written: {existing} is not a writable folder. Choose another."]
    before = {TRACKED_AS, *(part.name for part in left_parts(folder))}
    holds = {path.name for path in folder.iterdir()} - before if folder.exists() else set()
    if holds and RECIPE_FILE not in holds:
        remedy = "Restore that, or choose another --output_dir."
        if is_checkpoint(folder):
            remedy = f"It is a checkpoint: to resume its run, set --output_dir {folder.absolute().parent.parent}"
        return [f"{name} is not empty and contains no run: it has no {RECIPE_FILE}. {remedy}"]
    outside = [
        f"{path} points outside {folder} through a symbolic link, so nothing in it is written or deleted. Remove the "
        "link, or choose another --output_dir."
        for path in (folder / name for name in OWN_FOLDERS)
        if leads_out(path, folder)
    ]
    return outside + endangered_inputs(recipe, sources) if holds else []


def endangered_inputs(recipe: Recipe, sources: Sources) -> list[str]:
    """An error for each input of the run among the files that it deletes or replaces in its output folder."""
    folder = Path(recipe.training.output_dir)
    # A run without a checkpoint starts over. Losing its files would damage the folder of a model or tokenizer.
    is_removed = recipe.training.overwrite or not checkpoint_folders(folder / CHECKPOINTS)
    replaced = artifacts(folder) + (earlier_run(folder) if is_removed else [])
    emptied = {os.path.realpath(path.parent) for path in replaced} if is_removed else set()
    tests = [MAIN_TEST, *recipe.data.tests]
    replaced += [folder / f"{test}{ending}" for test in tests for ending in ALL_TRANSLATIONS.values()]
    return [
        f"{key}: {path}, or a part of it, would be deleted by this run. Move it, or choose another --output_dir."
        for key, path in input_paths(recipe, sources)
        if os.path.realpath(path) in emptied
        or any(Path(os.path.realpath(path)).is_relative_to(os.path.realpath(place)) for place in replaced)
    ]


def begin_output(
    recipe: Recipe,
    fingerprint: RunFingerprint,
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    teacher: "WordTeacher | None",
    is_resumed: bool,
) -> None:
    """Prepare the output folder: delete an earlier run if this one is new, and store recipe, tokenizer and config.

    Args:
        fingerprint: stored with the recipe.

    Raises:
        InputError: if the folder cannot be written.
    """
    folder = Path(recipe.training.output_dir)
    content = {**recipe.to_dict(), **fingerprint.to_dict(), **weight_digests(recipe, model, teacher)}
    with writing(f"training.output_dir={folder}"):
        for part in left_parts(folder):
            part.unlink()
        if not is_resumed:
            remove_earlier_run(folder)
            folder.mkdir(parents=True, exist_ok=True)
            # First of all: the recipe marks the folder as that of a run, however early the run is stopped.
            _store_recipe(folder, content)
            save_tokenizer(tokenizer, folder / TOKENIZER)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        # Checkpoints hold only weights; the model's architecture is stored next to them.
        (folder / ARCHITECTURE).mkdir(exist_ok=True)
        for name, config in zip(ARCHITECTURE_FILES, (model.config, model.generation_config)):
            with atomic_write(folder / ARCHITECTURE / name) as part:
                config.to_json_file(part)
        if is_resumed:
            # Last of all: if the other files cannot be written, the run keeps its stored recipe.
            _store_recipe(folder, content)


def check_weights(recipe: Recipe, model: PreTrainedModel, teacher: "WordTeacher | None") -> None:
    """Refuse to resume a run if the weights of its adapter's base, or of its teacher, have changed.

    Raises:
        InputError: if they have.
    """
    training, folder = recipe.training, Path(recipe.training.output_dir)
    stored = read_stored(folder / RECIPE_FILE)
    keys = {BASE: f"start_from={training.start_from}", TEACHER: f"distill_from={','.join(training.teachers)}"}
    for section, digests in weight_digests(recipe, model, teacher).items():
        if stored.get(section) != digests:
            raise InputError(
                f"training.{keys[section]}: the weights have changed since the run in {folder} began. Restore them, "
                "or set --overwrite true to delete that run."
            )


def weight_digests(recipe: Recipe, model: PreTrainedModel, teacher: "WordTeacher | None") -> dict[str, dict[str, str]]:
    """The digests of weights that a run only reads, as sections of the stored recipe."""
    digests = {}
    if recipe.peft.is_used:
        from .adapter import base_digest

        digests[BASE] = base_digest(model)
    digests |= {TEACHER: teacher.digest} if teacher else {}
    return {section: {DIGEST: digest} for section, digest in digests.items()}


def _store_recipe(folder: Path, content: dict[str, object]) -> None:
    with atomic_write(folder / RECIPE_FILE) as part:
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def earlier_run(folder: Path) -> list[Path]:
    """All existing files and folders of an earlier run. Nothing else is deleted, since it may be a user's."""
    checkpoints = [path for name in (CHECKPOINTS, BEST) for path in (folder / name).glob("update-*")]
    tokenizer = [path for pattern in SAVED_FILES for path in (folder / TOKENIZER).glob(pattern)]
    files = [folder / UPLOADS, *(folder / ARCHITECTURE / name for name in ARCHITECTURE_FILES)]
    # The recipe is deleted last, since it marks the folder as that of a run.
    files += [folder / name for name in (LOG_FILE, TRAIL_FILE, CURVES_FILE, TARGET_TOKENIZER_FILE, RECIPE_FILE)]
    found = artifacts(folder) + [path for path in checkpoints if _is_own(path)] + tokenizer + files
    return [path for path in dict.fromkeys(found) if os.path.lexists(path)]


def _is_own(checkpoint: Path) -> bool:
    """Whether a run wrote a folder of this name: it then has digests, unless writing it was interrupted."""
    name = checkpoint.name
    return belongs_to_checkpoints(name) and (not is_checkpoint_name(name) or (checkpoint / DIGESTS_FILE).exists())


def input_paths(recipe: Recipe, sources: Sources) -> list[tuple[str, str]]:
    """All existing files and folders that a run reads, each with the key that names it."""
    paths = [("the recipe", recipe.file)] if recipe.file else []
    for split, entries in sources.items():
        for source in entries:
            named = (source.dataset, source.file, *source.source, *source.target)
            paths += [(f"data.{split}", path) for path in named if path]
    paths += recipe.model_names + recipe.scoring_model_names
    return [(key, path) for key, path in paths if os.path.exists(path)]


def remove_earlier_run(folder: Path) -> None:
    """Delete the files from which an earlier run would be resumed, and those that describe its model.

    Raises:
        OSError: if something cannot be deleted.
    """
    removed = earlier_run(folder)
    remove_stale(folder)
    for path in removed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

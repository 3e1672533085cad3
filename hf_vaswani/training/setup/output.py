"""The output folder before the first step: checks whether a run can use it, and prepares it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from accelerate import Accelerator, PartialState
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...core.tokenization_vaswani import TARGET_TOKENIZER_FILE
from ...data.sources.text_source import TextSource
from ...data.tokenizers.tokenizer import SAVED_FILES, save_tokenizer
from ...errors import InputError, reason
from ...files import atomic_write, leads_out, left_parts
from ...hub.trail import TRAIL_FILE
from ...runtime.processes import on_main_process
from ..checkpoints.checkpoint import checkpoint_folders, is_of_checkpoints
from ..checkpoints.output_folder import (
    ARCHITECTURE,
    BEST,
    CHECKPOINTS,
    CURVES_FILE,
    FINAL_PART,
    LOG_FILE,
    RECIPE_FILE,
    TOKENIZER,
    TRACKED_AS,
    UPLOADS,
    held,
    read_stored,
)
from ..optimization.word_distillation import WordTeacher
from ..recipe.arguments import COMPARED, MAIN_TEST, RERANKER
from ..recipe.recipe import Recipe
from ..reporting.artifacts import ALL_TRANSLATIONS, FIGURES, artifacts, remove_stale
from .adapter import base_digest
from .resume import Circumstances

ARCHITECTURE_FILES = ("config.json", "generation_config.json")
# The folders in which a run writes and deletes files.
OWN_FOLDERS = (CHECKPOINTS, BEST, TOKENIZER, ARCHITECTURE, FIGURES, TRACKED_AS, UPLOADS, FINAL_PART)
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
    if folder.exists() and not folder.is_dir():
        return [f"{name} is a file. Choose another folder."]
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    if not existing.is_dir():
        return [f"{name} cannot be created: {existing} is a file. Choose another folder."]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [f"{name} cannot be written: {existing} is not writable. Choose another folder."]
    before = {TRACKED_AS, *(part.name for part in left_parts(folder))}
    holds = {path.name for path in folder.iterdir()} - before if folder.exists() else set()
    if holds and RECIPE_FILE not in holds:
        remedy = "Restore that, or choose another --output_dir."
        return [f"{name} is not empty and contains no run: it has no {RECIPE_FILE}. {remedy}"]
    # A run without a checkpoint starts over.
    is_removed = recipe.training.overwrite or not checkpoint_folders(folder / CHECKPOINTS)
    return replacement_errors(recipe, sources, is_removed) if holds else []


@contextlib.contextmanager
def hold_output(folder: Path, processes: Accelerator | PartialState) -> Iterator[None]:
    """Lock the output folder while the block runs, so that no other run writes to it.

    Raises:
        InputError: if another run has locked it, or if it cannot be written.
    """
    with contextlib.ExitStack() as stack:

        def hold() -> None:
            try:
                folder.resolve().mkdir(parents=True, exist_ok=True)  # where a link leads, too
                stack.enter_context(held(folder))
            except OSError as error:
                raise InputError(f"training.output_dir={folder} cannot be written: {error.strerror}") from None

        on_main_process(processes, hold)
        yield


def begin_output(
    recipe: Recipe,
    sources: Sources,
    circumstances: Circumstances,
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    teacher: WordTeacher | None,
    is_resumed: bool,
) -> None:
    """Prepare the output folder: delete an earlier run if this one is new, and store recipe, tokenizer and config.

    Args:
        circumstances: stored with the recipe.

    Raises:
        InputError: if the folder cannot be written, or for any of [`replacement_errors`].
    """
    folder = Path(recipe.training.output_dir)
    content = {**recipe.to_dict(), **circumstances.to_dict()}
    if recipe.peft.is_used:
        content[BASE] = {DIGEST: base_digest(model)}
    if teacher:
        content[TEACHER] = {DIGEST: teacher.digest}
    if (folder / LOG_FILE).is_dir():
        raise InputError(f"{folder / LOG_FILE} is a folder, but should be the log file. Move it elsewhere.")
    try:
        for part in left_parts(folder):
            part.unlink()
        if not is_resumed:
            remove_earlier_run(recipe, sources)
            folder.mkdir(parents=True, exist_ok=True)
            # First of all: the recipe marks the folder as that of a run, however early the run is stopped.
            _store_recipe(folder, content)
            save_tokenizer(tokenizer, folder / TOKENIZER)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        # Checkpoints hold only weights; the model's architecture is stored beside them.
        (folder / ARCHITECTURE).mkdir(exist_ok=True)
        for name, config in zip(ARCHITECTURE_FILES, (model.config, model.generation_config)):
            with atomic_write(folder / ARCHITECTURE / name) as part:
                config.to_json_file(part)
        if is_resumed:
            # Last of all: if the other files cannot be written, the run keeps its stored recipe.
            _store_recipe(folder, content)
    except OSError as error:
        raise InputError(f"training.output_dir={folder} cannot be written: {reason(error)}") from None


def check_base(recipe: Recipe, model: PreTrainedModel) -> None:
    """Refuse to resume the run of an adapter if the weights of its base model have changed.

    Raises:
        InputError: if they have.
    """
    if recipe.peft.is_used:
        key = f"training.start_from={recipe.training.start_from}"
        _check_digest(recipe, BASE, base_digest(model), key, "the adapter's run")


def check_teacher(recipe: Recipe, teacher: WordTeacher | None) -> None:
    """Refuse to resume a run if the weights of the models that it distills have changed.

    Raises:
        InputError: if they have.
    """
    if teacher:
        key = f"training.distill_from={','.join(recipe.training.teachers)}"
        _check_digest(recipe, TEACHER, teacher.digest, key, "the run")


def _check_digest(recipe: Recipe, section: str, digest: str, key: str, run: str) -> None:
    """Compare the digest of weights with the one that was stored when the run began.

    Args:
        section: the section of the stored recipe that holds it.
        key, run: the recipe's key and the run as the error calls them.
    """
    folder = Path(recipe.training.output_dir)
    if read_stored(folder / RECIPE_FILE).get(section, {}).get(DIGEST) != digest:
        raise InputError(
            f"{key}: the weights have changed since {run} in {folder} began. Restore them, or set --overwrite true to "
            "delete that run."
        )


def _store_recipe(folder: Path, content: dict[str, Any]) -> None:
    with atomic_write(folder / RECIPE_FILE) as part:
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def replacement_errors(recipe: Recipe, sources: Sources, is_removed: bool) -> list[str]:
    """Why the files that an earlier run left in the output folder cannot be replaced.

    Args:
        is_removed: whether all of them are deleted before the first step, rather than only the results at the end.
    """
    folder = Path(recipe.training.output_dir)
    tests = [MAIN_TEST, *recipe.data.tests]
    try:
        replaced = artifacts(folder) + (earlier_run(folder) if is_removed else [])
    except InputError as error:
        return str(error).split("\n")
    replaced += [folder / f"{test}{ending}" for test in tests for ending in ALL_TRANSLATIONS.values()]
    errors = [
        f"{path} points outside {folder} through a symbolic link, so nothing in it is written or deleted. Remove the "
        "link, or choose another --output_dir."
        for path in (folder / name for name in OWN_FOLDERS)
        if leads_out(path, folder)
    ]
    # Losing its files would damage the folder of a model or tokenizer.
    emptied = {os.path.realpath(path.parent) for path in replaced} if is_removed else set()
    return errors + [
        f"{key}: {path}, or a part of it, would be deleted by this run. Move it, or choose another --output_dir."
        for key, path in input_paths(recipe, sources)
        if os.path.realpath(path) in emptied or any(_is_inside(path, place) for place in replaced)
    ]


def earlier_run(folder: Path) -> list[Path]:
    """All existing files and folders of an earlier run. Nothing else is deleted, since it may be a user's.

    Raises:
        InputError: as in [`artifacts`].
    """
    checkpoints = [path for name in (CHECKPOINTS, BEST) for path in (folder / name).glob("update-*")]
    tokenizer = [path for pattern in SAVED_FILES for path in (folder / TOKENIZER).glob(pattern)]
    files = [folder / UPLOADS, *(folder / ARCHITECTURE / name for name in ARCHITECTURE_FILES)]
    # The recipe is deleted last, since it marks the folder as that of a run.
    files += [folder / name for name in (LOG_FILE, TRAIL_FILE, CURVES_FILE, TARGET_TOKENIZER_FILE, RECIPE_FILE)]
    found = artifacts(folder) + [path for path in checkpoints if is_of_checkpoints(path.name)] + tokenizer + files
    return [path for path in dict.fromkeys(found) if os.path.lexists(path)]


def input_paths(recipe: Recipe, sources: Sources) -> list[tuple[str, str]]:
    """All existing files and folders that a run reads, each with the key that names it."""
    paths = [("the recipe", recipe.file)] if recipe.file else []
    for split, entries in sources.items():
        for source in entries:
            named = (source.dataset, source.file, *source.source, *source.target)
            paths += [(f"data.{split}", path) for path in named if path]
    paths += [("tokenizer.path", recipe.tokenizer.path), ("training.start_from", recipe.training.start_from)]
    paths += [("training.distill_from", name) for name in recipe.training.teachers]
    paths += [(RERANKER, recipe.evaluation.rerank_with), *((COMPARED, name) for name in recipe.evaluation.compared)]
    return [(key, path) for key, path in paths if path and os.path.exists(path)]


def remove_earlier_run(recipe: Recipe, sources: Sources) -> None:
    """Delete the files from which an earlier run would be resumed, and those that describe its model.

    Raises:
        InputError: for any of [`replacement_errors`], before anything is deleted.
        OSError: if something cannot be deleted.
    """
    folder = Path(recipe.training.output_dir)
    if errors := replacement_errors(recipe, sources, is_removed=True):
        raise InputError.of(errors)
    removed = earlier_run(folder)
    remove_stale(folder)
    for path in removed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_inside(path: str, place: Path) -> bool:
    """Whether a path is a place or inside it, either literally or after following symbolic links."""
    return any(Path(form(path)).is_relative_to(form(place)) for form in (os.path.abspath, os.path.realpath))

"""The output folder of a training: what it holds, whether it is this very training, and making it ready."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ...configuration.keys import traits
from ...configuration.renamed_keys import with_new_names
from ...core.tokenization_vaswani import TARGET_TOKENIZER_FILE
from ...data.tokenizers.tokenizer import SAVED_FILES, save_tokenizer
from ...errors import InputError, reason
from ...files import ARE_THERE_LOCKS, lock, whole_file
from ...runtime.processes import on_main_process
from ..optimization.schedule import SCHEDULES
from ..recipe.arguments import MAIN_TEST
from ..recipe.recipe import Recipe, recipe_keys
from ..reporting.artifacts import GREEDY_TRANSLATIONS, PICTURES, TRANSLATIONS, claims_of, withdraw
from ..setup.splits import sources_of
from .best_weights import ranked
from .checkpoint import checkpoint_folders, is_checkpoint_name, is_of_checkpoints, tidy

if TYPE_CHECKING:
    from accelerate import Accelerator

    from ..setup.setup import Start

RECIPE_FILE = "training_recipe.yaml"
CHECKPOINTS, BEST = "checkpoints", "best"
TOKENIZER, ARCHITECTURE = "tokenizer", "architecture"
LOG_FILE, CURVES_FILE = "log.jsonl", "curves.png"


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is one of a training's checkpoints or best weights: weights without a config."""
    is_named_so = is_checkpoint_name(Path(os.path.abspath(folder)).name)
    return is_named_so and folder.is_dir() and not (folder / "config.json").exists()


def is_resumed(recipe: Recipe, texts: dict[str, str], launched: dict[str, Any]) -> bool:
    """Whether the output folder holds this very training, to go on with.

    Args:
        texts: digests of training and validation text.
        launched: precision and number of processes.

    Raises:
        InputError: the folder holds another recipe's training, or one on other texts, or a model without its
            training, or scores of wrong types.
    """
    folder = Path(recipe.training.output_dir)
    stored = folder / RECIPE_FILE
    if not stored.exists() or recipe.training.overwrite:
        return False
    with held(folder):  # lest one be deleted that another training is writing
        tidy(folder / CHECKPOINTS)
    ranked(folder / BEST)  # whose scores are read in hours otherwise
    can_go_on = bool(checkpoint_folders(folder / CHECKPOINTS))
    if not can_go_on and (folder / "model.safetensors").exists():
        raise InputError(
            f"{folder} holds a finished model, but no checkpoints of its training to go on from. Choose another "
            "--output_dir, or give --overwrite true to replace the model."
        )
    if not can_go_on and not checkpoint_folders(folder / BEST):
        # Before its first weights are kept a training has nothing that could be lost.
        return False
    before = read_stored(stored)
    differences = _differences(before, recipe, texts, launched)
    if differences:
        raise InputError(
            f"{folder} holds a training of another recipe ({'; '.join(differences)}). Choose another --output_dir, "
            "or give --overwrite true to delete that training."
        )
    if not can_go_on:
        # The same training comes by the same weights again.
        return False
    processes = before.get("launched", launched).get("processes")
    if processes != launched["processes"]:
        print(f"Trained by {processes} process(es) before, by {launched['processes']} now: updates have another size")
    return True


def begin_output(start: "Start", launched: dict[str, Any]) -> None:
    """Make the output folder ready: for a new training delete an earlier one; store recipe, tokenizer and config.

    Raises:
        InputError: where the folder cannot be written, or as [`replacement_errors`].
    """
    folder, model = start.folder, start.model
    content = {**start.recipe.to_dict(), "texts": start.texts.digests, "launched": launched}
    if (folder / LOG_FILE).is_dir():
        raise InputError(f"{folder / LOG_FILE} is a folder, where the log belongs. Move it away.")
    try:
        if not start.is_resumed:
            _remove_earlier_run(start.recipe)
            folder.mkdir(parents=True, exist_ok=True)
            # First of all: by it the folder is known to be a run's, however early that is stopped.
            _store_recipe(folder, content)
            save_tokenizer(start.tokenizer, folder / TOKENIZER)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        # Checkpoints hold weights alone; what model they are of stands beside them.
        (folder / ARCHITECTURE).mkdir(exist_ok=True)
        model.config.to_json_file(folder / ARCHITECTURE / "config.json")
        model.generation_config.save_pretrained(folder / ARCHITECTURE)
        if start.is_resumed:
            # Last of all: where the others cannot be written, the run is as it was.
            _store_recipe(folder, content)
    except OSError as error:
        raise InputError(f"training.output_dir={folder} cannot be written: {reason(error)}") from None


def _store_recipe(folder: Path, content: dict[str, Any]) -> None:
    with whole_file(folder / RECIPE_FILE) as part:
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


@contextlib.contextmanager
def only_training(folder: Path, processes: "Accelerator") -> Iterator[None]:
    """Hold the output folder while the block runs, so that no second training writes into it.

    Raises:
        InputError: where one does.
    """
    with contextlib.ExitStack() as stack:

        def hold() -> None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(folder))
            except OSError as error:
                raise InputError(f"training.output_dir={folder} cannot be written: {error.strerror}") from None

        on_main_process(processes, hold)
        yield


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold an output folder in this process while the block runs.

    Raises:
        InputError: where another process does.
        OSError: where the folder cannot be opened.
    """
    # Elsewhere no folder can be opened either.
    if not ARE_THERE_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock(descriptor)
        except BlockingIOError:
            raise InputError(
                f"Another training is running in {folder}. Wait for its end, or choose another."
            ) from None
        yield
    finally:
        # The system lets go of a lock whose process was killed.
        os.close(descriptor)


def replacement_errors(recipe: Recipe, is_removed: bool) -> list[str]:
    """What stands against replacing what an earlier run left in the output folder.

    Args:
        is_removed: whether all of it goes before the first update, not the results alone in the end.
    """
    folder = Path(recipe.training.output_dir)
    tests = [MAIN_TEST, *recipe.data.tests]
    try:
        replaced = claims_of(folder) + (earlier_run(folder) if is_removed else [])
    except InputError as error:
        return str(error).split("\n")
    replaced += [folder / f"{test}{ending}" for test in tests for ending in (TRANSLATIONS, GREEDY_TRANSLATIONS)]
    parents = dict.fromkeys(path.parent for path in [*replaced, folder / PICTURES / CURVES_FILE])
    errors = [
        f"{parent} is a symbolic link out of {folder}, through which nothing is deleted. Remove the link, or choose "
        "another --output_dir."
        for parent in parents
        if not Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(folder))
    ]
    # A folder of a model or tokenizer is damaged by the loss of its files.
    emptied = {os.path.realpath(path.parent) for path in replaced} if is_removed else set()
    return errors + [
        f"{key}: {path} would be deleted by this run, or a part of it. Move it, or choose another --output_dir."
        for key, path in input_paths(recipe)
        if os.path.realpath(path) in emptied or any(_is_inside(path, place) for place in replaced)
    ]


def earlier_run(folder: Path) -> list[Path]:
    """All files and folders of an earlier run that are there. Nothing else is deleted: a user may have put it there.

    Raises:
        InputError: as [`claims_of`].
    """
    checkpoints = [path for name in (CHECKPOINTS, BEST) for path in (folder / name).glob("update-*")]
    tokenizer = [path for pattern in SAVED_FILES for path in (folder / TOKENIZER).glob(pattern)]
    files = [folder / ARCHITECTURE / name for name in ("config.json", "generation_config.json")]
    # By the recipe the folder is known as that of a training: it goes last.
    files += [folder / name for name in (LOG_FILE, CURVES_FILE, TARGET_TOKENIZER_FILE, RECIPE_FILE)]
    found = claims_of(folder) + [path for path in checkpoints if is_of_checkpoints(path.name)] + tokenizer + files
    return [path for path in dict.fromkeys(found) if os.path.lexists(path)]


def input_paths(recipe: Recipe) -> list[tuple[str, str]]:
    """All files and folders that a run reads, each with the key that names it."""
    paths = [("the recipe", recipe.file)] if recipe.file else []
    with contextlib.suppress(InputError):  # which the check of the texts reports
        for split, sources in sources_of(recipe.data).items():
            for source in sources:
                named = (source.dataset, source.file, *source.source, *source.target)
                paths += [(f"data.{split}", path) for path in named if path]
    paths += [("tokenizer.path", recipe.tokenizer.path), ("training.start_from", recipe.training.start_from)]
    return [(key, path) for key, path in paths if path and os.path.exists(path)]


def _remove_earlier_run(recipe: Recipe) -> None:
    """Delete what a training goes on from and what it says of its model.

    Raises:
        InputError: as [`replacement_errors`], before anything is deleted.
        OSError: where something cannot be deleted.
    """
    folder = Path(recipe.training.output_dir)
    if errors := replacement_errors(recipe, is_removed=True):
        raise InputError.of(errors)
    removed = earlier_run(folder)
    withdraw(folder)
    for path in removed:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_inside(path: str, place: Path) -> bool:
    """Whether a path is a place or in it, as it is written or by symbolic links."""
    return any(Path(form(path)).is_relative_to(form(place)) for form in (os.path.abspath, os.path.realpath))


def read_stored(path: Path) -> dict:
    """The recipe that a training was begun with, by today's names, and what it was launched on.

    Raises:
        InputError: where the file is damaged.
    """
    content = None
    with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError, OSError, ValueError, RecursionError):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not all(isinstance(section, dict) for section in content.values()):
        raise InputError(f"{path} is damaged or unreadable. Choose another --output_dir, or give --overwrite true.")
    return with_new_names(content)


def _differences(stored: dict, recipe: Recipe, texts: dict[str, str], launched: dict[str, Any]) -> list[str]:
    # Keys that a recipe of an earlier version does not have were at their defaults then.
    new, defaults = recipe.to_dict(), Recipe().to_dict()
    old = {section: {**defaults[section], **stored.get(section, {})} for section in new}
    changeable = {
        (section, name)
        for section, keys in recipe_keys().items()
        for name, key in keys.items()
        if traits(key).resumable
    }
    if recipe.training.metric_for_best_model == "bleu":
        # Which weights are the best is decided by this very BLEU.
        changeable -= {("evaluation", "tokenize")}
    if recipe.training.metric_for_best_model != "loss":
        # Scores of other sentences are no better or worse.
        changeable -= {("training", "eval_sentences")}
    if SCHEDULES[recipe.training.lr_scheduler_type].falls_to_end:
        changeable -= {("training", "max_steps")}
    differences = [
        f"{section}.{name} was {old[section].get(name)!r} and is now {new[section].get(name)!r}"
        for section in new
        for name in {**old[section], **new[section]}
        if (section, name) not in changeable and old[section].get(name) != new[section].get(name)
    ]
    precision = stored.get("launched", launched).get("mixed_precision")
    if precision != launched["mixed_precision"]:
        differences.append(f"mixed precision was {precision} and is now {launched['mixed_precision']}")
    other_texts = [split for split in texts if stored.get("texts", {}).get(split) != texts[split]]
    return differences + [f"data.{split}: the {split} text has changed" for split in other_texts]

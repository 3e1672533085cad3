"""The output folder of a training: what it holds, whether it is this very training, and making it ready."""

import contextlib
import shutil
from pathlib import Path

import yaml
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from ..modeling_vaswani import VaswaniForConditionalGeneration
from ..tokenization_vaswani import TARGET_TOKENIZER_FILE
from .checkpoint import checkpoint_folders
from .recipe import Recipe

RECIPE_FILE = "training_recipe.yaml"
CHECKPOINTS, BEST = "checkpoints", "best"
TOKENIZER, ARCHITECTURE = "tokenizer", "architecture"
LOG_FILE, CURVES_FILE = "log.jsonl", "curves.png"
# What may change between two runs of one training: where it stops, what it reports, and how its text is prepared.
CHANGEABLE = {
    "training": {
        "output_dir", "max_updates", "max_minutes", "log_every", "trackers", "validate_every", "validate_sentences",
        "patience", "save_every", "keep_last", "keep_best", "average_last", "average_best", "max_skipped_updates",
        "overwrite", "cpu_threads",
    },
    # The texts themselves are compared, not where they lie.
    "data": {
        "dataset", "dataset_config", "dataset_revision", "train_split", "validation_split", "test_split",
        "source_column", "target_column", "train", "validation", "test", "train_source", "train_target",
        "validation_source", "validation_target", "test_source", "test_target", "processes", "cache_dir",
    },
}  # fmt: skip
# Schedules whose rate depends on the last update: going on to another one would make another training.
SCHEDULES_TO_THE_END = {"linear", "cosine"}


def is_resumed(recipe: Recipe, texts: dict[str, str]) -> bool:
    """Whether the output folder holds this very training, to go on with. Nothing is written.

    Args:
        texts: digests of training and validation text.

    Raises:
        InputError: the folder holds another recipe's training, or one on other texts.
    """
    folder = Path(recipe.training.output_dir)
    stored = folder / RECIPE_FILE
    # Before its first checkpoint a training has nothing that could be lost.
    if not stored.exists() or recipe.training.overwrite or not checkpoint_folders(folder / CHECKPOINTS):
        return False
    differences = _differences(_read_stored(stored), recipe, texts)
    if differences:
        raise InputError(
            f"{folder} holds a training of another recipe ({'; '.join(differences)}). Choose another --output_dir, "
            "or give --overwrite true to delete that training."
        )
    return True


def begin_output(
    recipe: Recipe,
    texts: dict[str, str],
    tokenizer: PreTrainedTokenizerBase,
    model: VaswaniForConditionalGeneration,
    is_resumed: bool,
) -> None:
    """Make the output folder ready: for a new training delete an earlier one; store recipe, tokenizer and config.

    Raises:
        InputError: where the folder cannot be written.
    """
    folder = Path(recipe.training.output_dir)
    try:
        if not is_resumed:
            _remove_training(folder)
        folder.mkdir(parents=True, exist_ok=True)
        content = {**recipe.to_dict(), "texts": texts}
        part = folder / f"{RECIPE_FILE}.part"
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
        part.replace(folder / RECIPE_FILE)
        if not is_resumed:
            tokenizer.save_pretrained(folder / TOKENIZER)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)
        # Checkpoints hold weights alone; what model they are of stands beside them.
        (folder / ARCHITECTURE).mkdir(exist_ok=True)
        model.config.to_json_file(folder / ARCHITECTURE / "config.json")
        model.generation_config.save_pretrained(folder / ARCHITECTURE)
    except OSError as error:
        raise InputError(f"training.output_dir={folder} cannot be written: {error.strerror}") from None


def _remove_training(folder: Path) -> None:
    """Delete what a training goes on from, and nothing else that a user may have put beside it."""
    for name in (CHECKPOINTS, BEST, TOKENIZER, ARCHITECTURE):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
    for name in (LOG_FILE, CURVES_FILE, RECIPE_FILE, TARGET_TOKENIZER_FILE):
        (folder / name).unlink(missing_ok=True)


def _read_stored(path: Path) -> dict:
    content = None
    with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged. Choose another --output_dir, or give --overwrite true.")
    return content


def _differences(stored: dict, recipe: Recipe, texts: dict[str, str]) -> list[str]:
    new = recipe.to_dict()
    changeable = {(section, name) for section, names in CHANGEABLE.items() for name in names}
    changeable |= {("generation", name) for name in new["generation"]}
    if recipe.training.schedule in SCHEDULES_TO_THE_END:
        changeable -= {("training", "max_updates")}
    differences = [
        f"{section}.{name} was {stored.get(section, {}).get(name)!r} and is now {new[section].get(name)!r}"
        for section in new
        for name in {**stored.get(section, {}), **new[section]}
        if (section, name) not in changeable and stored.get(section, {}).get(name) != new[section].get(name)
    ]
    other_texts = [split for split in texts if stored.get("texts", {}).get(split) != texts[split]]
    return differences + [f"the {split} text has changed" for split in other_texts]

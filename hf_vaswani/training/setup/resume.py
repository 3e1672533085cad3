"""Whether the output folder holds the very run that a recipe describes, so that it is resumed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME

from ...configuration.keys import traits
from ...errors import InputError
from ..checkpoints.best_weights import ranked
from ..checkpoints.checkpoint import checkpoint_folders, tidy
from ..checkpoints.output_folder import BEST, CHECKPOINTS, RECIPE_FILE, held, read_stored
from ..optimization.schedule import SCHEDULES
from ..recipe.recipe import Recipe, recipe_keys

# The weights of a finished model, or of a finished adapter.
FINISHED = (SAFE_WEIGHTS_NAME, ADAPTER_SAFE_WEIGHTS_NAME)


@dataclass(frozen=True)
class Circumstances:
    """What a run is known by besides its recipe.

    Attributes:
        texts: digests of training and validation text.
        mixed_precision, processes: that it was launched with; `None` if an earlier version did not store them.
    """

    texts: dict[str, str]
    mixed_precision: str | None
    processes: int | None

    def to_dict(self) -> dict[str, dict[str, str | int | None]]:
        """Sections that are stored after the recipe's."""
        launched = {"mixed_precision": self.mixed_precision, "processes": self.processes}
        return {"texts": self.texts, "launched": launched}

    @classmethod
    def of(cls, content: dict[str, dict[str, Any]], now: "Circumstances") -> "Circumstances":
        """Those in a stored recipe; one without them, of an earlier version, was launched as `now`."""
        launched = content.get("launched", now.to_dict()["launched"])
        return cls(content.get("texts", {}), launched.get("mixed_precision"), launched.get("processes"))


def is_resumed(recipe: Recipe, now: Circumstances) -> bool:
    """Whether the output folder holds this very run, to be resumed.

    Args:
        now: what the run would be continued with.

    Raises:
        InputError: if the folder holds a run of another recipe or on other texts, a model without its run, or
            scores of wrong types.
    """
    folder = Path(recipe.training.output_dir)
    stored = folder / RECIPE_FILE
    if not stored.exists() or recipe.training.overwrite:
        return False
    with held(folder):  # so that nothing is deleted that another run is writing
        tidy(folder / CHECKPOINTS)
    ranked(folder / BEST)  # whose scores are read in hours otherwise
    is_resumable = bool(checkpoint_folders(folder / CHECKPOINTS))
    if not is_resumable and any((folder / name).exists() for name in FINISHED):
        raise InputError(
            f"{folder} holds a finished model, but no checkpoints to resume its run from. Choose another "
            "--output_dir, or give --overwrite true to replace the model."
        )
    if not is_resumable and not checkpoint_folders(folder / BEST):
        # Before its first weights are kept a run has nothing that could be lost.
        return False
    content = read_stored(stored)
    before = Circumstances.of(content, now)
    differences = recipe_differences(content, recipe) + _differences(before, now)
    if differences:
        raise InputError(
            f"{folder} holds a run of another recipe ({'; '.join(differences)}). Choose another --output_dir, or "
            "give --overwrite true to delete that run."
        )
    if not is_resumable:
        # The same run comes by the same weights again.
        return False
    if before.processes != now.processes:
        print(f"Trained by {before.processes} process(es) before, by {now.processes} now: steps have another size")
    return True


def stored_differences(recipe: Recipe) -> list[str]:
    """What a recipe changes in the run that its output folder holds, such that the run cannot be resumed.

    Raises:
        InputError: if the stored recipe is damaged.
    """
    folder = Path(recipe.training.output_dir)
    if not (folder / RECIPE_FILE).exists():
        return []
    is_begun = checkpoint_folders(folder / CHECKPOINTS) or checkpoint_folders(folder / BEST)
    return recipe_differences(read_stored(folder / RECIPE_FILE), recipe) if is_begun else []


def recipe_differences(stored: dict[str, dict[str, Any]], recipe: Recipe) -> list[str]:
    """What makes a recipe another one than a stored one whose run it should continue."""
    # Keys that a recipe of an earlier version does not have were at their defaults then.
    new, defaults = recipe.to_dict(), Recipe().to_dict()
    old = {section: {**defaults[section], **stored.get(section, {})} for section in new}
    changeable = {
        (section, name)
        for section, keys in recipe_keys().items()
        for name, key in keys.items()
        if traits(key).resumable
    }
    if "launched" in stored:
        # Compared below, as what it came to.
        changeable |= {("training", "mixed_precision")}
    if recipe.training.metric_for_best_model == "bleu":
        # Which weights are the best is decided by this very BLEU.
        changeable -= {("evaluation", "tokenize")}
    if recipe.training.metric_for_best_model != "loss":
        # Scores of other sentences are no better or worse.
        changeable -= {("training", "eval_sentences")}
    if SCHEDULES[recipe.training.lr_scheduler_type].falls_to_end:
        changeable -= {("training", "max_steps")}
    return [
        f"{section}.{name} was {old[section].get(name)!r} and is now {new[section].get(name)!r}"
        for section in new
        for name in {**old[section], **new[section]}
        if (section, name) not in changeable and old[section].get(name) != new[section].get(name)
    ]


def _differences(before: Circumstances, now: Circumstances) -> list[str]:
    """What else makes it another run; with another number of processes it goes on."""
    differences = []
    if before.mixed_precision != now.mixed_precision:
        differences.append(f"mixed precision was {before.mixed_precision} and is now {now.mixed_precision}")
    other_texts = [split for split, digest in now.texts.items() if before.texts.get(split) != digest]
    return differences + [f"data.{split}: the {split} text has changed" for split in other_texts]

"""Whether the output folder holds the very run that a recipe describes, so that it is resumed."""

from pathlib import Path
from typing import Any

from ...configuration.keys import traits
from ...errors import InputError
from ..checkpoints.best_weights import ranked
from ..checkpoints.checkpoint import checkpoint_folders, tidy
from ..checkpoints.output_folder import BEST, CHECKPOINTS, RECIPE_FILE, held, read_stored
from ..optimization.schedule import SCHEDULES
from ..recipe.recipe import Recipe, recipe_keys


def is_resumed(recipe: Recipe, texts: dict[str, str], launched: dict[str, Any]) -> bool:
    """Whether the output folder holds this very run, to be resumed.

    Args:
        texts: digests of training and validation text.
        launched: precision and number of processes.

    Raises:
        InputError: where the folder holds a run of another recipe or on other texts, a model without its run, or
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
    if not is_resumable and (folder / "model.safetensors").exists():
        raise InputError(
            f"{folder} holds a finished model, but no checkpoints to resume its run from. Choose another "
            "--output_dir, or give --overwrite true to replace the model."
        )
    if not is_resumable and not checkpoint_folders(folder / BEST):
        # Before its first weights are kept a run has nothing that could be lost.
        return False
    before = read_stored(stored)
    differences = _differences(before, recipe, texts, launched)
    if differences:
        raise InputError(
            f"{folder} holds a run of another recipe ({'; '.join(differences)}). Choose another --output_dir, or "
            "give --overwrite true to delete that run."
        )
    if not is_resumable:
        # The same run comes by the same weights again.
        return False
    processes = before.get("launched", launched).get("processes")
    if processes != launched["processes"]:
        print(f"Trained by {processes} process(es) before, by {launched['processes']} now: steps have another size")
    return True


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

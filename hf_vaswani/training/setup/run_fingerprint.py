"""Decides by recipe, texts and models whether the output folder holds the very run that a recipe describes."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from transformers.utils import ADAPTER_SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_NAME

from ...configuration.keys import Sections, traits
from ...data.sources.text_source import text_file_digest
from ...errors import InputError
from ...ledger import Input, Provenance, differences, make_input
from ...records import RESULTS_FILE
from ..checkpoints.artifacts import BEST, CHECKPOINTS, RECIPE_FILE, locked_output, read_results, read_stored
from ..checkpoints.best_weights import ranked
from ..checkpoints.checkpoint import checkpoint_folders, tidy
from ..recipe.arguments import OWN, REVERSED
from ..recipe.recipe import Recipe, recipe_keys
from ..schedule import SCHEDULES

# The weights of a finished model, or of a finished adapter.
FINAL_WEIGHTS = (SAFE_WEIGHTS_NAME, ADAPTER_SAFE_WEIGHTS_NAME)


@dataclass(frozen=True)
class RunFingerprint:
    """What identifies a run besides its recipe.

    Attributes:
        texts: digests of training and validation text.
        mixed_precision, processes: the precision and number of processes that it was launched with.
        inputs: digests of the local models and tokenizers that it uses, by the key that names them.
    """

    texts: dict[str, str]
    mixed_precision: str
    processes: int
    inputs: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, dict[str, str | int]]:
        """The sections to store after those of the recipe."""
        launched = {"mixed_precision": self.mixed_precision, "processes": self.processes}
        return {"texts": self.texts, "launched": launched, **({"inputs": self.inputs} if self.inputs else {})}

    @classmethod
    def stored(cls, content: Sections) -> "RunFingerprint":
        """The fingerprint in a stored recipe."""
        texts, launched, inputs = (content.get(name, {}) for name in ("texts", "launched", "inputs"))
        return cls(texts, launched.get("mixed_precision", ""), launched.get("processes", 0), inputs)


def is_resumed(recipe: Recipe, now: RunFingerprint, tests: Collection[str]) -> bool:
    """Whether the output folder holds this very run, which is to be resumed.

    Args:
        now: the fingerprint of the run that would be resumed.
        tests: names of the test sets.

    Raises:
        InputError: if the folder holds a run of another recipe or on other texts, scores of other test sets, which
            would be lost, a model without checkpoints, or scores of the wrong types; or if another run is using it.
    """
    folder = Path(recipe.training.output_dir)
    stored = folder / RECIPE_FILE
    if not stored.exists() or recipe.training.overwrite:
        return False
    with locked_output(folder):  # so that files that another run is writing are not deleted
        tidy(folder / CHECKPOINTS)
    ranked(folder / BEST)  # raises errors about stored scores now rather than hours later
    is_resumable = bool(checkpoint_folders(folder / CHECKPOINTS))
    if not is_resumable and any((folder / name).exists() for name in FINAL_WEIGHTS):
        raise InputError(
            f"{folder} contains a finished model, but no checkpoints to resume its run from. Choose another "
            "--output_dir, or set --overwrite true to replace the model."
        )
    if not (is_resumable or checkpoint_folders(folder / BEST)):
        # Before its first weights are saved, a run has nothing to lose.
        return False
    content = read_stored(stored)
    before = RunFingerprint.stored(content)
    if changed := recipe_differences(content, recipe) + _differences(before, now):
        raise InputError(
            f"{folder} contains a run of another recipe ({'; '.join(changed)}). Choose another --output_dir, or "
            "set --overwrite true to delete that run."
        )
    if not is_resumable:
        # The same run will produce the same weights again.
        return False
    if lost := set(read_results(folder).get("tests") or ()) - set(tests):
        raise InputError(
            f"{folder} has scores of test sets that the recipe no longer names: {', '.join(sorted(lost))}. They would "
            f"be deleted. Name these test sets again, or delete {folder / RESULTS_FILE} and their translations first."
        )
    if before.processes != now.processes:
        print(f"Number of processes: {before.processes} before, {now.processes} now; the tokens per step change")
    return True


def recipe_differences(stored: Sections, recipe: Recipe) -> list[str]:
    """The differences because of which a recipe cannot resume the run of a stored one."""
    # A run from elsewhere lacks the keys that concern only a machine.
    new, defaults = recipe.to_dict(), Recipe().to_dict()
    old = {section: {**defaults[section], **stored.get(section, {})} for section in new}
    changeable = {
        (section, name)
        for section, keys in recipe_keys().items()
        for name, key in keys.items()
        if traits(key).resumable
    }
    # The precision actually used is compared instead.
    changeable |= {("training", "mixed_precision")}
    if recipe.training.metric_for_best_model.endswith("bleu"):
        # This tokenizer affects the BLEU that decides which weights are best.
        changeable -= {("evaluation", "tokenize")}
    if not recipe.training.metric_for_best_model.endswith("loss"):
        # Scores on other sentences cannot be compared.
        changeable -= {("training", "eval_sentences")}
    if SCHEDULES[recipe.training.lr_scheduler_type].falls_to_end:
        changeable -= {("training", "max_steps")}
    for section, name in (("training", "start_from"), ("training", "distill_from"), ("tokenizer", "path")):
        if _relative(old, section, name) == _relative(new, section, name):  # all folders have moved together
            changeable |= {(section, name)}
    found = []
    for section in new:
        before, now = (
            {name: value for name, value in keys[section].items() if (section, name) not in changeable}
            for keys in (old, new)
        )
        found += differences(before, now, f"{section}.")
    return found


def _relative(recipe: Sections, section: str, name: str) -> list[str]:
    """The folders that a key names, relative to the output folder; Hub ids remain distinct, too."""
    value, folder = recipe[section].get(name), recipe["training"].get("output_dir") or "."
    names = value if isinstance(value, list) else [value] if value else []
    return [os.path.relpath(entry, folder) for entry in names]


def _differences(before: RunFingerprint, now: RunFingerprint) -> list[str]:
    """Differences that prevent resuming; the number of processes may change."""
    found = []
    if before.mixed_precision != now.mixed_precision:
        found.append(f"mixed precision was {before.mixed_precision} and is now {now.mixed_precision}")
    found += [
        f"the content of {key} has changed"
        for key, digest in now.inputs.items()
        if before.inputs.get(key, digest) != digest
    ]
    other_texts = [split for split, digest in now.texts.items() if before.texts.get(split) != digest]
    return found + [f"data.{split}: the {split} text has changed" for split in other_texts]


def local_digests(recipe: Recipe) -> dict[str, str]:
    """The digests of a run's models and tokenizers that are in folders, by the key that names them."""
    found: dict[str, list[str]] = {}
    if recipe.augmentation.glossary:
        found["augmentation.glossary"] = [text_file_digest(recipe.augmentation.glossary)]
    for key, name in recipe.model_names:
        if Path(name).exists():
            found.setdefault(key, []).append(_model_digest(name))
    return {key: " ".join(digests) for key, digests in found.items()}


def _model_digest(name: str) -> str:
    from ...models.model_digest import content_digest  # only recipes that name a model need it

    return content_digest(name)


def run_inputs(recipe: Recipe) -> list[Input]:
    """Everything that a run is made from besides its own text, with provenance."""
    found = [make_input(key, name, _model_digest(name)) for key, name in recipe.model_names]
    pairs = [name for name in recipe.data.text or () if name not in (OWN, REVERSED)]
    found += [make_input("data.text", name, text_file_digest(name)) for name in pairs]
    if name := recipe.augmentation.glossary:
        found.append(make_input("augmentation.glossary", name, text_file_digest(name)))
    return Provenance(command="train", inputs=found).without_repetition().inputs

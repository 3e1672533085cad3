"""Values of a recipe file that an option on the command line replaces in addition to the key that it names.

Several keys of a file together describe one dataset or architecture. An option that describes another would contradict
them, so they are removed: files replace a dataset, a preset replaces an architecture, and a schedule replaces a
learning rate that means something else to it.
"""

from ...configuration.keys import Keys, Sections
from .arguments import SPLITS, text_keys

DATASET_KEYS = ("dataset", "dataset_config", "dataset_revision")
# Descriptions of the text, for the model card, which do not apply to any other text.
DESCRIPTION_KEYS = ("name", "license")


def remove_replaced(values: Sections, options: dict[str, dict[str, str]]) -> None:
    """Remove the values of a file that the options on the command line replace.

    Args:
        values: the file's values by section; changed in place.
        options: section → key → text of the options, without those that are null.
    """
    if "preset" in options.get("model", ()) or "start_from" in options.get("training", ()):
        values["model"] = {}
    _remove_from_training(values.get("training", {}), options.get("training", {}))
    given, replaced = options.get("data", {}).keys(), set()
    if "dataset" in given:
        replaced |= {*DATASET_KEYS, *DESCRIPTION_KEYS, *(name for split in SPLITS for name in text_keys(split))}
    elif any(given & set(text_keys(split)) for split in SPLITS):
        replaced |= {*DATASET_KEYS, *DESCRIPTION_KEYS, *(f"{split}_split" for split in SPLITS)}
    for split in SPLITS:
        both, *sides = text_keys(split)
        if both in given:
            replaced |= {*sides, f"{split}_share"}
        if given & {*sides, f"{split}_split"}:
            replaced |= {both, f"{split}_share"}
        if f"{split}_share" in given:
            replaced |= {both, *sides, f"{split}_split"}
    if "max_length" in given:
        replaced.add("max_length_coverage")
    if "max_length_coverage" in given:
        replaced.add("max_length")
    for name in replaced:
        values.get("data", {}).pop(name, None)


def _remove_from_training(values: Keys, options: dict[str, str]) -> None:
    """Remove a learning rate meant for another kind of schedule, and the file's choice of final weights."""
    replaced, schedule = set(), values.get("lr_scheduler_type", "paper")
    if (options.get("lr_scheduler_type", schedule) == "paper") != (schedule == "paper"):
        replaced.add("learning_rate")
    if options.keys() & {"average", "average_last"}:
        replaced.add("average")
    for name in replaced:
        values.pop(name, None)


def add_implied(values: Sections) -> None:
    """Set what the given keys imply: which weights are averaged, and null for defaults that they replace."""
    data, training = values.get("data", {}), values.get("training", {})
    for name, default in (
        ("validation_share", "validation_split"),
        ("test_share", "test_split"),
        ("max_length_coverage", "max_length"),
    ):
        if data.get(name) is not None:
            data.setdefault(default, None)
    if training.get("average_last") is not None:
        training.setdefault("average", "last")

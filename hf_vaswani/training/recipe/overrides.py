"""What an option takes the place of in a recipe's file, besides the key that it names.

A file describes a text or an architecture with several keys, which belong together. An option that describes another
one would contradict them, so they go: files in the place of a data set, a preset in the place of an architecture, a
schedule in the place of one whose learning rate means something else.
"""

from typing import Any

from .arguments import SPLITS

Sections = dict[str, dict[str, Any]]
DATA_SET = ("dataset", "dataset_config", "dataset_revision")
# Of a text, for the model card: true of no other text.
DESCRIPTION = ("name", "license")


def make_room(values: Sections, options: dict[str, dict[str, str | None]]) -> None:
    """Take out of a file's values what the options on the command line replace.

    Args:
        values: of the file, by section; changed in place.
        options: by section, the keys that are given there with their texts, and not as null.
    """
    if "preset" in options.get("model", ()) or "start_from" in options.get("training", ()):
        values["model"] = {}
    _make_room_in_training(values.get("training", {}), options.get("training", {}))
    given, replaced = options.get("data", {}).keys(), set()
    if "dataset" in given:
        replaced |= {*DATA_SET, *DESCRIPTION, *(name for split in SPLITS for name in _files(split))}
    elif any(given & set(_files(split)) for split in SPLITS):
        replaced |= {*DATA_SET, *DESCRIPTION, *(f"{split}_split" for split in SPLITS)}
    for split in SPLITS:
        whole, *sides = _files(split)
        if whole in given:
            replaced |= {*sides, f"{split}_share"}
        if given & {*sides, f"{split}_split"}:
            replaced |= {whole, f"{split}_share"}
        if f"{split}_share" in given:
            replaced |= {whole, *sides, f"{split}_split"}
    for one, other in (("max_length", "max_length_coverage"), ("max_length_coverage", "max_length")):
        if one in given:
            replaced.add(other)
    for name in replaced:
        values.get("data", {}).pop(name, None)


def _make_room_in_training(values: dict[str, Any], options: dict[str, str | None]) -> None:
    """Take out what belongs to another schedule, or says of what other weights the final model is the mean."""
    replaced, schedule = set(), values.get("lr_scheduler_type", "paper")
    if (options.get("lr_scheduler_type", schedule) == "paper") != (schedule == "paper"):
        replaced.add("learning_rate")
    if options.keys() & {"average", "average_last", "average_best"}:
        replaced |= {"average", "average_best"}
    for name in replaced:
        values.pop(name, None)


def complete(values: Sections) -> None:
    """Set the kind of final model to that whose size is given, and no kind."""
    training = values.get("training", {})
    for name, kind in (("average_best", "best"), ("average_last", "last")):
        if training.get(name) is not None:
            training.setdefault("average", kind)


def leave_out_defaults(values: Sections) -> None:
    """Set to null what would have a default, though something else is given in its place."""
    data = values.get("data", {})
    for name, default in (
        ("validation_share", "validation_split"),
        ("test_share", "test_split"),
        ("max_length_coverage", "max_length"),
    ):
        if data.get(name) is not None:
            data.setdefault(default, None)


def _files(split: str) -> tuple[str, str, str]:
    return split, f"{split}_source", f"{split}_target"

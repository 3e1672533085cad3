"""What an option takes the place of in a recipe's file, besides the key that it names.

A file describes a text or an architecture with several keys, which belong together. An option that describes another
one would contradict them, so they go: files in the place of a data set, a preset in the place of an architecture.
"""

from typing import Any

from .arguments import SPLITS

Sections = dict[str, dict[str, Any]]
DATA_SET = ("dataset", "dataset_config", "dataset_revision")
# Of a text, for the model card: true of no other text.
DESCRIPTION = ("name", "license")


def make_room(values: Sections, options: dict[str, set[str]]) -> None:
    """Take out of a file's values what the options on the command line replace.

    Args:
        values: of the file, by section; changed in place.
        options: by section, the keys that are given there, and not as null.
    """
    if "preset" in options.get("model", ()) or "start_from" in options.get("training", ()):
        values["model"] = {}
    given, replaced = options.get("data", set()), set()
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

"""The recipe of a replay: that of the run, with local paths to its text, and without what the steps do not need."""

import os
from pathlib import Path
from typing import Any

import yaml

from ...configuration.keys import traits
from ...errors import InputError
from ..recipe.arguments import SPLITS, text_keys
from ..recipe.recipe import SECTIONS, Recipe, load_recipe, option_value
from .recorded_run import RecordedRun

# What a run scores and says about its model does not concern its replay. Neither do private keys, such as those that
# say where to write.
LEFT_OUT = {
    "data": {"test", "test_source", "test_target", "tests", "name", "license"},
    "training": {"license"},
    "evaluation": {"rerank_with", "compare_with"},
}
# Given as options, these would replace what the recipe says about the model.
PLACES = {
    "start_from": ("training", "start_from"), "training.start_from": ("training", "start_from"),
    "tokenizer.path": ("tokenizer", "path"), "path": ("tokenizer", "path"),
    "distill_from": ("training", "distill_from"), "training.distill_from": ("training", "distill_from"),
}  # fmt: skip


def replayed_recipe(run: RecordedRun, options: list[str], folder: Path) -> tuple[Recipe, Path, list[str]]:
    """The recipe of a replay, the file that it was written to, and the remaining options to load it with.

    Args:
        options: recipe keys, as on the command line.
        folder: where the file is written.

    Raises:
        InputError: errors in the recipe or the options.
    """
    places, left = _places(options)
    given = {option.removeprefix("--").partition("=")[0].replace("-", "_") for option in left if option[:2] == "--"}
    without_effect = sorted(name for name in given if _is_left_out("training", name.removeprefix("training.")))
    if without_effect:
        raise InputError.of(
            [f"--{name}: no effect on a replay, which writes nothing. Leave it out" for name in without_effect]
        )
    values: dict[str, dict[str, Any]] = {}
    for section, keys in run.recipe.items():
        # The model section holds only keys that were given.
        fields = SECTIONS[section].model_fields if section in SECTIONS and section != "model" else {}
        values[section] = {
            name: value
            for name, value in keys.items()
            # A key at its default may conflict with keys that were given, since its mere presence counts as a choice.
            if not _is_left_out(section, name) and not (name in fields and fields[name].default == value)
        }
    if not values.get("peft"):
        values.pop("peft", None)
    values.setdefault("data", {})["test_split"] = None
    if run.folder:
        _find_moved(values, run.recipe, run.folder)
    for (section, name), value in places.items():
        values.setdefault(section, {})[name] = option_value(value, SECTIONS[section].model_fields[name])
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), encoding="utf-8")
    left += [f"--training.output_dir={folder / 'run'}"]
    try:
        return load_recipe(file, left), file, left
    except InputError as error:
        raise InputError(str(error).replace(str(file), run.recipe_file)) from None


def _is_left_out(section: str, name: str) -> bool:
    """Whether a key of a run's recipe has no place in its replay, which may be that of a stranger's card."""
    key = SECTIONS[section].model_fields.get(name) if section in SECTIONS else None
    return name in LEFT_OUT.get(section, ()) or (key is not None and traits(key).private)


def _find_moved(values: dict[str, dict[str, Any]], stored: dict[str, dict[str, Any]], folder: Path) -> None:
    """Name models and pairs by where they are now, in case that they were moved together with the run's folder.

    Args:
        values: section → key → value of the run's recipe; changed in place.
        stored: the recipe as it was stored, with the output folder of that time.
        folder: of the run, now.
    """
    before = stored.get("training", {}).get("output_dir") or "."

    def found(value: Any) -> Any:
        if isinstance(value, list):
            return [found(entry) for entry in value]
        if not isinstance(value, str) or Path(value).exists():
            return value
        moved = Path(os.path.normpath(folder / os.path.relpath(value, before)))
        return str(moved) if moved.exists() else value

    for section, name in set(PLACES.values()):
        if values.get(section, {}).get(name):
            values[section][name] = found(values[section][name])
    text = values["data"].get("text")
    if isinstance(text, dict):
        values["data"]["text"] = {found(name): weight for name, weight in text.items()}
    elif text:
        values["data"]["text"] = found(text)


def hints(errors: list[str], recipe: Recipe) -> list[str]:
    """Hints that name the options for what a replay did not find."""
    found = []
    if any(error.startswith("data.") for error in errors) and not recipe.data.dataset:
        texts = {name: getattr(recipe.data, name) for split in SPLITS[:2] for name in text_keys(split)}
        # A value that is no path lists several sources.
        missing = [key for key, text in texts.items() if text and not (isinstance(text, str) and Path(text).exists())]
        if missing:
            found.append(f"Specify where the run's text is: {' '.join(f'--{key} FILE' for key in missing)}")
    if any(error.startswith("training.start_from") for error in errors):
        found.append("Specify where the model that the run started from is: --start_from FOLDER")
    if any(error.startswith("training.distill_from") for error in errors):
        found.append("Specify where the models that the run distilled are: --distill_from FOLDER,FOLDER")
    if any(error.startswith("tokenizer.path") for error in errors):
        found.append("Specify where the run's tokenizer is: --tokenizer.path FOLDER")
    return found


def _places(options: list[str]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The options that say where a model or tokenizer is, by section and key, and the remaining options."""
    places, left, rest = {}, [], list(options)
    while rest:
        option = rest.pop(0)
        name, equals, value = option.removeprefix("--").partition("=")
        key = PLACES.get(name.replace("-", "_")) if option.startswith("--") else None
        if key and (equals or rest):
            places[key] = value if equals else rest.pop(0)
        else:
            left.append(option)
    return places, left

"""Reads the stages of a recipe from its file and the command line: typed, with all errors in them."""

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...configuration.name_hints import OTHER_NAMES, hint
from ...configuration.renamed_keys import Sections
from ..checkpoints.output_folder import STAGES_FOLDER
from ..recipe.arguments import HUB_KEYS
from ..recipe.overrides import remove_replaced
from .arguments import KINDS, SECTION_OF_KIND, TRAIN, Stage
from .options import PREFIX, kind_of

if TYPE_CHECKING:  # because `recipe` imports this module
    from ..recipe.recipe import Recipe

# These keys are for the last training run alone; the stages before it do not inherit them.
OF_THE_LAST_RUN = {
    "data": ("text", "reversed"),
    "training": (
        "output_dir", "start_from", "distill_from", "distill_weight", "distill_top_k", "freeze", "overwrite",
        "push_to_hub", *HUB_KEYS,
    ),
    "tokenizer": ("path",),
    "evaluation": ("mbr", "samples", "rerank_with", "rerank_beams", "rerank_length_penalty"),
}  # fmt: skip
# Command-line option → the keys in the file that it replaces, which it excludes.
REPLACED_BY = {
    "mbr": ("num_beams", "length_penalty", "sample"), "sample": ("num_beams", "length_penalty", "mbr"),
    "num_beams": ("mbr", "sample"), "last": ("best",), "best": ("last",),
}  # fmt: skip
NAME = re.compile(r"[a-zA-Z]\w{0,63}")


def read_stages(
    path: str,
    contents: dict[str, Any],
    options: dict[str, dict[str, dict[str, str]]],
    inherited: Sections,
    recipe: "Recipe",
) -> tuple[dict[str, Stage], list[str]]:
    """The stages of a recipe by name, and the errors in them.

    Args:
        path: of the recipe.
        contents: name → what the recipe says about the stage.
        options: name → section → key → text, from the command line.
        inherited: the recipe's own values, which a stage that trains uses unless it sets others.
        recipe: the recipe with these values.
    """
    stages, errors = {}, []
    for name, content in contents.items():
        found = _name_errors(name)
        kind = kind_of(content)
        if kind is None:
            found.append(f"{path}: {PREFIX}.{name} must be one of {', '.join(KINDS)}, with its keys; got {content!r}")
        elif not isinstance(content[kind] or {}, dict):
            found.append(f"{path}: {PREFIX}.{name}.{kind} must contain keys and values, not {content[kind]!r}")
        errors += found
        if found:
            continue
        place, given = f"{path}: {PREFIX}.{name}", content[kind] or {}
        if kind == TRAIN:
            stage, found = _read_training(name, given, options.get(name, {}), inherited, recipe, place)
        else:
            stage, found = _read_other(name, kind, given, options.get(name, {}), place)
        stages[name] = stage
        errors += found
    return stages, errors


def _name_errors(name: str) -> list[str]:
    from ..recipe.recipe import recipe_keys

    keys = recipe_keys()
    taken = {*keys, PREFIX, "own", "reversed", *(key for section in keys.values() for key in section)}
    if not NAME.fullmatch(name):
        return [
            f"{PREFIX}: {name!r} cannot be the name of a stage: use letters, digits, and _, starting with a letter"
        ]
    if name in taken:
        return [f"{PREFIX}: '{name}' is a reserved word of recipes and cannot be the name of a stage: choose another"]
    return []


def _read_training(
    name: str, content: dict[str, Any], options: dict[str, dict[str, str]], inherited: Sections, recipe: "Recipe",
    place: str,
) -> tuple[Stage, list[str]]:  # fmt: skip
    from ..recipe.recipe import apply_options, known_values, make_recipe

    own, errors = known_values(content, place)
    values = copy.deepcopy(inherited)
    values.pop("peft", None)
    for section, keys in OF_THE_LAST_RUN.items():
        for key in keys:
            values.get(section, {}).pop(key, None)
    # What a stage says replaces the recipe's values, as an option would.
    remove_replaced(values, own)
    for section, keys in own.items():
        values.setdefault(section, {}).update(keys)
    apply_options(values, options)
    # The stage's own values, without those that options have replaced.
    given = {
        section: {key: value for key, value in keys.items() if key in values.get(section, {})}
        for section, keys in copy.deepcopy(own).items()
    }
    for section, keys in options.items():
        given.setdefault(section, {}).update({key: values[section][key] for key in keys})
    if given.get("training", {}).get("push_to_hub"):
        errors.append(f"{PREFIX}.{name}.training.push_to_hub: only the last model is uploaded; remove it")
    for key in ("output_dir", "overwrite"):
        if key in given.get("training", {}):
            errors.append(
                f"{PREFIX}.{name}.training.{key}: the folder of a stage is inside the recipe's training.output_dir, "
                "and the recipe's training.overwrite applies to its stages; remove it"
            )
    folder = Path(recipe.training.output_dir or "") / STAGES_FOLDER / name
    values.setdefault("training", {})["output_dir"] = str(folder)
    stage, found = make_recipe(values, str(recipe.file))
    own_found = make_recipe(copy.deepcopy(inherited), "")[1]
    errors += [f"{PREFIX}.{name}.{error}" for error in found if error not in own_found]
    own_model = given.get("model", {})
    if recipe.training.start_from and not stage.training.start_from and "preset" not in own_model:
        # A last run that starts from another model has no architecture to inherit: the stage must say what it trains.
        of_stage = {key: value for key, value in stage.model.items() if recipe.model.get(key) != value}
        given |= {"model": {**of_stage, **own_model}} if of_stage else {}
    return Stage(name, TRAIN, stage, given), errors


def _read_other(
    name: str, kind: str, content: dict[str, Any], options: dict[str, dict[str, str]], place: str
) -> tuple[Stage, list[str]]:
    from ..recipe.recipe import option_value

    section = SECTION_OF_KIND[kind]
    keys = section.model_fields
    errors = [
        f"{place}: unknown key '{kind}.{key}'; "
        + (hint(str(key), {known: known for known in keys}, OTHER_NAMES) or f"choose from {', '.join(keys)}")
        for key in content
        if key not in keys
    ]
    texts = options.get(kind, {})
    replaced = {other for key, others in REPLACED_BY.items() if texts.get(key, "null") != "null" for other in others}
    given = {key: value for key, value in content.items() if key in keys and key not in replaced}
    given |= {key: option_value(text, keys[key]) for key, text in texts.items()}
    typed, invalid = section.checked(given)
    arguments = section.model_construct(**typed)
    found = [*invalid.values(), *([] if invalid else arguments.violations())]
    return Stage(name, kind, arguments, given), errors + [f"{PREFIX}.{name}.{error}" for error in found]

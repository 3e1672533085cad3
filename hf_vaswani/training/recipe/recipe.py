"""The recipe of a training: a YAML file with a section for each part of the work, any key of it also an option.

The keys stand in `arguments.py`.
"""

import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from ...configuration.keys import Section, describe_type, types_of
from ...configuration.other_names import OTHER_NAMES, hint
from ...configuration.renamed_keys import new_name
from ...configuration.yaml_reader import read_yaml
from ...core.configuration_vaswani import FOREIGN_NAMES
from ...data.tokenizers.arguments import OF_ANY_TOKENIZER, TokenizerArguments
from ...errors import InputError, reason
from ...presets import preset_fields
from .arguments import DataArguments, EvaluationArguments, GenerationArguments, TrainingArguments
from .bundled_recipes import recipe_file
from .model_arguments import SET_ELSEWHERE, ModelArguments
from .overrides import complete, leave_out_defaults, make_room
from .violations import violations


class Recipe(BaseModel):
    """All of a run. `model` holds the fields of [`VaswaniConfig`] that differ from its defaults."""

    data: DataArguments = Field(default_factory=DataArguments)
    tokenizer: TokenizerArguments = Field(default_factory=TokenizerArguments)
    model: dict[str, Any] = Field(default_factory=dict)
    training: TrainingArguments = Field(default_factory=TrainingArguments)
    generation: GenerationArguments = Field(default_factory=GenerationArguments)
    evaluation: EvaluationArguments = Field(default_factory=EvaluationArguments)
    # The YAML file that it was read from, which says nothing about the run.
    file: str | None = Field(default=None, exclude=True)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, as in the YAML file."""
        return self.model_dump()

    @property
    def tokenizer_source(self) -> str | None:
        """The key and value that name an existing tokenizer; `None` where a new one is made."""
        if self.tokenizer.path:
            return f"tokenizer.path={self.tokenizer.path}"
        return f"training.start_from={self.training.start_from}" if self.training.start_from else None


# In the order in which they are described.
SECTIONS: dict[str, type[Section]] = {
    cls.section: cls
    for cls in (
        DataArguments, TokenizerArguments, TrainingArguments, GenerationArguments, EvaluationArguments, ModelArguments,
    )
}  # fmt: skip


def load_recipe(path: str | Path, options: list[str] | None = None) -> Recipe:
    """Read a recipe and lay the command line's options over it.

    Args:
        path: a YAML file, or the name of a recipe that comes with the package: `"quickstart"`.
        options: `["--training.max_steps", "100", "--d_model=64"]`; the section may be left out. What they replace
            besides the keys that they name stands in `overriding.py`.

    Raises:
        InputError: all errors at once: unknown keys, with the nearest right one, and values of the wrong kind.
    """
    values, errors = _read_yaml(recipe_file(path))
    given = [(name, text, _section_of(name, errors)) for name, text in _parse_options(options or [], errors)]
    named: dict[str, dict[str, str | None]] = {}
    for name, text, section in given:
        if section and text != "null":
            named.setdefault(section, {})[name.rpartition(".")[2]] = text
    make_room(values, named)
    for name, text, section in given:
        if section:
            key_name = name.rpartition(".")[2]
            key = recipe_keys()[section][key_name]
            if text is None and bool not in types_of(key):
                errors.append(f"--{name} needs a value: {describe_type(key)}")
                continue
            if text == "":
                errors.append(f"--{name} is empty; null stands for none")
                continue
            values.setdefault(section, {})[key_name] = _option_value(text or "true", key)
    leave_out_defaults(values)
    complete(values)
    typed, invalid = _checked(values)
    errors += invalid.values()
    model = _expand_preset(typed.pop("model"), errors)
    # Not checked again: with those out of bounds too, all that contradicts each other is told at once.
    sections = {section: SECTIONS[section].model_construct(**keys) for section, keys in typed.items()}
    recipe = Recipe.model_construct(**sections, model=model, file=str(path))
    without_effect = sorted(named.get("tokenizer", {}).keys() - OF_ANY_TOKENIZER)
    if recipe.tokenizer_source and without_effect:
        keys = ", ".join(f"--{name}" for name in without_effect)
        errors.append(f"{keys}: no effect on the tokenizer of {recipe.tokenizer_source}, which is used as it is")
    found = violations(recipe.data, recipe.tokenizer, recipe.model, recipe.training)
    errors += [error for error in found if error.partition(" ")[0] not in invalid]
    if errors:
        raise InputError.of(errors)
    return recipe


def value_errors(recipe: dict[str, dict[str, Any]]) -> list[str]:
    """The values of a stored recipe that have wrong types. Keys of other versions may be anything."""
    known = {section: keys.keys() for section, keys in recipe_keys().items()}
    values = {section: {name: value for name, value in keys.items() if name in known.get(section, ())}
              for section, keys in recipe.items()}  # fmt: skip
    return list(_checked(values)[1].values())


def section_from_options(section: str, options: dict[str, str]) -> Any:
    """The arguments of one section from texts of the command line, for commands that need no more of a recipe.

    Raises:
        InputError: all values of the wrong kind at once.
    """
    keys = SECTIONS[section].model_fields
    errors = [f"--{name} is empty; null stands for none" for name, text in options.items() if text == ""]
    values = {name: _option_value(text, keys[name]) for name, text in options.items()}
    typed, wrong = SECTIONS[section].checked(values)
    errors += wrong.values()
    if errors:
        raise InputError.of(errors)
    return SECTIONS[section](**typed)


def _expand_preset(model: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    """The fields of the preset that `model.preset` names, under those that the recipe sets itself."""
    fields = {name: value for name, value in model.items() if name != "preset"}
    if model.get("preset") is None:
        return fields
    try:
        named = preset_fields(model["preset"])
    except InputError as error:
        errors.append(f"model.preset: {error}")
        return fields
    return {**{name: value for name, value in named.items() if name not in SET_ELSEWHERE}, **fields}


def recipe_keys() -> dict[str, dict[str, FieldInfo]]:
    """Section → key → its declaration, for the whole recipe."""
    return {name: cls.model_fields for name, cls in SECTIONS.items()}


def _read_yaml(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    try:
        content = read_yaml(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a YAML file: {reason(error)}") from None
    keys, errors, values = recipe_keys(), [], {}
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold the sections {', '.join(keys)}, each with its keys.")
    for section, entries in content.items():
        if section not in keys:
            errors.append(f"{path}: unknown section '{section}'{_nearest(section, {key: key for key in keys})}")
        elif not isinstance(entries or {}, dict):
            errors.append(f"{path}: section '{section}' must hold keys and values, not {entries!r}")
        else:
            unknown = [name for name in entries or {} if name not in keys[section]]
            errors += [
                f"{path}: unknown key '{section}.{name}'{_nearest(name, _all_names(section), section)}"
                for name in unknown
            ]
            values[section] = {n: v for n, v in (entries or {}).items() if n in keys[section]}
    return values, errors


def _parse_options(options: list[str], errors: list[str]) -> list[tuple[str, str | None]]:
    """`--a.b value`, `--b=value` and `--flag` → names and texts; a flag has none."""
    if isinstance(options, str) or not isinstance(options, Iterable):
        raise ValueError(f"options must be a list of texts, as on the command line, got {options!r}")
    parsed, rest = [], list(options)
    for option in rest:
        if not isinstance(option, str):
            raise ValueError(f"options must be texts, as on the command line, got {option!r}")
    while rest:
        option = rest.pop(0)
        if not option.startswith("--"):
            errors.append(f"'{option}' is no option: options are written --key value")
            continue
        name, has_value, value = option[2:].partition("=")
        if not has_value:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else None
        parsed.append((name.replace("-", "_"), value))
    return parsed


def _option_value(text: str, key: FieldInfo) -> Any:
    """An option's text as the value that YAML reads in it; where text is wanted, it stays as it was typed."""
    types = types_of(key)
    if text == "null":
        return None
    if list[str] in types and not text.startswith("["):
        return [item.strip() for item in text.split(",")]
    if str in types and not (dict in types and text[:1] in ("[", "{")):
        return text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text


def _section_of(name: str, errors: list[str]) -> str | None:
    section, _, bare = name.rpartition(".")
    keys = recipe_keys()
    if section in keys and bare in keys[section]:
        return section
    homes = [s for s in keys if bare in keys[s]] if not section else []
    if len(homes) == 1:
        return homes[0]
    if homes:
        errors.append(f"--{name} stands in several sections; say which: {', '.join(f'--{s}.{name}' for s in homes)}")
        return None
    errors.append(f"--{name}: unknown key{_nearest(name, _all_names())}")
    return None


def _all_names(section: str | None = None) -> dict[str, str]:
    """Names to compare with, and what each is called where it is suggested: in a recipe, one of another section than
    the given one is called by its section too."""
    keys = recipe_keys()
    dotted = {f"{s}.{n}": f"{s}.{n}" for s in keys for n in keys[s]}
    bare = {n: f"{s}.{n}" if section else n for s in keys for n in keys[s]}
    return dotted | bare | {n: n for n in keys.get(section, [])}


def _nearest(name: str, names: typing.Mapping[str, str], section: str | None = None) -> str:
    if renamed := new_name(str(name), section):
        return f"; it is now '{renamed}'"
    found = hint(str(name), names, OTHER_NAMES | FOREIGN_NAMES)
    return f"; {found or 'hf-vaswani train --help lists all keys'}"


def _checked(values: dict[str, dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The values of the right types by section, and what is wrong by `section.key`."""
    checked, errors = {}, {}
    for section, cls in SECTIONS.items():
        checked[section], wrong = cls.checked(values.get(section, {}))
        errors |= {f"{section}.{name}": error for name, error in wrong.items()}
    return checked, errors

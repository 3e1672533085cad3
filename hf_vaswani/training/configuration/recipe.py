"""The recipe of a training: a YAML file with a section for each part of the work, any key of it also an option.

The keys stand in `arguments.py`.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from ...core.configuration_vaswani import FOREIGN_NAMES, VaswaniConfig
from ...data.tokenizers.arguments import OF_ANY_TOKENIZER, TokenizerArguments
from ...errors import InputError, reason
from ...presets import preset_fields
from .arguments import DataArguments, EvaluationArguments, GenerationArguments, TrainingArguments
from .bundled_recipes import recipe_file
from .other_names import OTHER_NAMES, hint
from .overrides import complete, leave_out_defaults, make_room
from .renamed_keys import new_name
from .violations import contradictions
from .yaml_reader import read_yaml


@dataclass
class Recipe:
    """All of a training. `model` holds any field of [`VaswaniConfig`]."""

    data: DataArguments = field(default_factory=DataArguments)
    tokenizer: TokenizerArguments = field(default_factory=TokenizerArguments)
    model: dict[str, Any] = field(default_factory=dict)
    training: TrainingArguments = field(default_factory=TrainingArguments)
    generation: GenerationArguments = field(default_factory=GenerationArguments)
    evaluation: EvaluationArguments = field(default_factory=EvaluationArguments)

    # The YAML file that it was read from. No field: it says nothing of the training.
    file = None

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, as in the YAML file."""
        return dataclasses.asdict(self)

    @property
    def tokenizer_source(self) -> str | None:
        """The key and value that name a tokenizer made before; `None` where a new one is made."""
        if self.tokenizer.path:
            return f"tokenizer.path={self.tokenizer.path}"
        return f"training.start_from={self.training.start_from}" if self.training.start_from else None


SECTIONS = {
    "data": DataArguments,
    "tokenizer": TokenizerArguments,
    "training": TrainingArguments,
    "generation": GenerationArguments,
    "evaluation": EvaluationArguments,
}
# Set from the tokenizer, or by the package, not by hand.
SET_ELSEWHERE = {
    "vocab_size", "decoder_vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id",
    "source_language", "target_language", "format_version",
}  # fmt: skip


def load_recipe(path: str | Path, options: list[str] | None = None) -> Recipe:
    """Read a recipe and lay the command line's options over it.

    Args:
        path: a YAML file, or the name of a recipe that comes with the package: `"quickstart"`.
        options: `["--training.max_steps", "100", "--d_model=64"]`; the section may be left out. What they replace
            besides the keys that they name stands in `overriding.py`.

    Raises:
        InputError: all faults at once: unknown keys, with the nearest right one, and values of the wrong kind.
    """
    values, faults = _read_yaml(recipe_file(path))
    given = [(name, text, _section_of(name, faults)) for name, text in _parse_options(options or [], faults)]
    named: dict[str, dict[str, str | None]] = {}
    for name, text, section in given:
        if section and text != "null":
            named.setdefault(section, {})[name.rpartition(".")[2]] = text
    make_room(values, named)
    for name, text, section in given:
        if section:
            key_name = name.rpartition(".")[2]
            kind = recipe_keys()[section][key_name]
            if text is None and kind is not bool:
                faults.append(f"--{name} needs a value: {_describe(kind)}")
                continue
            if text == "":
                faults.append(f"--{name} is empty; null stands for none")
                continue
            values.setdefault(section, {})[key_name] = _option_value(text or "true", kind)
    leave_out_defaults(values)
    complete(values)
    typed = _typed(values, faults)
    typed["model"] = _expand_preset(typed["model"], faults)
    recipe = Recipe(model=typed["model"], **{name: cls(**typed[name]) for name, cls in SECTIONS.items()})
    without_effect = sorted(named.get("tokenizer", {}).keys() - OF_ANY_TOKENIZER)
    if recipe.tokenizer_source and without_effect:
        keys = ", ".join(f"--{name}" for name in without_effect)
        faults.append(f"{keys}: no effect on the tokenizer of {recipe.tokenizer_source}, which is used as it is")
    faults += contradictions(
        recipe.data, recipe.tokenizer, recipe.model, recipe.training, recipe.generation, recipe.evaluation
    )
    if faults:
        raise InputError.of(faults)
    recipe.file = str(path)
    return recipe


def value_errors(recipe: dict[str, dict[str, Any]]) -> list[str]:
    """The values of a recipe that a folder holds whose types are wrong. Keys of other versions may be anything."""
    errors: list[str] = []
    _typed(recipe, errors)
    return errors


def section_from_options(section: str, options: dict[str, str]) -> Any:
    """The arguments of one section from texts of the command line, for commands that need no more of a recipe.

    Raises:
        InputError: all values of the wrong kind at once.
    """
    kinds = recipe_keys()[section]
    faults = [f"--{name} is empty; null stands for none" for name, text in options.items() if text == ""]
    values = {name: _option_value(text, kinds[name]) for name, text in options.items()}
    typed = _typed({section: values}, faults)
    if faults:
        raise InputError.of(faults)
    return SECTIONS[section](**typed[section])


def _expand_preset(model: dict[str, Any], faults: list[str]) -> dict[str, Any]:
    """The fields of the preset that `model.preset` names, under those that the recipe sets itself."""
    fields = {name: value for name, value in model.items() if name != "preset"}
    if model.get("preset") is None:
        return fields
    try:
        named = preset_fields(model["preset"])
    except InputError as error:
        faults.append(f"model.preset: {error}")
        return fields
    return {**{name: value for name, value in named.items() if name not in SET_ELSEWHERE}, **fields}


def model_keys() -> dict[str, Any]:
    """Fields of VaswaniConfig that a recipe may set, with their types, and the preset to start from."""
    from transformers import PreTrainedConfig

    inherited = {f.name for f in dataclasses.fields(PreTrainedConfig)}
    fields = [field for field in dataclasses.fields(VaswaniConfig) if field.name not in inherited | SET_ELSEWHERE]
    return {"preset": str | None, **{field.name: field.type for field in fields}}


def recipe_keys() -> dict[str, dict[str, Any]]:
    """Section → key → type, for the whole recipe."""
    keys = {name: typing.get_type_hints(cls) for name, cls in SECTIONS.items()}
    return {**keys, "model": model_keys()}


def _read_yaml(path: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    try:
        content = read_yaml(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a YAML file: {reason(error)}") from None
    keys, faults, values = recipe_keys(), [], {}
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold the sections {', '.join(keys)}, each with its keys.")
    for section, entries in content.items():
        if section not in keys:
            faults.append(f"{path}: unknown section '{section}'{_nearest(section, {key: key for key in keys})}")
        elif not isinstance(entries or {}, dict):
            faults.append(f"{path}: section '{section}' must hold keys and values, not {entries!r}")
        else:
            unknown = [name for name in entries or {} if name not in keys[section]]
            faults += [
                f"{path}: unknown key '{section}.{name}'{_nearest(name, _all_names(section), section)}"
                for name in unknown
            ]
            values[section] = {n: v for n, v in (entries or {}).items() if n in keys[section]}
    return values, faults


def _parse_options(options: list[str], faults: list[str]) -> list[tuple[str, str | None]]:
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
            faults.append(f"'{option}' is no option: options are written --key value")
            continue
        name, has_value, value = option[2:].partition("=")
        if not has_value:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else None
        parsed.append((name.replace("-", "_"), value))
    return parsed


def _option_value(text: str, kind: Any) -> Any:
    """An option's text as the value that YAML reads in it; where text is wanted, it stays as it was typed."""
    if text == "null":
        return None
    if kind == list[str] and not text.startswith("["):
        return [item.strip() for item in text.split(",")]
    is_structure = dict in typing.get_args(kind) and text[:1] in "[{"
    if kind is str or (typing.get_origin(kind) is not list and str in typing.get_args(kind) and not is_structure):
        return text
    try:
        return read_yaml(text)
    except yaml.YAMLError:
        return text


def _section_of(name: str, faults: list[str]) -> str | None:
    section, _, bare = name.rpartition(".")
    keys = recipe_keys()
    if section in keys and bare in keys[section]:
        return section
    homes = [s for s in keys if bare in keys[s]] if not section else []
    if len(homes) == 1:
        return homes[0]
    if homes:
        faults.append(f"--{name} stands in several sections; say which: {', '.join(f'--{s}.{name}' for s in homes)}")
        return None
    faults.append(f"--{name}: unknown key{_nearest(name, _all_names())}")
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


def _typed(values: dict[str, dict[str, Any]], faults: list[str]) -> dict[str, dict[str, Any]]:
    typed: dict[str, dict[str, Any]] = {}
    for section, types_ in recipe_keys().items():
        typed[section] = {}
        for name, value in values.get(section, {}).items():
            try:
                typed[section][name] = coerce(value, types_[name])
            except (TypeError, ValueError, OverflowError):
                quote = (
                    "; put it in quotes" if isinstance(value, bool) and str in typing.get_args(types_[name]) else ""
                )
                faults.append(f"{section}.{name} must be {_describe(types_[name])}, got {value!r}{quote}")
    return typed


def coerce(value: Any, kind: Any) -> Any:
    """`value` as `kind`; YAML reads 1e-9 as text and 1 where a float is meant.

    Raises:
        TypeError, ValueError, OverflowError: where it is not of that kind, or larger than any such thing.
    """
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        for choice in sorted(choices, key=lambda c: c is str):
            try:
                return coerce(value, choice)
            except (TypeError, ValueError, OverflowError):
                continue
        raise TypeError
    if kind is Any:
        return value
    if origin is Literal:
        # YAML reads a bare no as False.
        value = "no" if value is False and "no" in choices else value
        if value not in choices:
            raise ValueError
        return value
    if origin is list:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return [coerce(item, choices[0]) for item in value]
    if kind is float and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is str and not isinstance(value, (dict, list, bool)) and value is not None:
        return str(value)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        if kind is int and abs(value) >= 2**63:
            raise OverflowError
        return value
    raise TypeError


def _describe(kind: Any) -> str:
    origin, choices = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, choices))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_describe(choice) for choice in choices)
    if origin is list:
        return f"a list of {_describe(choices[0])}"
    names = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "null",
        dict: "keys with values",
        list: "a list",
    }
    return names.get(kind, str(kind))

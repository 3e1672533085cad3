"""How a recipe's key is declared: type, default, meaning, bounds and the rest stand at the key, once.

A section of a recipe is a [`Section`] whose fields are made by [`Key`]. Its checks, the command's help, the reference
page and the JSON schema all come from these fields.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from ..errors import InputError

# Of what is counted: more than any run has, so that it stands for "never" or "all" as well.
COUNTLESS = 10**12
TYPE_NAMES = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null",
    dict: "keys with values", list: "a list",
}  # fmt: skip


@dataclass(frozen=True)
class KeyTraits:
    """What pydantic has no words for: see [`Key`]."""

    choices: Mapping[str, Any] = field(default_factory=dict)
    resumable: bool = False
    private: bool = False
    is_path: bool = False

    def __call__(self, schema: dict[str, Any]) -> None:
        """Complete the key's JSON schema."""
        if self.choices:
            schema["enum"] = list(self.choices)


def Key(
    default: Any,
    help: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: Mapping[str, Any] | None = None,
    resumable: bool = False,
    private: bool = False,
    is_path: bool = False,
) -> Any:
    """A key of a recipe.

    Args:
        default: a list or dict is copied.
        help: what the key means.
        ge, gt, le, lt: bounds of a number, generous: what lies outside is a slip that would end in a crash, or never.
        choices: a registry whose names are the values; where there is none, the type is a `Literal`.
        resumable: whether the key may change when a run is resumed.
        private: whether it says nothing about the model and is left out of a shared recipe.
        is_path: whether its text names a file, of which a shared recipe keeps the last part.
    """
    given = {"default_factory": default.copy} if isinstance(default, list | dict) else {"default": default}
    bounds = {name: bound for name, bound in (("ge", ge), ("gt", gt), ("le", le), ("lt", lt)) if bound is not None}
    traits = KeyTraits(choices if choices is not None else {}, resumable, private, is_path)
    return Field(**given, **bounds, description=help, json_schema_extra=traits)


class InvalidKeys(InputError):
    """Values that keys cannot have.

    Attributes:
        by_key: what is wrong with each.
        out_of_bounds: those of the right type, by key.
    """

    def __init__(self, by_key: dict[str, str], out_of_bounds: dict[str, Any]):
        super().__init__("\n".join(by_key.values()))
        self.by_key, self.out_of_bounds = by_key, out_of_bounds


class Section(BaseModel):
    """A section of a recipe: keys with values of the right types, within their bounds.

    Raises:
        InputError: for values that are not, all of them together.
    """

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
    # Its name in a recipe.
    section: ClassVar[str]

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _invalid_keys(type(self), error) from None

    @classmethod
    def checked(cls, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """The values of the right types, and by key what is wrong with the others and with those out of bounds."""
        try:
            return cls(**values).model_dump(include=values.keys()), {}
        except InvalidKeys as error:
            invalid = error
        right, _ = cls.checked({name: value for name, value in values.items() if name not in invalid.by_key})
        return right | invalid.out_of_bounds, invalid.by_key

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: Any) -> Any:
        key = cls.model_fields[info.field_name]
        choices = traits(key).choices
        if choices and not (isinstance(value, str) and value in choices):
            raise ValueError
        return _converted(value, types_of(key))


def traits(key: FieldInfo) -> KeyTraits:
    """What a key of a section has besides type, default and bounds."""
    return key.json_schema_extra if isinstance(key.json_schema_extra, KeyTraits) else KeyTraits()


def types_of(key: FieldInfo) -> tuple[Any, ...]:
    """The types of a key's values: the members of a union, or the one that there is."""
    is_union = typing.get_origin(key.annotation) in (typing.Union, types.UnionType)
    return typing.get_args(key.annotation) if is_union else (key.annotation,)


def default_of(key: FieldInfo) -> Any:
    """A key's default."""
    return key.get_default(call_default_factory=True)


def choices_of(key: FieldInfo) -> list[str]:
    """The words that a key can have as its value; empty where any will do."""
    return list(traits(key).choices) or [
        value for kind in types_of(key) if typing.get_origin(kind) is Literal for value in typing.get_args(kind)
    ]


def describe_type(key: FieldInfo) -> str:
    """What values a key takes, in words: "a whole number or null"."""
    if choices := traits(key).choices:
        return "one of " + ", ".join(map(repr, choices))
    return " or ".join(map(_describe, types_of(key)))


def describe_bounds(key: FieldInfo, value: float | None = None) -> str:
    """The bounds of a number in words, "" where it has none: "at least 1".

    Args:
        value: a number that violates them; only the bound that it violates is told then, where one is enough.
    """
    bounds = {
        name: getattr(item, name) for item in key.metadata for name in ("ge", "gt", "le", "lt") if hasattr(item, name)
    }
    least, most = bounds.get("ge"), bounds.get("le")
    if least is not None and "lt" in bounds:
        return f"in [{least}, {bounds['lt']})"
    if least is not None and most is not None:
        if value is None:
            return f"{least:,} to {most:,}"
        return f"at most {most:,}" if value > most else f"at least {least:,}"
    if least is not None:
        return f"at least {least:,}"
    if "gt" in bounds:
        return f"above {bounds['gt']} and " + (f"at most {most:,}" if most is not None else f"below {bounds['lt']}")
    return ""


def _invalid_keys(section: type[Section], error: ValidationError) -> InvalidKeys:
    """What is wrong in our words, in the order of the keys."""
    found, out_of_bounds = {}, {}
    for item in error.errors(include_url=False):
        name, value = str(item["loc"][0]), item["input"]
        key = section.model_fields.get(name)
        where = f"{section.section}.{name}"
        if key is None:
            found[name] = f"{where} is no key of a recipe"
        elif name in found:  # the other types of a union
            continue
        elif set(item.get("ctx", ())) & {"ge", "gt", "le", "lt"}:
            found[name] = f"{where} must be {describe_bounds(key, value)}, got {value}"
            out_of_bounds[name] = value
        else:
            quote = "; put it in quotes" if isinstance(value, bool) and str in types_of(key) else ""
            found[name] = f"{where} must be {describe_type(key)}, got {value!r}{quote}"
    return InvalidKeys({n: found[n] for n in (*section.model_fields, *found) if n in found}, out_of_bounds)


def _describe(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    return f"a list of {_describe(inner[0])}" if origin is list else TYPE_NAMES.get(kind, str(kind))


def _converted(value: Any, kinds: tuple[Any, ...]) -> Any:
    """A value of YAML as the type that is wanted: 1e-9 and 1 as a number, 1.0 as a whole one, 7 as text, a bare `no`,
    which YAML reads as false, as the word. What is of no such type stays as it is."""
    if isinstance(value, bool):
        return "no" if not value and any("no" in typing.get_args(kind) for kind in kinds) else value
    if isinstance(value, list | tuple) and list[str] in kinds:
        return [_converted(item, (str,)) for item in value]
    if isinstance(value, str) and float in kinds and str not in kinds:
        try:
            return float(value)
        except ValueError:
            return value
    if isinstance(value, float) and value.is_integer() and int in kinds:
        return int(value)
    if isinstance(value, int) and float in kinds and int not in kinds:
        try:
            return float(value)
        except OverflowError:
            return value
    return str(value) if isinstance(value, int | float) and str in kinds else value

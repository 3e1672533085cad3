"""Declaration of recipe keys: the type, default, meaning and bounds of each key are written in one place.

A section of a recipe is a [`Section`] whose fields are made by [`Key`]. Validation, the command's help, the reference
page and the JSON schema all come from these fields.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from ..errors import InputError
from ..files import type_in_words

# The largest count: more than any run reaches, so that it can also mean "never" or "all".
COUNTLESS = 10**12
# Key → value, and section → key → value.
Keys = dict[str, Any]
Sections = dict[str, Keys]


@dataclass(frozen=True)
class KeyTraits:
    """What pydantic does not know about a key: see [`Key`]."""

    choices: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resumable: bool = False
    private: bool = False
    is_path: bool = False

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add the choices to the key's JSON schema."""
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
    """Declare a key of a recipe.

    Args:
        help: what the key means.
        ge, gt, le, lt: generous bounds of a number; a value outside is a typo with which a run would crash or never
            end.
        choices: a registry whose names are the allowed values; without one, use a `Literal` type.
        resumable: whether the key may change when a run is resumed.
        private: whether the key says nothing about the model and is left out of a shared recipe and of a replay, as is
            every key that says where to write or upload.
        is_path: whether the value is a path, of which a shared recipe keeps only the last part.
    """
    traits = KeyTraits(choices if choices is not None else {}, resumable, private, is_path)
    return Field(default, ge=ge, gt=gt, le=le, lt=lt, description=help, json_schema_extra=traits)


class InvalidKeys(InputError):
    """Values that are not allowed.

    Attributes:
        by_key: key → what is wrong.
        out_of_bounds: key → value, for values of the right type.
    """

    def __init__(self, by_key: dict[str, str], out_of_bounds: Keys):
        super().__init__("\n".join(by_key.values()))
        self.by_key, self.out_of_bounds = by_key, out_of_bounds


class Section(BaseModel):
    """A section of a recipe: keys with values of the right types, within their bounds.

    Raises:
        InputError: values are invalid; the message lists all of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
    section: ClassVar[str]  # its name in a recipe

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _invalid_keys(type(self), error) from None

    @classmethod
    def checked(cls, values: Keys) -> tuple[Keys, dict[str, str]]:
        """The values of the right types, and key → error for the others and for those out of bounds."""
        try:
            return cls(**values).model_dump(include=set(values)), {}
        except InvalidKeys as error:
            invalid = error
        right, _ = cls.checked({name: value for name, value in values.items() if name not in invalid.by_key})
        return right | invalid.out_of_bounds, invalid.by_key

    # In place of a deprecated method of pydantic.
    def validate(self) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Errors for keys of this section that conflict, although each is valid by itself."""
        return []

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: Any, info: Any) -> Any:
        key = cls.model_fields[info.field_name]
        choices = traits(key).choices
        if choices and not (isinstance(value, str) and value in choices):
            raise ValueError
        return _converted(value, types_of(key))


def traits(key: FieldInfo) -> KeyTraits:
    """The properties of a key besides type, default and bounds."""
    return key.json_schema_extra if isinstance(key.json_schema_extra, KeyTraits) else KeyTraits()


def types_of(key: FieldInfo) -> tuple[Any, ...]:
    """The types of a key's values: the members of a union, or its only type."""
    is_union = typing.get_origin(key.annotation) in (typing.Union, types.UnionType)
    return typing.get_args(key.annotation) if is_union else (key.annotation,)


def describe_type(key: FieldInfo) -> str:
    """The values that a key takes, in words: "a whole number or null"."""
    if choices := traits(key).choices:
        return "one of " + ", ".join(map(repr, choices))
    return type_in_words(key.annotation)


def describe_bounds(key: FieldInfo, value: float | None = None) -> str:
    """The bounds of a number in words, "" where it has none: "at least 1".

    Args:
        value: a number outside the bounds; only the bound that it violates is described, if one is enough.
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
    """pydantic's errors in our words, in the order of the keys."""
    found: dict[str, str] = {}
    out_of_bounds: Keys = {}
    for item in error.errors(include_url=False):
        name, value = str(item["loc"][0]), item["input"]
        key = section.model_fields.get(name)
        where = f"{section.section}.{name}"
        if key is None:
            found[name] = f"{where} is not a key of a recipe"
        elif name in found:  # another type of a union
            continue
        elif set(item.get("ctx", ())) & {"ge", "gt", "le", "lt"}:
            found[name] = f"{where} must be {describe_bounds(key, value)}, got {value}"
            out_of_bounds[name] = value
        else:
            quote = "; put it in quotes" if isinstance(value, bool) and str in types_of(key) else ""
            found[name] = f"{where} must be {describe_type(key)}, got {value!r}{quote}"
    return InvalidKeys({n: found[n] for n in (*section.model_fields, *found) if n in found}, out_of_bounds)


def _converted(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Convert a YAML value to one of the expected types if possible; otherwise leave it unchanged.

    1e-9 and 1 can become a number, 1.0 a whole number, 7 text, and a bare `no`, which YAML reads as false, that word.
    """
    kind = typing.cast("type[Any]", type(value))
    if kind is bool:
        return "no" if not value and any("no" in typing.get_args(kind) for kind in kinds) else value
    if kind in (list, tuple) and list[str] in kinds:
        return [_converted(item, (str,)) for item in value]
    if kind is float and value.is_integer() and int in kinds:
        return int(value)
    if kind in (str, int) and kind not in kinds and float in kinds:
        try:
            return float(value)
        except (ValueError, OverflowError):
            return value
    return str(value) if kind in (int, float) and str in kinds else value

"""JSON that an earlier run stored in a folder, which anyone may have edited since: its values are checked."""

import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import InputError, reason


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: where the file cannot be read, or holds anything else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} holds {_shown(content)}, not keys with values.")
    return content


def check_types(path: Path, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raise an [`InputError`] that names the file and all values of a wrong type, and all that are missing."""
    if errors := type_errors(values, kinds):
        raise InputError.of([f"{path}: {error}." for error in errors])


def type_errors(values: Mapping[str, Any], kinds: Mapping[str, Any], optional: bool = False) -> list[str]:
    """What is wrong with the values of a JSON object.

    Args:
        kinds: key → type, such as `int`, `dict[str, float]` or `str | None`; what has no type here may be anything.
        optional: whether keys may be missing.
    """
    errors = [] if optional else [f"{key} is missing" for key in kinds if key not in values]
    return errors + [
        f"{key} is {_shown(values[key])}, not {_described(kind)}"
        for key, kind in kinds.items()
        if key in values and not has_type(values[key], kind)
    ]


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is of a type. Whole numbers are numbers; true and false are neither."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(has_type(value, choice) for choice in inner)
    if origin is list:
        return isinstance(value, list) and all(has_type(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(has_type(item, inner[1]) for item in value.values())
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, int | float if kind is float else kind)


def _described(kind: Any) -> str:
    """A type in words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_described, inner))
    if origin is list:
        return f"a list, each {_described(inner[0])}"
    if origin is dict:
        return f"keys with values, each {_described(inner[1])}"
    names = {
        int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null",
        dict: "keys with values", list: "a list",
    }  # fmt: skip
    return names.get(kind, str(kind))


def _shown(value: Any) -> str:
    """A value as it stands in JSON, in a few characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"

"""Names of files in place of paths, which mean nothing on another machine and may tell of this one."""

import os
import re
from pathlib import Path
from typing import Any

# Fields of a source of text whose values are files.
PATH_FIELDS = {"file", "source", "target"}


def file_names(value: Any, is_path: bool = False) -> Any:
    """A recipe's value with the last part of each path.

    Args:
        is_path: whether text in it names a file; otherwise what looks like a path, or is one here, is taken for one.
    """
    if isinstance(value, dict):
        return {name: file_names(entry, name in PATH_FIELDS) for name, entry in value.items()}
    if isinstance(value, list):
        return [file_names(entry, is_path) for entry in value]
    if not isinstance(value, str):
        return value
    looks_like_path = os.path.isabs(value) or value.startswith((".", "~")) or os.path.exists(value)
    return Path(value).name if is_path or looks_like_path else value


def hub_id(name: str | None) -> str | None:
    """A name of a model, if it is one of the Hub: not a path, and nothing that lies here."""
    is_id = name and re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name) and not Path(name).exists()
    # Of an option's own type, YAML would write the type.
    return str(name) if is_id else None

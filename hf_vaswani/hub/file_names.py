"""File names in place of paths, which mean nothing on another machine and may give away details of this one."""

import os
import re
from pathlib import Path
from typing import Any

# Fields of a source of text whose values are files.
PATH_FIELDS = {"file", "source", "target"}


def file_names(value: Any, is_path: bool = False) -> Any:
    """A recipe's value, with each path reduced to its last part.

    Args:
        is_path: whether any text in it names a file; otherwise only what looks like a path, or exists here, counts
            as one.
    """
    if isinstance(value, dict):
        # The names of a mixture may be files, too.
        return {file_names(name): file_names(entry, name in PATH_FIELDS) for name, entry in value.items()}
    if isinstance(value, list):
        return [file_names(entry, is_path) for entry in value]
    if not isinstance(value, str):
        return value
    looks_like_path = os.path.isabs(value) or value.startswith((".", "~")) or os.path.exists(value)
    return Path(value).name if is_path or looks_like_path else value


def hub_id(name: str | None) -> str | None:
    """A model's name, if it is an id on the Hub: neither a path nor anything that exists here."""
    # A plain string: of an option's own string type, YAML would write the type, too.
    return str(name) if name and is_hub_id(name) and not Path(name).exists() else None


def is_hub_id(name: str) -> bool:
    """Whether a name has the form of an id on the Hub."""
    return bool(re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name))

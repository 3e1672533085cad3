"""The reference of recipe keys, made from their declarations: tables for the documentation, and the JSON schema."""

import json
import re
from collections.abc import Iterator
from typing import Any

from ...configuration.keys import Section, describe_bounds, describe_type
from ...data.tokenizers.arguments import as_option
from .recipe import SECTIONS


def key_tables() -> str:
    """A Markdown table of the keys of each section, for the documentation."""
    return "\n".join(_table_lines())


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe."""
    sections = {name: cls.model_json_schema() for name, cls in SECTIONS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A recipe of hf_vaswani",
        "type": "object",
        "properties": sections,
        "additionalProperties": False,
    }


def schema_text() -> str:
    """The content of `recipe.schema.json`."""
    return json.dumps(recipe_schema(), indent=1, ensure_ascii=False) + "\n"


def _table_lines() -> Iterator[str]:
    for section, cls in SECTIONS.items():
        yield f"## {section}\n\n{cls.__doc__}\n"
        yield from _rows(cls)


def _rows(cls: type[Section]) -> Iterator[str]:
    """The table of a section's keys."""
    yield "| key | meaning | values | default |\n|---|---|---|---|"
    for name, key in cls.model_fields.items():
        kind = describe_type(key).removesuffix(" or null")
        values = " ".join(filter(None, [kind, describe_bounds(key)]))
        shown = "" if key.default in (None, [], {}) else f"`{as_option(key.default)}`"
        mark = " ↻" if key.json_schema_extra.resumable else ""
        yield f"| `{name}`{mark} | {_cell(key.description)} | {_cell(values)} | {shown} |"
    yield ""


def _cell(text: str) -> str:
    """Text escaped for a table cell."""
    return re.sub(r"([\\|*_<>\[\]{}])", r"\\\1", text)

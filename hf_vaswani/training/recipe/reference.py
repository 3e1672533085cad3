"""Reference of recipe keys: the command's help, tables for the documentation, and the JSON schema for editors."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from ...configuration.keys import choices_of, describe_bounds, describe_type
from ...data.tokenizers.arguments import as_option
from .recipe import SECTIONS

NAME_COLUMN = 30


def describe_keys(width: int = 119) -> str:
    """All keys of a recipe with meanings, choices and defaults, for the command's help, `width` characters wide."""
    lines = ["recipe keys, each also an option (--max_steps 1000 or --training.max_steps 1000):"]
    for section, cls in SECTIONS.items():
        lines += ["", f"{section}: {cls.__doc__}"]
        for name, key in cls.model_fields.items():
            lines += _entry(name, key, width)
    return "\n".join(lines)


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
        yield f"## {section}\n\n{cls.__doc__}\n\n| key | meaning | values | default |\n|---|---|---|---|"
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


def _entry(name: str, key: FieldInfo, width: int) -> list[str]:
    """The lines of a key: its name, and beside it what it means."""
    choices = choices_of(key)
    notes = ["one of " + ", ".join(choices)] if choices else []
    notes += [f"default: {as_option(key.default)}"] if key.default not in (None, [], {}) else []
    text = key.description + (f" ({'; '.join(notes)})" if notes else "")
    first = f"  {name} ".ljust(NAME_COLUMN)
    lines = textwrap.wrap(text, max(width - NAME_COLUMN, 20), break_long_words=False, break_on_hyphens=False)
    indented = [" " * NAME_COLUMN + line for line in lines]
    return [first.rstrip(), *indented] if len(first) > NAME_COLUMN else [first + lines[0], *indented[1:]]

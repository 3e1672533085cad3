"""The reference of recipe keys, made from their declarations: tables for the documentation, the JSON schema, and from
the latter, the help of `hf-vaswani train`, since the declarations need torch and transformers, which take seconds to
import.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from ...configuration.keys import Section, describe_bounds, describe_type
from ...data.tokenizers.arguments import as_option
from .bundled_recipes import FOLDER, SCHEMA_FILE

NAME_COLUMN = 30


def key_tables() -> str:
    """A Markdown table of the keys of each section, for the documentation."""
    return "\n".join(_table_lines())


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe."""
    from .recipe import SECTIONS

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
    from .recipe import SECTIONS

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


def describe_keys(width: int = 119) -> str:
    """All keys of a recipe, with meanings, choices and defaults, as text for a command's help."""
    schema = json.loads((FOLDER / SCHEMA_FILE).read_text(encoding="utf-8"))
    lines = ["recipe keys, each also an option (--max_steps 1000 or --training.max_steps 1000):"]
    for name, section in schema["properties"].items():
        lines += ["", f"{name}: {section['description']}"]
        lines += [line for key, value in section["properties"].items() for line in _entry(key, value, width)]
    return "\n".join(lines)


def _entry(name: str, key: dict[str, Any], width: int) -> list[str]:
    """The lines about a key: its name, with its meaning next to it."""
    choices = [choice for kind in (key, *key.get("anyOf", ())) for choice in kind.get("enum", ())]
    notes = ["one of " + ", ".join(choices)] if choices else []
    notes += [f"default: {as_option(key['default'])}"] if key["default"] not in (None, [], {}) else []
    text = key["description"] + (f" ({'; '.join(notes)})" if notes else "")
    first = f"  {name} ".ljust(NAME_COLUMN)
    lines = textwrap.wrap(text, max(width - NAME_COLUMN, 20), break_long_words=False, break_on_hyphens=False)
    indented = [" " * NAME_COLUMN + line for line in lines]
    return [first.rstrip(), *indented] if len(first) > NAME_COLUMN else [first + lines[0], *indented[1:]]

"""The recipe keys in the help of `hf-vaswani train`, from the JSON schema that comes with the package.

The schema is made from the keys' declarations, but these need torch and transformers, which take seconds to import.
"""

import json
import textwrap
from typing import Any

from ...data.tokenizers.arguments import as_option
from .bundled_recipes import FOLDER, SCHEMA_FILE

NAME_COLUMN = 30


def describe_keys(width: int = 119) -> str:
    """All keys of a recipe, with meanings, choices and defaults, as text `width` characters wide for a command's
    help."""
    schema = json.loads((FOLDER / SCHEMA_FILE).read_text(encoding="utf-8"))
    lines = ["recipe keys, each also an option (--max_steps 1000 or --training.max_steps 1000):"]
    for name, section in schema["properties"].items():
        if "properties" in section:
            lines += ["", f"{name}: {section['description']}", *_entries(section, width)]
            continue
        described = f"{name}: {section['description']} Options: --{name}.NAME.KEY or --NAME.KEY."
        lines += ["", *textwrap.wrap(described, max(width, 50))]
        for kind, keys in section["additionalProperties"]["properties"].items():
            lines += ["", *textwrap.wrap(f"{name}.NAME.{kind}: {keys['description']}", max(width, 50))]
            lines += [] if "$ref" in str(keys) else _entries(keys, width)
    return "\n".join(lines)


def _entries(section: dict[str, Any], width: int) -> list[str]:
    return [line for key, value in section["properties"].items() for line in _entry(key, value, width)]


def _entry(name: str, key: dict[str, Any], width: int) -> list[str]:
    """The lines about a key: its name, with its meaning beside it."""
    choices = [choice for kind in (key, *key.get("anyOf", ())) for choice in kind.get("enum", ())]
    notes = ["one of " + ", ".join(choices)] if choices else []
    notes += [f"default: {as_option(key['default'])}"] if key["default"] not in (None, [], {}) else []
    text = key["description"] + (f" ({'; '.join(notes)})" if notes else "")
    first = f"  {name} ".ljust(NAME_COLUMN)
    lines = textwrap.wrap(text, max(width - NAME_COLUMN, 20), break_long_words=False, break_on_hyphens=False)
    indented = [" " * NAME_COLUMN + line for line in lines]
    return [first.rstrip(), *indented] if len(first) > NAME_COLUMN else [first + lines[0], *indented[1:]]

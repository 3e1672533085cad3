"""Help for the keys of a recipe, from the descriptions that stand beside the keys where they are defined."""

import dataclasses
import inspect
import re
import textwrap
import types
import typing
from typing import Any, Literal

from ...core.configuration_vaswani import CHOICES, VaswaniConfig
from ...data.tokenizers.arguments import as_option
from ...presets import PRESETS, TABLE_3
from .recipe import SECTIONS, model_keys

NAME_COLUMN = 30
ENTRY = re.compile(r" {4}(?P<names>\w+(?:, \w+)*) \(.*?\): (?P<text>.*)")
# "et al. 2016" and "section 3. …" are no ends: what follows begins with a capital letter or a name in the code.
SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")


def describe_keys(width: int = 119) -> str:
    """All keys of a recipe with their meanings, choices and defaults, for the command's help.

    Args:
        width: characters of a line.
    """
    lines = ["recipe keys, each also an option (--max_steps 1000 or --training.max_steps 1000):"]
    for section, cls in SECTIONS.items():
        lines += ["", f"{section}: {cls.__doc__}"]
        for item in dataclasses.fields(cls):
            default = item.default if item.default is not dataclasses.MISSING else item.default_factory()
            choices = _choices(typing.get_type_hints(cls)[item.name])
            lines += _entry(item.name, item.metadata["help"], choices, default, width)
    lines += ["", "model: The architecture; the defaults are the paper's base model."]
    defaults = {field.name: field.default for field in dataclasses.fields(VaswaniConfig)}
    meanings = {"preset": _preset_meaning(), **field_descriptions(VaswaniConfig)}
    for name in model_keys():
        lines += _entry(name, meanings[name], CHOICES.get(name, ()), defaults.get(name), width)
    return "\n".join(lines)


def field_descriptions(config: type) -> dict[str, str]:
    """Field → the first sentence of its description in the docstring's section Args, and what it defaults to.

    The docstring is where users of transformers look for the fields of a config, so it is where they are described.
    """
    _, _, section = inspect.cleandoc(config.__doc__ or "").partition("\nArgs:\n")
    entries: list[tuple[list[str], list[str]]] = []
    for line in section.splitlines():
        if entry := ENTRY.fullmatch(line):
            entries.append((entry["names"].split(", "), [entry["text"]]))
        elif line.startswith(" " * 8):
            entries[-1][1].append(line.strip())
        else:
            break
    return {name: _short(" ".join(lines)) for names, lines in entries for name in names}


def _short(description: str) -> str:
    first, *rest = SENTENCE_END.split(description.replace("`", ""))
    return " ".join([first, *(sentence for sentence in rest if sentence.startswith("Default"))]).rstrip(".")


def _preset_meaning() -> str:
    names = [name for name in PRESETS if name not in TABLE_3]
    row = next(iter(TABLE_3))
    return f"a named architecture, which the other keys change: {', '.join(names)}, or a row of Table 3, such as {row}"


def _entry(name: str, meaning: str, choices: typing.Sequence[str], default: Any, width: int) -> list[str]:
    """The lines of a key: its name, and beside it what it means."""
    notes = ["one of " + ", ".join(choices)] if choices else []
    notes += [f"default: {as_option(default)}"] if default not in (None, [], {}) else []
    text = meaning + (f" ({'; '.join(notes)})" if notes else "")
    first = f"  {name} ".ljust(NAME_COLUMN)
    lines = textwrap.wrap(text, max(width - NAME_COLUMN, 20), break_long_words=False, break_on_hyphens=False)
    indented = [" " * NAME_COLUMN + line for line in lines]
    return [first.rstrip(), *indented] if len(first) > NAME_COLUMN else [first + lines[0], *indented[1:]]


def _choices(kind: Any) -> list[str]:
    """The values that a key can have, where they are few words."""
    kinds = [kind, *typing.get_args(kind)] if typing.get_origin(kind) in (typing.Union, types.UnionType) else [kind]
    return [choice for entry in kinds if typing.get_origin(entry) is Literal for choice in typing.get_args(entry)]

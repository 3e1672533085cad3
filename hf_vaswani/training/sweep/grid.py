"""The combinations of a sweep: the product of lists of values, named rows, or both."""

import hashlib
import itertools
import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from ...configuration.yaml_reader import read_yaml

# Lengths of a combination's name, at most, and of the digest that is added if the name does not say everything.
LONGEST_NAME, DIGEST_LENGTH = 80, 6
NAME = re.compile(r"\w([\w.+-]*\w)?")
WITHOUT_GRID = "recipe"
OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True)
class Combination:
    """A variant of a recipe.

    Attributes:
        name: the first part of the names of its runs.
        values: key, with its section if it needs one → text as on the command line.
    """

    name: str
    values: dict[str, str]

    @property
    def options(self) -> list[str]:
        """The values as command-line options."""
        return [f"--{key}={text}" for key, text in self.values.items()]


def combinations(rows: dict[str, dict[str, str]], grid: dict[str, list[str]]) -> list[Combination]:
    """Every row with every combination of the grid, the last key changing fastest.

    Args:
        rows: name → key → text; may be empty.
        grid: key → texts; may be empty.
    """
    found = []
    for name, values in rows.items() or [("", {})]:
        for texts in itertools.product(*grid.values()):
            chosen = dict(zip(grid, texts))
            found.append(Combination(combination_name(name, chosen), {**values, **chosen}))
    return found


def combination_name(row: str, chosen: dict[str, str]) -> str:
    """The name of a combination, which is also valid in file names: `learning_rate-0.001_dropout-0.1`.

    If a value has other characters, or the name is too long, a digest is added to tell it from others.
    """
    full = "_".join([*([row] if row else []), *(f"{key.rpartition('.')[2]}-{text}" for key, text in chosen.items())])
    short = re.sub(r"[^\w.+-]+", "-", full)[:LONGEST_NAME].strip("-.")
    if short == full:
        return short or WITHOUT_GRID
    return f"{short}-{hashlib.blake2b(full.encode('utf-8', 'replace')).hexdigest()[:DIGEST_LENGTH]}"


def split_values(text: str) -> list[str]:
    """Split a text such as `a,b,[c,d],"e,f"` at its commas, but not at those inside brackets, braces and quotes.

    Quotes around a whole value are removed.
    """
    values, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES and not text[start:place].strip(" \t[{,:"):
            quote = character
        elif character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
        elif character == "," and depth <= 0:
            values.append(text[start:place])
            start = place + 1
    return [_unquoted(value.strip()) for value in [*values, text[start:]]]


def as_text(value: Any) -> str:
    """A YAML value as its text on the command line."""
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] in QUOTES and text[0] == text[-1]:
        try:
            return str(read_yaml(text))
        except yaml.YAMLError:
            return text
    return text

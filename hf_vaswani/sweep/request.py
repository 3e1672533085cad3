"""What a sweep is asked to do, on the command line or in a file."""

import json
from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ..configuration.yaml_reader import read_yaml
from ..errors import InputError
from ..files import option_errors, path_error, type_errors
from ..training.recipe.bundled_recipes import FOLDER
from ..training.recipe.recipe import recipe_keys

# The keys of a sweep file that are not recipe keys, with the types of their values.
OWN_KEYS = {
    "recipe": str, "output_dir": str, "rows": dict[str, dict | None], "grid": dict[str, list],
    "search": dict[str, list | str], "trials": int, "seeds": list[int],
}  # fmt: skip
Texts = dict[str, list[str]]  # key → values as on the command line


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as it was written; its keys and values are not checked yet.

    Attributes:
        rows: name → key → value as on the command line.
        search: key → `low..high`, or several values; in place of rows and a grid.
        options: further recipe keys, common to all runs, as on the command line.
    """

    recipe: str
    output_dir: str | None = None
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    grid: Texts = field(default_factory=dict)
    search: Texts = field(default_factory=dict)
    trials: int | None = None
    seeds: tuple[str, ...] = ("1",)
    options: tuple[str, ...] = ()


def read_request(given: Namespace, errors: list[str]) -> SweepRequest:
    """The request on a command line, which takes precedence over a sweep file, if it names one.

    Errors are added to the list; [`InputError`] if the sweep file cannot be used.
    """
    for text in (*given.grid, *given.search, *given.options):
        errors += option_errors({"key": text})
    path = sweep_file(given.recipe)
    request = parse_file(path) if path else SweepRequest(given.recipe)
    return replace(
        request,
        output_dir=given.output_dir or request.output_dir,
        grid=request.grid | _parse_lists("--grid", given.grid, errors),
        search=request.search | _parse_lists("--search", given.search, errors),
        trials=given.trials or request.trials,
        seeds=request.seeds if given.seeds is None else tuple(dict.fromkeys(split_values(given.seeds) or [""])),
        options=(*request.options, *given.options),
    )


def sweep_file(source: str) -> Path | None:
    """The sweep file at a path or with a bundled name; `None` if that is a recipe, or nothing."""
    path = Path(source)
    if path_error(source) or not path.is_file():
        return bundled_sweeps().get(source)
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):  # reported when it is read as a recipe
        return None
    return path if isinstance(content, dict) and (OWN_KEYS.keys() - {"output_dir"}) & content.keys() else None


def bundled_sweeps() -> dict[str, Path]:
    """Name → file of each bundled sweep."""
    return {path.stem: path for path in sorted((FOLDER / "sweeps").glob("*.yaml"))}


def parse_file(path: Path) -> SweepRequest:
    """Read a sweep file; an [`InputError`] says which of its own keys have wrong values."""
    content = read_yaml(path.read_text(encoding="utf-8"))
    errors = type_errors(content, OWN_KEYS, optional=True)
    if errors or "recipe" not in content:
        missing = "recipe is missing: the name of a recipe, or its file"
        raise InputError.of([f"{path}: {error}." for error in errors or [missing]])
    own = {key: value for key, value in content.items() if key in OWN_KEYS}
    for key in own.keys() & {"grid", "search"}:
        own[key] = {
            name: list(map(make_text, values)) if isinstance(values, list) else [values]
            for name, values in own[key].items()
        }
    own["rows"] = {row: _make_texts(values or {}) for row, values in own.get("rows", {}).items()}
    own["seeds"] = tuple(map(str, own.get("seeds", [1])))
    further: dict[str, Any] = {key: value for key, value in content.items() if key not in own}
    for section in further.keys() & recipe_keys():
        further |= {f"{section}.{name}": value for name, value in further.pop(section).items()}
    return SweepRequest(**own, options=tuple(f"--{key}={text}" for key, text in _make_texts(further).items()))


def split_values(text: str) -> list[str]:
    """Split a text such as `a,b,[c,d],"e,f"` at its commas, but not at those inside brackets, braces and quotes.

    There are no values if it is not a YAML list without its brackets.
    """
    try:
        nodes = yaml.compose(f"[{text}]", Loader=yaml.SafeLoader).value
    except (yaml.YAMLError, AttributeError):
        return []
    # In the text itself, places are one less, as it has no bracket in front.
    places = [slice(node.start_mark.index - 1, node.end_mark.index - 1) for node in nodes]
    return [node.value if isinstance(node.value, str) else text[place] for node, place in zip(nodes, places)]


def make_text(value: Any) -> str:
    """A YAML value as its text on the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _make_texts(values: dict[Any, Any]) -> dict[str, str]:
    return {str(key): make_text(value) for key, value in values.items()}


def _parse_lists(option: str, texts: list[str], errors: list[str]) -> Texts:
    """The values of texts `key=value,value`, by key."""
    found = {}
    for text in texts:
        key, _, values = text.partition("=")
        split = split_values(values)
        if key and split and "" not in split:
            found[key.removeprefix("--").replace("-", "_")] = split
        else:
            errors.append(f"{option} {text}: write it as {option} key=value,value; quote special characters")
    return found

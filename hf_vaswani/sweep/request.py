"""What a sweep is asked to do, on the command line or in a file."""

import json
from collections.abc import Iterable
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


def read_request(
    source: str,
    errors: list[str],
    output_dir: str | None = None,
    grids: Iterable[str] = (),
    searches: Iterable[str] = (),
    trials: int | None = None,
    seeds: str | None = None,
    options: Iterable[str] = (),
) -> SweepRequest:
    """The request on a command line, which takes precedence over a sweep file, if `source` is one.

    Args:
        errors: the list to which all errors are added.
        grids, searches: texts `key=value,value`.

    Raises:
        InputError: the sweep file cannot be used.
    """
    for text in (*grids, *searches, *options):
        errors += option_errors({"key": text})
    path = sweep_file(source)
    request = parse_file(path) if path else SweepRequest(source)
    return replace(
        request,
        output_dir=output_dir or request.output_dir,
        grid=request.grid | _parse_lists("--grid", grids, errors),
        search=request.search | _parse_lists("--search", searches, errors),
        trials=trials or request.trials,
        seeds=request.seeds if seeds is None else tuple(dict.fromkeys(split_values(seeds) or [""])),
        options=(*request.options, *options),
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
    """Read a sweep file.

    Raises:
        InputError: its own keys have wrong values, or it names no recipe.
    """
    content = read_yaml(path.read_text(encoding="utf-8"))
    errors = type_errors(content, OWN_KEYS, optional=True)
    if errors or "recipe" not in content:
        missing = "recipe is missing: the name of a recipe, or its file"
        raise InputError.of([f"{path}: {error}." for error in errors or [missing]])
    own = {key: value for key, value in content.items() if key in OWN_KEYS}
    further: dict[str, Any] = {}
    for key, value in content.items():
        if key in recipe_keys() and isinstance(value, dict):
            further |= {f"{key}.{name}": inner for name, inner in value.items()}
        elif key not in own:
            further[key] = value
    for key in own.keys() & {"grid", "search"}:
        own[key] = {name: [make_text(value) for value in values] if isinstance(values, list) else [values]
                    for name, values in own[key].items()}  # fmt: skip
    own["rows"] = {name: _make_texts(row or {}) for name, row in own.get("rows", {}).items()}
    own["seeds"] = tuple(map(str, own.get("seeds", [1])))
    return SweepRequest(**own, options=tuple(f"--{key}={text}" for key, text in _make_texts(further).items()))


def split_values(text: str) -> list[str]:
    """Split a text such as `a,b,[c,d],"e,f"` at its commas, but not at those inside brackets, braces and quotes.

    Returns:
        The values; none if the text is not a YAML list without its brackets.
    """
    try:
        nodes = yaml.compose(f"[{text}]", Loader=yaml.SafeLoader).value
    except (yaml.YAMLError, AttributeError):
        return []
    # In the text itself, places are one less, as it has no bracket in front.
    return [
        node.value if isinstance(node, yaml.ScalarNode) else text[node.start_mark.index - 1 : node.end_mark.index - 1]
        for node in nodes
    ]


def make_text(value: Any) -> str:
    """A YAML value as its text on the command line."""
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _make_texts(values: dict[Any, Any]) -> dict[str, str]:
    return {str(key): make_text(value) for key, value in values.items()}


def _parse_lists(option: str, texts: Iterable[str], errors: list[str]) -> Texts:
    """The values of texts `key=value,value`, by key."""
    found = {}
    for text in texts:
        key, _, values = text.partition("=")
        found[key.removeprefix("--").replace("-", "_")] = split = split_values(values)
        if not key or not split or "" in split:
            errors.append(
                f"{option} {text}: write it as {option} key=value,value; quote values with special characters"
            )
    return found

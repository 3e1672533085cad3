"""The request for a sweep, on the command line or in a file: a recipe; rows and a grid, or a space to search; seeds;
further recipe keys."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from ...configuration.name_hints import hint
from ...configuration.yaml_reader import read_yaml
from ...errors import InputError, reason
from ...files import option_errors, path_error
from ..recipe.bundled_recipes import FOLDER
from ..recipe.recipe import recipe_keys
from .grid import NAME, as_text, split_values
from .space import Space, parse_space

SWEEPS = FOLDER / "sweeps"
# Keys of a sweep file that are not recipe keys.
OWN_KEYS = ("recipe", "grid", "rows", "search", "trials", "seeds", "output_dir")
DEFAULT_SEEDS = (1,)
DEFAULT_TRIALS = 20


@dataclass(frozen=True)
class SweepRequest:
    """A sweep as it was written, its keys and values not checked yet.

    Attributes:
        recipe: a file, or the name of a bundled recipe.
        output_dir: `None` if it is missing.
        rows: name → key → text.
        grid: key → texts.
        space: the space to search, in place of rows and a grid.
        trials: the number of trials of the search.
        seeds: the seeds that each combination is trained with.
        options: further recipe keys, common to all runs, as on the command line.
    """

    recipe: str
    output_dir: str | None = None
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    grid: dict[str, list[str]] = field(default_factory=dict)
    space: Space = field(default_factory=dict)
    trials: int = DEFAULT_TRIALS
    seeds: tuple[int, ...] = DEFAULT_SEEDS
    options: tuple[str, ...] = ()


def read_request(
    source: str,
    output_dir: str | None,
    grids: list[str],
    seeds: str | None,
    options: list[str],
    errors: list[str],
    *,
    searches: Sequence[str] = (),
    trials: int | None = None,
) -> SweepRequest:
    """The request on a command line, which takes precedence over a sweep file.

    Args:
        source: a recipe, or a sweep file.
        grids: texts `key=value,value`.
        seeds: numbers separated by commas.
        options: further recipe keys.
        errors: the list to which the errors of all parts are added.
        searches: texts `key=low..high` or `key=value,value`.
        trials: the number of trials of the search.

    Raises:
        InputError: the sweep file names no recipe, or an option is not UTF-8.
    """
    path = sweep_file(source)
    request = parse_file(path, errors) if path else SweepRequest(source)
    not_utf8 = [line for text in grids for line in option_errors({"grid": text})]
    not_utf8 += [line for text in searches for line in option_errors({"search": text})]
    not_utf8 += [line for text in options for line in option_errors({"key": text})]
    if not_utf8:
        raise InputError.of([*errors, *not_utf8])
    grid = {key: split_values(text) for key, text in _keyed("--grid", "value,value", grids, errors).items()}
    space = parse_space(_keyed("--search", "low..high", searches, errors), "--search", errors)
    return replace(
        request,
        output_dir=output_dir or request.output_dir,
        grid={**request.grid, **grid},
        space={**request.space, **space},
        trials=request.trials if trials is None else trials,
        seeds=_seeds(split_values(seeds), "--seeds", errors) if seeds is not None else request.seeds,
        options=(*request.options, *options),
    )


def _keyed(option: str, form: str, texts: Sequence[str], errors: list[str]) -> dict[str, str]:
    """The values of texts `key=…`, by key. Invalid texts become errors, and are left out.

    Args:
        form: what belongs after the `=`, for the errors.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.removeprefix("--").replace("-", "_")
        if not equals or not key:
            errors.append(f"{option} {text}: write it as {option} key={form}")
        elif key in found:
            errors.append(f"{option} {key} is given twice: list all of its values in one option")
        else:
            found[key] = value
    return found


def sweep_file(source: str) -> Path | None:
    """The sweep file at a path or with a bundled name; `None` if that is a recipe, or nothing."""
    if path_error(source):
        return None
    path = Path(source)
    if path.is_file():
        try:
            content = read_yaml(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError):  # reported when it is read as a recipe
            return None
        own = {"recipe", "grid", "rows", "search", "seeds"}
        return path if isinstance(content, dict) and own & content.keys() else None
    return bundled_sweeps().get(source)


def bundled_sweeps() -> dict[str, Path]:
    """Name → file of each bundled sweep."""
    return {path.stem: path for path in sorted(SWEEPS.glob("*.yaml"))}


def parse_file(path: Path, errors: list[str]) -> SweepRequest:
    """Read a sweep file. Invalid entries become errors, and are left out.

    Raises:
        InputError: the file is not YAML, or names no recipe.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a YAML file: {reason(error)}") from None
    recipe = content.get("recipe")
    if not isinstance(recipe, str):
        close = next((key for key in content if key != "recipe" and hint(str(key), {"recipe": "recipe"})), None)
        meant = f" Is {close!r} a typo?" if close else ""
        raise InputError(f"{path}: recipe is missing: the name of a recipe, or of its file.{meant}")
    grid = _mapping(path, "grid", content, errors)
    for key, values in grid.items():
        if not isinstance(values, list):
            errors.append(f"{path}: grid: {key} needs a list of values, such as [1, 2], got {values!r}")
    rows = _mapping(path, "rows", content, errors)
    for name, row in rows.items():
        if not NAME.fullmatch(str(name)):
            errors.append(
                f"{path}: rows: {name!r} cannot be the name of a row: use letters and digits, with . _ + - only in "
                "between"
            )
        if not isinstance(row or {}, dict):
            errors.append(f"{path}: rows: {name} needs keys and values, got {row!r}")
    space = _mapping(path, "search", content, errors)
    texts = {
        str(key): [as_text(value) for value in values] if isinstance(values, list) else as_text(values)
        for key, values in space.items()
    }
    trials = content.get("trials", DEFAULT_TRIALS)
    if type(trials) is not int or trials < 1:
        errors.append(f"{path}: trials must be a whole number of at least 1, got {trials!r}")
        trials = DEFAULT_TRIALS
    if "trials" in content and not space:
        errors.append(f"{path}: trials is the number of combinations of a search: add search, or remove it")
    seeds = content.get("seeds", list(DEFAULT_SEEDS))
    seeds = seeds if isinstance(seeds, list) else split_values(str(seeds))
    output_dir = content.get("output_dir")
    return SweepRequest(
        recipe,
        str(output_dir) if output_dir is not None else None,
        rows={str(name): _texts(row or {}) for name, row in rows.items() if isinstance(row or {}, dict)},
        grid={
            str(key): [as_text(value) for value in values] for key, values in grid.items() if isinstance(values, list)
        },
        space=parse_space(texts, f"{path}: search:", errors),
        trials=trials,
        seeds=_seeds(seeds, f"{path}: seeds", errors),
        options=tuple(f"--{key}={text}" for key, text in _texts(_further(content)).items()),
    )


def _further(content: dict[Any, Any]) -> dict[str, Any]:
    """The recipe keys in a sweep file, given in sections or not."""
    found = {}
    for key, value in content.items():
        if key in recipe_keys() and isinstance(value, dict):
            found |= {f"{key}.{name}": inner for name, inner in value.items()}
        elif key not in OWN_KEYS:
            found[str(key)] = value
    return found


def _mapping(path: Path, key: str, content: dict[str, Any], errors: list[str]) -> dict[Any, Any]:
    value = content.get(key) or {}
    if isinstance(value, dict):
        return value
    errors.append(f"{path}: {key} must map names to values, got {value!r}")
    return {}


def _texts(values: dict[Any, Any]) -> dict[str, str]:
    return {str(key): as_text(value) for key, value in values.items()}


def _seeds(values: list[Any], where: str, errors: list[str]) -> tuple[int, ...]:
    """Seeds as numbers; invalid seeds are added to the errors."""
    texts = [str(value) for value in values]
    wrong = [text for text in texts if not (text.isdecimal() and text.isascii() and len(text) < 11)]
    wrong += [text for text in texts if text not in wrong and int(text) >= 2**32]
    if wrong or not texts:
        errors.append(
            f"{where} must be whole numbers from 0 to {2**32 - 1}, separated by commas, got {', '.join(wrong)!r}"
        )
        return DEFAULT_SEEDS
    numbers = [int(text) for text in texts]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        errors.append(f"{where}: {', '.join(map(str, twice))} given twice")
    return tuple(dict.fromkeys(numbers))

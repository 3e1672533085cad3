"""What a sweep is asked to do, on the command line or in a file, and the runs that this takes."""

import hashlib
import itertools
import json
import math
import re
import statistics
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ..configuration.yaml_reader import read_yaml
from ..errors import InputError
from ..evaluation.seed_bootstrap import Difference
from ..files import collect_errors, option_errors, path_error, type_errors
from ..records.run_report import RunReport, read_report
from ..training.checkpoints.artifacts import RECIPE_FILE, read_results, read_stored
from ..training.publishing.portable_run import shared_recipe
from ..training.recipe.bundled_recipes import FOLDER
from ..training.recipe.recipe import Recipe, load_recipe, recipe_keys, section_of
from ..training.setup.resume import recipe_differences

# The keys of a sweep file that are not recipe keys, with the types of their values.
OWN_KEYS = {
    "recipe": str, "output_dir": str, "rows": dict[str, dict | None], "grid": dict[str, list],
    "search": dict[str, list | str], "trials": int, "seeds": list[int],
}  # fmt: skip
Texts = dict[str, list[str]]  # key → values as on the command line
# Lengths of a combination's name, at most, and of the digest that is added if the name does not say everything.
LONGEST_NAME, DIGEST_LENGTH = 80, 6
BASELINE = "recipe"
# Names of the results of runs: BLEU follows that of a test set.
LOSS, BLEU = "validation loss", " BLEU"
# Keys that a sweep sets itself, in place of which it has --seeds and --output_dir; it uploads nothing.
SET_BY_SWEEP = [("training", name) for name in ("output_dir", "seed", "overwrite", "push_to_hub")]


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


@dataclass
class Run:
    """A training run, with the options of its command; once it has ended, its report, or what went wrong."""

    seed: str
    folder: Path
    recipe: Recipe
    options: list[str]
    report: RunReport | None = None
    error: str | None = "it has not ended"

    def is_finished(self) -> bool:
        """Whether its folder has the results of this very recipe, so that its command would do nothing."""
        if read_results(self.folder).get("recipe") != shared_recipe(self.recipe.to_dict()):
            return False
        stored = self.folder / RECIPE_FILE
        return stored.is_file() and not recipe_differences(read_stored(stored), self.recipe)

    def end(self, error: str | None) -> None:
        """Take in what went wrong, if anything; otherwise, read the report."""
        found = [error] if error else []
        self.report = None if error else collect_errors(found, partial(read_report, self.folder))
        self.error = found[0] if found else None

    @property
    def values(self) -> dict[str, float]:
        """The results by name, such as `"test BLEU"`; none if it has not finished."""
        if not (report := self.report):
            return {}
        values = {name: getattr(report, name) for name in ("parameters", "steps", "minutes")}
        values[LOSS] = report.validation_loss
        for name, test in report.tests.items():
            values |= {f"{name}{BLEU}": test.bleu, f"{name} chrF2": test.chrf2}
        return values


@dataclass
class Row:
    """A variant of a recipe, with its runs and their results.

    Attributes:
        name: the first part of the names of its runs.
        keys: key → value as on the command line.
        differences: by test set, in BLEU from the first row.
    """

    name: str
    keys: dict[str, str]
    runs: list[Run] = field(default_factory=list)
    differences: dict[str, Difference] = field(default_factory=dict)

    @property
    def finished(self) -> list[Run]:
        """The runs that have a report."""
        return [run for run in self.runs if run.report]

    def spread(self, name: str) -> tuple[float, float | None] | None:
        """Mean and sample standard deviation of a value over the finished runs; `None` if one has no such value."""
        values = [run.values.get(name) for run in self.finished]
        if not values or None in values:
            return None
        has_deviation = len(values) > 1 and all(map(math.isfinite, values))
        return statistics.fmean(values), statistics.stdev(values) if has_deviation else None

    def to_json(self, values: list[str]) -> dict[str, Any]:
        """The row in `sweep.json`, with the means and deviations of these values."""
        names = ("seed", "values", "error")
        runs = [{"folder": run.folder.name, **{name: getattr(run, name) for name in names}} for run in self.runs]
        differences = {test: asdict(difference) for test, difference in self.differences.items()}
        spreads = {name: self.spread(name) for name in values}
        return {"name": self.name, "keys": self.keys, "runs": runs, "differences": differences, "spreads": spreads}

    @property
    def full_loss(self) -> float:
        """The mean validation loss; infinite if a run failed, as the others may have been lucky."""
        spread = self.spread(LOSS) if len(self.finished) == len(self.runs) else None
        return spread[0] if spread and math.isfinite(spread[0]) else math.inf

    @property
    def is_named(self) -> bool:
        """Whether it has a name that its values alone do not give it."""
        return self.name not in (BASELINE, combination_name("", self.keys))


def combine(rows: dict[str, dict[str, str]], grid: Texts) -> list[Row]:
    """Every row with every combination of the grid, the last key changing fastest."""
    found = {}
    for row, values in rows.items() or [("", {})]:
        for texts in itertools.product(*grid.values()):
            chosen = dict(zip(grid, texts))
            name = combination_name(row, chosen)
            found[name] = Row(name, {**values, **chosen})
    return list(found.values())


def combination_name(row: str, chosen: dict[str, str]) -> str:
    """The name of a combination, which is also valid in file names: `learning_rate-0.001_dropout-0.1`.

    If a value has other characters, or the name is too long, a digest is added to tell it from others.
    """
    full = "_".join([*([row] if row else []), *(f"{key.rpartition('.')[2]}-{text}" for key, text in chosen.items())])
    short = re.sub(r"[^\w.+-]+", "-", full)[:LONGEST_NAME].strip("-.")
    if short == full:
        return short or BASELINE
    return f"{short}-{hashlib.blake2b(full.encode('utf-8', 'replace')).hexdigest()[:DIGEST_LENGTH]}"


def load_runs(request: SweepRequest, rows: Iterable[Row], errors: list[str]) -> None:
    """Give each row a run with every seed; what is wrong with their recipes is added to the errors."""
    wrong: dict[str, list[str]] = {}
    for row, seed in itertools.product(rows, request.seeds):
        folder = Path(request.output_dir or "sweep", f"{row.name}_seed_{seed}")
        options = [*request.options, *(f"--{key}={text}" for key, text in row.keys.items())]
        options += [f"--training.seed={seed}", f"--training.output_dir={folder}"]
        options += ["--training.overwrite=false", "--training.push_to_hub=false"]
        found = wrong.setdefault(row.name, [])
        if recipe := collect_errors(found, partial(load_recipe, request.recipe, options)):
            row.runs.append(Run(seed, folder, recipe, options))
    common = [error for error in next(iter(wrong.values()), []) if all(error in found for found in wrong.values())]
    errors += common + [f"{name}: {error}" for name, found in wrong.items() for error in found if error not in common]


def key_errors(request: SweepRequest) -> list[str]:
    """Errors for keys that a sweep sets itself, and for those by which a search cannot compare losses."""
    given = [text[2:].partition("=")[0] for text in request.options if text.startswith("--")]
    names = [*given, *request.grid, *request.search, *(key for row in request.rows.values() for key in row)]
    keys = {
        name: (section_of(name.replace("-", "_"), []), name.rpartition(".")[2].replace("-", "_")) for name in names
    }
    errors = [f"{name} is set by the sweep itself" for name, key in keys.items() if key in SET_BY_SWEEP]
    of_tokens = [name for name in request.search if keys[name][0] == "tokenizer" and keys[name][1] != "bpe_dropout"]
    return errors + [f"{name} cannot be searched: losses per token are compared. Use --grid" for name in of_tokens]

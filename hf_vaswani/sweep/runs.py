"""The runs of a sweep: every combination of values with every seed, each with its recipe."""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..files import collect_errors
from ..training.checkpoints.artifacts import read_results
from ..training.publishing.portable_run import shared_recipe
from ..training.recipe.recipe import Recipe, load_recipe, section_of
from ..training.setup.resume import stored_differences
from .request import SweepRequest, Texts

# Lengths of a combination's name, at most, and of the digest that is added if the name does not say everything.
LONGEST_NAME, DIGEST_LENGTH = 80, 6
BASELINE = "recipe"
# Keys that a sweep sets itself, in place of which it has --seeds and --output_dir; it uploads nothing.
SET_BY_SWEEP = [("training", name) for name in ("output_dir", "seed", "overwrite", "push_to_hub")]


@dataclass(frozen=True)
class Combination:
    """A variant of a recipe: the first part of the names of its runs, and key → value as on the command line."""

    name: str
    values: dict[str, str]


@dataclass(frozen=True)
class Run:
    """A training run, with the options of its command."""

    combination: Combination
    seed: str
    folder: Path
    recipe: Recipe
    options: list[str]

    def is_finished(self) -> bool:
        """Whether its folder has the results of this very recipe, so that its command would do nothing."""
        stored = read_results(self.folder).get("recipe")
        return stored == shared_recipe(self.recipe.to_dict()) and not stored_differences(self.recipe)


def combine(rows: dict[str, dict[str, str]], grid: Texts) -> list[Combination]:
    """Every row with every combination of the grid, the last key changing fastest."""
    found = {}
    for row, values in rows.items() or [("", {})]:
        for texts in itertools.product(*grid.values()):
            chosen = dict(zip(grid, texts))
            name = combination_name(row, chosen)
            found[name] = Combination(name, {**values, **chosen})
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


def load_runs(request: SweepRequest, combinations: Iterable[Combination], errors: list[str]) -> list[Run]:
    """Every combination with every seed; what is wrong with their recipes is added to the errors."""
    runs: list[Run] = []
    wrong: dict[str, list[str]] = {}
    for combination, seed in itertools.product(combinations, request.seeds):
        folder = Path(request.output_dir or "sweep", f"{combination.name}_seed_{seed}")
        options = [*request.options, *(f"--{key}={text}" for key, text in combination.values.items())]
        options += [f"--training.seed={seed}", f"--training.output_dir={folder}"]
        options += ["--training.overwrite=false", "--training.push_to_hub=false"]
        found = wrong.setdefault(combination.name, [])
        if recipe := collect_errors(found, partial(load_recipe, request.recipe, options)):
            runs.append(Run(combination, seed, folder, recipe, options))
    common = [error for error in next(iter(wrong.values()), []) if all(error in found for found in wrong.values())]
    errors += common + [f"{name}: {error}" for name, found in wrong.items() for error in found if error not in common]
    return runs


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

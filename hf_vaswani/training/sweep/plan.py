"""The plan of a sweep: all of its runs, each with its recipe, checked before the first one starts."""

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...configuration.keys import traits
from ...errors import InputError
from ...files import collect_errors
from ..check import bleu_errors, freeze_errors, path_errors, tracker_errors
from ..recipe.recipe import Recipe, load_recipe, parse_options, recipe_keys, section_of
from ..reporting.scores import load_reranker
from ..setup.splits import own_text, parse_sources, source_errors, text_errors_to_end
from ..setup.tokenizer_and_model import check_is_model, existing_tokenizer
from .grid import Combination, combinations
from .request import SweepRequest

# Besides the validation keys, those that decide which text a model is validated on.
OF_TEXT = (
    "dataset",
    "dataset_config",
    "dataset_revision",
    "split_seed",
    "reversed",
    "source_language",
    "target_language",
)
# More than this is a typo, or would take years.
MOST_RUNS = 10_000
# Keys that cannot be swept, and why.
NOT_SWEPT = {
    ("training", "output_dir"): "each run has its own folder in --output_dir",
    ("training", "overwrite"): "runs are resumed; to start over, delete the sweep's folder",
    ("training", "seed"): "use --seeds",
}


@dataclass(frozen=True)
class Run:
    """A run of a sweep.

    Attributes:
        recipe: with all options, the seed and the folder.
        options: those of its command, after the recipe.
    """

    combination: Combination
    seed: int
    recipe: Recipe
    options: list[str]

    @property
    def folder(self) -> Path:
        return Path(self.recipe.training.output_dir)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def digest(self) -> str:
        """Digest of the recipe, by which a finished run is recognized."""
        keys = recipe_keys()
        values = {
            section: {name: value for name, value in entries.items() if not traits(keys[section][name]).private}
            for section, entries in self.recipe.to_dict().items()
        }
        text = json.dumps(values, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class SweepPlan:
    """All runs of a sweep.

    Attributes:
        recipe: the file or name that was given.
        options: further recipe keys, common to all runs, as on the command line.
        combinations: all are compared with the first one.
        runs: those of the first combination with all seeds, then those of the second, and so on.
    """

    folder: Path
    recipe: str
    options: tuple[str, ...]
    combinations: list[Combination]
    seeds: tuple[int, ...]
    runs: list[Run]

    def runs_of(self, combination: Combination) -> list[Run]:
        """The runs of a combination, in the order of the seeds."""
        return [run for run in self.runs if run.combination == combination]


def make_plan(request: SweepRequest, errors: list[str], reads_inputs: bool = False) -> SweepPlan:
    """Check a request, apart from what its output folder holds, and return its plan. Nothing is written.

    Args:
        errors: the errors found in the request so far.
        reads_inputs: whether texts are read to their ends, and the models that are named are looked for, too.

    Raises:
        InputError: all errors at once.
    """
    errors = list(errors)
    grid = _by_key(request.grid, "grid", errors)
    grid = {key: full for key, texts in grid.items() if (full := [text for text in texts if text])}
    errors += [f"grid: {key} has no values" for key, texts in request.grid.items() if not texts]
    errors += [f"grid: {key} has an empty value" for key, texts in request.grid.items() if "" in texts]
    rows = {name: _by_key(row, f"row {name}", errors) for name, row in request.rows.items()}
    given = _given(request.options)
    errors += _conflicts(rows, grid, given)
    if not request.output_dir:
        errors.append("--output_dir is missing: the folder of the sweep, with a folder in it for each run")
    folder = Path(request.output_dir or "sweep")
    number = max(len(rows), 1) * len(request.seeds)
    for texts in grid.values():
        number *= len(texts)
    if number > MOST_RUNS:
        errors.append(f"{number:,} runs are too many for one sweep; the maximum is {MOST_RUNS:,}")
        raise InputError.of(errors)
    found = combinations(_named(rows), {_written(key): texts for key, texts in grid.items()})
    loaded = _load(request, folder, found, errors)
    errors += _same_recipes(loaded)
    if any(run.recipe.training.push_to_hub for run in loaded):
        errors.append(
            "training.push_to_hub: a sweep uploads none of its runs. Remove it, and push the run that you choose "
            "with hf-vaswani push"
        )
    if "training.overwrite" not in given and any(run.recipe.training.overwrite for run in loaded):
        errors.append(f"training.overwrite cannot be set in a sweep: {NOT_SWEPT['training', 'overwrite']}")
    errors += _errors_of_recipes([run.recipe for run in loaded], reads_inputs)
    if errors:
        raise InputError.of(errors)
    runs = [_with_seed(run, seed, folder, request) for run in loaded for seed in request.seeds]
    return SweepPlan(folder, request.recipe, request.options, found, request.seeds, runs)


def _given(options: tuple[str, ...]) -> set[str]:
    """The keys among options, as [`_by_key`] writes them."""
    return {f"{section}.{name}" for section, texts in parse_options(list(options), []).items() for name in texts}


def _by_key(values: dict, where: str, errors: list[str]) -> dict:
    """Values by `section.key`.

    Keys that are unknown, given twice or cannot be swept are added to the errors.
    """
    found = {}
    for name, value in values.items():
        wrong: list[str] = []
        written = name.replace("-", "_")
        section = section_of(written, wrong)
        errors += [f"{where}: {error.removeprefix('--')}" for error in wrong]
        if wrong:
            continue
        key = f"{section}.{written.rpartition('.')[2]}"
        if why := NOT_SWEPT.get(tuple(key.split("."))):
            errors.append(f"{where}: {name} cannot be swept: {why}")
        elif key in found:
            errors.append(f"{where}: {key} is given twice")
        else:
            found[key] = value
    return found


def _conflicts(rows: dict[str, dict[str, str]], grid: dict[str, list[str]], given: set[str]) -> list[str]:
    """Errors for keys that are given in two places, or that a sweep sets itself."""
    errors = [f"--{key} is given for all runs and also swept by the grid: choose one" for key in grid if key in given]
    for name, row in rows.items():
        errors += [f"row {name}: {key} is also given for all runs: choose one" for key in row if key in given]
        errors += [f"row {name}: {key} is also swept by the grid: choose one" for key in row if key in grid]
    own = {f"{section}.{name}": why for (section, name), why in NOT_SWEPT.items()}
    return errors + [f"--{key} cannot be given to a sweep: {why}" for key, why in own.items() if key in given]


def _named(rows: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {name: {_written(key): text for key, text in row.items()} for name, row in rows.items()}


def _written(key: str) -> str:
    """A key as people write it: with its section only if several sections have a key of that name."""
    bare = key.rpartition(".")[2]
    return key if sum(bare in keys for keys in recipe_keys().values()) > 1 else bare


def _load(request: SweepRequest, folder: Path, found: list[Combination], errors: list[str]) -> list[Run]:
    """The first run of each combination; what is wrong with the recipes is added to `errors`."""
    loaded, wrong = [], {}
    for combination in found:
        options = [*request.options, *combination.options]
        place = folder / run_name(combination, request.seeds[0])
        full = [*options, f"--training.seed={request.seeds[0]}", f"--training.output_dir={place}"]
        wrong[combination.name] = []
        recipe = collect_errors(wrong[combination.name], partial(load_recipe, request.recipe, full))
        if recipe is not None:
            loaded.append(Run(combination, request.seeds[0], recipe, full))
    # Errors of the recipe itself are reported once.
    common = [error for error in next(iter(wrong.values())) if all(error in others for others in wrong.values())]
    errors += common
    for name, lines in wrong.items():
        errors += [f"{name}: {line}" for line in lines if line not in common]
    return loaded


def _with_seed(run: Run, seed: int, folder: Path, request: SweepRequest) -> Run:
    """The same run with another seed."""
    place = str(folder / run_name(run.combination, seed))
    own = [f"--training.seed={seed}", f"--training.output_dir={place}"]
    options = [*request.options, *run.combination.options, *own]
    training = run.recipe.training.model_copy(update={"seed": seed, "output_dir": place})
    return Run(run.combination, seed, run.recipe.model_copy(update={"training": training}), options)


def run_name(combination: Combination, seed: int) -> str:
    """The name of a run and of its folder."""
    return f"{combination.name}_seed_{seed}"


def _same_recipes(loaded: list[Run]) -> list[str]:
    """Errors for combinations that are listed twice, or that make the same recipe in other words."""
    first: dict[str, str] = {}
    errors = []
    for run in loaded:
        training = run.recipe.training.model_copy(update={"output_dir": None})
        digest = Run(run.combination, 0, run.recipe.model_copy(update={"training": training}), []).digest
        name = run.combination.name
        if first.get(digest) == name:
            errors.append(f"{name} is listed twice")
        elif digest in first:
            errors.append(f"{name} is the same recipe as {first[digest]}: remove one of them")
        first.setdefault(digest, name)
    return errors


def losses_compare(recipes: list[Recipe]) -> bool:
    """Whether the validation losses of these recipes can be compared: per token, with one vocabulary, on one text."""

    def of_loss(recipe: Recipe) -> list[Any]:
        data = recipe.data.model_dump()
        names = {name for name in data if name.startswith("validation")} | {*OF_TEXT}
        if recipe.data.validation_share or recipe.data.test_share:
            # The training text then decides on what is held out of it.
            names |= {name for name in data if name.startswith("train")} | {"test_share"}
        place = recipe.tokenizer.path or recipe.training.start_from
        read = {name: data[name] for name in data if name.startswith(("train", "dataset", "drop_", "text"))}
        learned = [recipe.tokenizer.model_dump(exclude={"path", "bpe_dropout"}), read]
        return [place or learned, {name: data[name] for name in names}]

    return all(of_loss(recipe) == of_loss(recipes[0]) for recipe in recipes)


def _errors_of_recipes(recipes: list[Recipe], reads_inputs: bool) -> list[str]:
    """Errors in the recipes, in their texts, and in models that they name, as far as they show without loading models;
    each error once."""
    errors: list[str] = []
    for data in {str(data): data for data in (own_text(recipe.data) for recipe in recipes)}.values():
        sources = collect_errors(errors, partial(parse_sources, data))
        errors += source_errors(data, sources) if sources else []
    for tokenize in dict.fromkeys(recipe.evaluation.tokenize for recipe in recipes):
        errors += bleu_errors(tokenize)
    for recipe in recipes:
        errors += tracker_errors(recipe.training.report_to) + freeze_errors(recipe) + path_errors(recipe)
    if reads_inputs:
        errors += _errors_of_names(recipes)
    if reads_inputs and not errors:
        errors = _errors_in_texts(recipes)
    return list(dict.fromkeys(errors))


def _errors_of_names(recipes: list[Recipe]) -> list[str]:
    """Errors for tokenizers or models that recipes name and that are not there; each is looked at once."""
    errors: list[str] = []
    named = [("training.start_from", name) for recipe in recipes if (name := recipe.training.start_from)]
    named += [("training.distill_from", name) for recipe in recipes for name in recipe.training.teachers]
    wrong: set[str] = set()
    for key, name in dict.fromkeys(named):
        found: list[str] = []
        collect_errors(found, partial(check_is_model, key, name))
        wrong |= {name} if found else set()
        errors += found
    for recipe in {recipe.evaluation.rerank_with: recipe for recipe in recipes}.values():
        collect_errors(errors, partial(load_reranker, recipe))
    with_tokenizer = {(recipe.tokenizer_source, recipe.tokenizer.bpe_dropout): recipe for recipe in recipes}
    for recipe in with_tokenizer.values():
        if not wrong & {recipe.training.start_from, *recipe.training.teachers}:
            collect_errors(errors, partial(existing_tokenizer, recipe))
    return errors


def _errors_in_texts(recipes: list[Recipe]) -> list[str]:
    """Errors anywhere in the texts of the recipes; each text is read once."""
    texts = {repr(data): data for data in (own_text(recipe.data) for recipe in recipes)}
    return [error for data in texts.values() for error in text_errors_to_end(data, is_train_read=True)]

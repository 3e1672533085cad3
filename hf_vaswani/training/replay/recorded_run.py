"""The record of a run, from its folder, its card or the Hub: its trail, and the recipe to replay it with."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import ValidationError

from ...configuration.keys import Sections, traits
from ...configuration.yaml_reader import read_yaml
from ...errors import InputError, reason
from ...files import reading, where_not_found
from ...hub.repository import hub_id
from ...ledger import PROVENANCE_FILE, Provenance
from ...records.trail import TRAIL_FILE, RunTrace, parse_trail, read_trail
from ..checkpoints.artifacts import CARD_FILE, CHECKPOINTS, RECIPE_FILE, RESULTS_FILE, read_results, read_stored
from ..checkpoints.checkpoint import checkpoint_folders
from ..recipe.arguments import SPLITS, text_keys
from ..recipe.recipe import SECTIONS, Recipe, apply_options, make_recipe, option_value, parse_options

# A file embedded in a card: its name in a <summary>, its content in a fenced block.
IN_CARD = re.compile(
    r"<summary>((?:recipe|provenance|trail)\.(?:yaml|json))</summary>\s+(`{3,})\w*\n(.*?)\n\2(?:\n|$)", re.DOTALL
)
# Sections and keys of what follows the steps: how the model translates, how it is tested, and what its card says.
NOT_REPLAYED = {"generation", "evaluation", "test", "test_source", "test_target", "tests", "name", "license"}
MODELS = [("training", "start_from"), ("training", "distill_from"), ("tokenizer", "path")]


@dataclass(frozen=True)
class RecordedRun:
    """The recipe of a run, and the trail that it left.

    Attributes:
        file: what its recipe was read from, in words.
        record: what its trail was read from, in words.
        name: of the run, if it is an earlier one from the card of another.
        checkpoints: those that exist, oldest first.
    """

    file: str
    recipe: Sections
    record: str
    trail: RunTrace
    name: str = ""
    checkpoints: list[Path] = field(default_factory=list)

    def __post_init__(self):
        # Earlier versions had no such key, and kept invisible characters and all whitespace.
        if "whitespace" not in self.trail.recipe.get("tokenizer", {}):
            for recipe in (self.recipe, self.trail.recipe):
                recipe.setdefault("tokenizer", {})["whitespace"] = "keep"


def read_run(where: str) -> RecordedRun:
    """Read a run from its folder, its card, a folder with its card, or the id of its model on the Hub.

    Raises:
        InputError: if there is neither a run nor a card, or if its trail or recipe is missing or damaged.
    """
    path = Path(where)
    if (path / RECIPE_FILE).is_file():
        return _read_folder(path)
    card = path / CARD_FILE if path.is_dir() else path
    if hub_id(where):
        from huggingface_hub import hf_hub_download

        try:
            card = Path(hf_hub_download(where, CARD_FILE))
        except Exception as error:  # network errors, Hub errors, unknown names
            raise InputError(f"{where}{where_not_found(where)} its card cannot be loaded: {reason(error)}") from None
    elif not card.is_file():
        what = f"is not the folder of a run: it has neither {RECIPE_FILE} nor {CARD_FILE}."
        remedy = "does not exist. Specify the folder of a run, its card, or its model's id on the Hub."
        raise InputError(f"{where} {what if path.is_dir() else remedy}")
    return _read_card(card, where)


def _read_folder(folder: Path) -> RecordedRun:
    record, trail = f"{TRAIL_FILE} in {folder}", read_trail(folder)
    if trail is None:
        problem = "damaged" if (folder / TRAIL_FILE).exists() else "missing"
        record = f"the copy in {RESULTS_FILE}, since {TRAIL_FILE} is {problem}"
        trail = parse_trail(json.dumps(read_results(folder).get("trail")))
    if trail is None:
        raise InputError(f"{folder} contains no readable trail ({TRAIL_FILE}), nor a copy in {RESULTS_FILE}.")
    file, checkpoints = folder / RECIPE_FILE, checkpoint_folders(folder / CHECKPOINTS)
    return RecordedRun(str(file), read_stored(file), record, trail, "", checkpoints)


def _read_card(card: Path, where: str) -> RecordedRun:
    with reading(card):
        files = {file: content for file, _, content in IN_CARD.findall(card.read_text(encoding="utf-8"))}
    if missing := [file for file in ("recipe.yaml", TRAIL_FILE) if file not in files]:
        raise InputError(
            f"{where} is not the card of a run: it contains no {' and no '.join(missing)}. If the model was exported "
            "or copied from a run, verify that run."
        )
    name, file, trail, earlier = "", "recipe.yaml", parse_trail(files[TRAIL_FILE]), None
    try:
        recipe = read_yaml(files[file])
        if PROVENANCE_FILE in files:
            earlier = next(Provenance.model_validate_json(files[PROVENANCE_FILE]).replayable(), None)
    except (yaml.YAMLError, ValidationError, RecursionError):
        recipe = None
    if isinstance(recipe, dict) and "stages" in recipe:
        raise InputError(f"{where} is the card of a run in stages, which this version cannot replay.")
    if earlier:  # unlike the last run, it needed nothing that the card does not contain
        name, file, recipe = earlier[0], PROVENANCE_FILE, earlier[1].settings
        trail = parse_trail(json.dumps(earlier[1].results["trail"]))
    if trail is None or not isinstance(recipe, dict) or not all(isinstance(keys, dict) for keys in recipe.values()):
        raise InputError(f"{where}: its {' or '.join(files)} is damaged. Copy or download the card again.")
    return RecordedRun(f"{file} in {where}", recipe, f"{TRAIL_FILE} in {where}", trail, name)


def replayed_recipe(run: RecordedRun, options: list[str], folder: Path) -> Recipe:
    """The recipe of a replay: the keys that the steps need, with local paths to text and models.

    Args:
        options: recipe keys, as on the command line.
        folder: the output folder.

    Raises:
        InputError: errors in the recipe or the options.
    """
    errors: list[str] = []
    given = parse_options(options, errors)
    errors += [f"--{name}: no effect on a replay, which writes nothing. Leave it out"
               for name in given.get("training", {}) if not _is_replayed("training", name)]  # fmt: skip
    # A key at its default may conflict with keys that were given, since its mere presence counts as a choice.
    # The model section holds only keys that were given.
    values: Sections = {
        section: {
            name: value
            for name, value in run.recipe.get(section, {}).items()
            if _is_replayed(section, name) and (section == "model" or value != keys.model_fields[name].default)
        }
        for section, keys in SECTIONS.items()
    }
    apply_options(values, {"data": given.pop("data", {})})  # removes what the recipe says about another text
    for section, texts in given.items():
        keys = SECTIONS[section].model_fields
        values[section] |= {name: option_value(text, keys[name]) for name, text in texts.items()}
    if not values["peft"]:
        del values["peft"]
    values["data"]["test_split"] = None
    values["training"]["output_dir"] = str(folder)
    recipe, found = make_recipe(values, run.file)
    if errors + found:
        raise InputError.of(errors + found)
    return recipe


def _is_replayed(section: str, name: str) -> bool:
    """Whether a key of a run's recipe, which may come from a stranger's card, has a place in its replay."""
    key = SECTIONS[section].model_fields.get(name)
    return key is not None and not {section, name} & NOT_REPLAYED and not traits(key).private


def with_hint(error: InputError, recipe: Recipe) -> InputError:
    """The error, with the options for the text and models that are not where the recipe says."""
    texts = [("data", key) for split in SPLITS[:2] for key in text_keys(split) if not recipe.data.dataset]
    missing = []
    for section, name in texts + MODELS:
        value = getattr(getattr(recipe, section), name)
        is_wrong = f"\n{section}." + (name if section != "data" else "") in f"\n{error}"
        # A value that is no text lists several sources or models.
        if value and is_wrong and not (isinstance(value, str) and Path(value).exists()):
            missing.append(f"--{name} FILE" if section == "data" else f"--{section}.{name} FOLDER")
    return InputError(f"{error}\nSpecify where these are here: {' '.join(missing)}") if missing else error

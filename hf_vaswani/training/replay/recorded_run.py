"""The record of a run: its recipe and its trail, read from its folder, its card or the Hub."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ...configuration.yaml_reader import read_yaml
from ...errors import InputError, reason
from ...files import where_not_found
from ...hub.file_names import hub_id
from ...hub.trail import TRAIL_FILE, Trail, parse_trail, read_trail
from ...provenance import PROVENANCE_FILE, Provenance
from ..checkpoints.checkpoint import checkpoint_folders
from ..checkpoints.output_folder import CHECKPOINTS, RECIPE_FILE, read_stored
from ..recipe.recipe import SECTIONS
from ..reporting.artifacts import CARD_FILE, RESULTS_FILE, read_results

# A file embedded in a card: its name in a <summary>, its content in a fenced block.
IN_CARD = re.compile(
    r"<summary>((?:recipe|provenance|trail)\.(?:yaml|json))</summary>\s+(`{3,})\w*\n(.*?)\n\2(?:\n|$)", re.DOTALL
)


@dataclass(frozen=True)
class RecordedRun:
    """The recipe of a run, and the trail that it left.

    Attributes:
        name: where the run was read from, for messages.
        recipe_file: the file that its recipe was read from, as messages call it.
        recipe: section → key → value.
        copy: the file that the trail was read from in place of a trail.json that is missing or damaged; or "".
        folder: of the run; `None` if only its card was read.
        product: the name of the run, if it is an earlier one from the card of another.
    """

    name: str
    recipe_file: str
    recipe: dict[str, dict[str, Any]]
    trail: Trail
    copy: str = ""
    folder: Path | None = None
    product: str | None = None

    def __post_init__(self):
        # Earlier versions had no such key, and kept invisible characters and all whitespace.
        if "whitespace" not in self.trail.recipe.get("tokenizer", {}):
            for recipe in (self.recipe, self.trail.recipe):
                recipe.setdefault("tokenizer", {})["whitespace"] = "keep"

    @property
    def record(self) -> str:
        """What a replay is compared with, in words."""
        if not self.copy:
            return f"{TRAIL_FILE} in {self.name}"
        problem = "damaged" if self.folder and (self.folder / TRAIL_FILE).exists() else "missing"
        return f"the copy in {self.copy}, since {TRAIL_FILE} is {problem}"

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints that exist, oldest first."""
        return checkpoint_folders(self.folder / CHECKPOINTS) if self.folder else []


def read_run(where: str) -> RecordedRun:
    """Read a run from its folder, its card, a folder with its card, or the id of its model on the Hub.

    Raises:
        InputError: if there is neither a run nor a card, or if its trail or recipe is missing or damaged.
    """
    path = Path(where)
    if (path / RECIPE_FILE).is_file():
        return _of_folder(path)
    if path.is_file():
        return _of_card(path)
    if (path / CARD_FILE).is_file():
        return _of_card(path / CARD_FILE)
    if path.is_dir():
        raise InputError(
            f"{where} is not the folder of a run: it has neither {RECIPE_FILE} nor {CARD_FILE}. Choose another one."
        )
    if not hub_id(where):
        raise InputError(
            f"{where} does not exist. Specify the folder of a run, its card, or its model's id on the Hub."
        )
    return _of_card(_downloaded_card(where), where)


def _of_folder(folder: Path) -> RecordedRun:
    recipe = {name: keys for name, keys in read_stored(folder / RECIPE_FILE).items() if name in SECTIONS}
    trail, copy = read_trail(folder), ""
    if trail is None and (stored := read_results(folder).get("trail")):
        trail, copy = parse_trail(json.dumps(stored)), RESULTS_FILE
    if trail is None:
        raise InputError(
            f"{folder} contains no readable trail (trail.json): it was trained by an earlier version, or the file is "
            "damaged. Without it, there is nothing to compare a replay with."
        )
    return RecordedRun(str(folder), str(folder / RECIPE_FILE), recipe, trail, copy, folder)


def _of_card(card: Path, name: str | None = None) -> RecordedRun:
    name = name or str(card)
    try:
        text = card.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read as a model card: {reason(error)}.") from None
    files = {file: content for file, _, content in IN_CARD.findall(text)}
    missing = [file for file in ("recipe.yaml", "trail.json") if file not in files]
    if missing:
        raise InputError(
            f"{name} is not the card of a run: it contains no {' and no '.join(missing)}. If the model was exported "
            "or copied from a run, verify that run."
        )
    trail = parse_trail(files["trail.json"])
    if trail is None:
        raise InputError(f"{name}: its trail.json is damaged. Copy or download the card again.")
    recipe = None
    with suppress(yaml.YAMLError):
        recipe = read_yaml(files["recipe.yaml"])
    if not isinstance(recipe, dict) or not all(isinstance(keys, dict) for keys in recipe.values()):
        raise InputError(f"{name}: its recipe.yaml is damaged. Copy or download the card again.")
    if PROVENANCE_FILE in files and (earlier := _earlier_run(name, files[PROVENANCE_FILE])):
        return earlier
    return RecordedRun(name, f"recipe.yaml in {name}", recipe, trail)


def _earlier_run(name: str, content: str) -> RecordedRun | None:
    """The first run that was trained on text alone, from the provenance in a card of a run that was not.

    The other runs also need models and pairs that a card does not contain.

    Args:
        name: where the card was read from, for messages.
        content: the provenance.
    """
    try:
        made = Provenance.model_validate_json(content)
    except (ValidationError, RecursionError) as error:
        raise InputError(f"{name}: its {PROVENANCE_FILE} is damaged: {reason(error)}. Copy the card again.") from None
    for product, earlier in made.replayable():
        if trail := parse_trail(json.dumps(earlier.results["trail"])):
            return RecordedRun(name, f"{PROVENANCE_FILE} in {name}", earlier.settings, trail, product=product)
    return None


def _downloaded_card(repo_id: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo_id, CARD_FILE))
    except Exception as error:  # network errors, Hub errors, unknown names
        raise InputError(
            f"{repo_id}{where_not_found(repo_id)} its card cannot be loaded from the Hub: {reason(error)}"
        ) from None

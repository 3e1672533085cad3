"""The output folder of a run: names, lock, and the artifacts next to its model: results, translations, figures, card.

They are never left next to a model that they do not describe: they are removed before another model is written, and
written after it. An edited card is kept: in place as long as it matches the model, and otherwise as `README.md.old`,
or as `README.md.old.2` and so on if that exists.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from safetensors import SafetensorError

from ...configuration.keys import Sections
from ...configuration.yaml_reader import read_yaml
from ...errors import InputError, TrainingError, reason, write_remedy
from ...ledger import PROVENANCE_FILE, exclusive
from ...records import EVAL_RESULTS, RESULTS_FILE
from .checkpoint import is_checkpoint_name

if TYPE_CHECKING:
    from ...records.run_report import RunReport

RECIPE_FILE = "training_recipe.yaml"
CHECKPOINTS, BEST = "checkpoints", "best"
TOKENIZER, ARCHITECTURE = "tokenizer", "architecture"
# The project name under which trackers list a run; TensorBoard makes a folder of this name.
TRACKED_AS = "hf_vaswani"
# Files that are being uploaded to the Hub, or are waiting for it.
UPLOADS = ".uploads"
# The final files until all of them are written.
FINAL_PART = ".final.part"
LOG_FILE, CURVES_FILE = "log.jsonl", "curves.png"
CARD_FILE, OLD_CARD_FILE = "README.md", "README.md.old"
# Endings of file names, after the name of the test set: for the recipe's search, and for each other one.
TRANSLATIONS = "_translations.txt"
ALL_TRANSLATIONS = {
    "": TRANSLATIONS, "greedy": "_translations_greedy.txt", "mbr": "_translations_mbr.txt",
    "reranked": "_translations_reranked.txt", "glossary": "_translations_glossary.txt"
}  # fmt: skip
# Keys of the results: the digest of the card that was written with them, and the name of the model in it.
CARD_DIGEST, CARD_NAME = "card", "name"
# Figures are in the folder or in its `pictures/`.
FIGURES = "pictures"
FIGURE_NAME = re.compile(rf"({FIGURES}/)?[^/\\:\x00]+\.png")
TEST_NAME = re.compile(r"[^/\\:\x00]+")


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is one of a run's checkpoints or best weights: weights without a config."""
    is_named_so = is_checkpoint_name(Path(os.path.abspath(folder)).name)
    return is_named_so and folder.is_dir() and not (folder / "config.json").exists()


@contextlib.contextmanager
def saving(what: str, then: str = "to resume from the last checkpoint") -> Iterator[None]:
    """Turn errors of the system while a run writes its state into one that says how to go on.

    Raises:
        TrainingError: instead of an `OSError` or `SafetensorError`.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"{what}: {reason(error)}. {write_remedy(error)}, then run the same command again {then}."
        ) from error


@contextlib.contextmanager
def locked_output(folder: Path) -> Iterator[None]:
    """Create and lock an output folder for this process while the block runs.

    Raises:
        InputError: if another process has locked it, or it cannot be created.
        TrainingError: if it is another folder at the end of the block.
    """
    with exclusive(folder):
        before = folder.stat()
        yield
        if not (folder.is_dir() and os.path.samestat(before, folder.stat())):
            raise TrainingError(
                f"{folder} was moved or removed while the run trained in it: what it wrote may be elsewhere or lost. "
                "Put the folder back, or run the same command again."
            )


def read_stored(path: Path) -> Sections:
    """Read the recipe that a run was started with, and how the run was launched.

    Raises:
        InputError: if the file is damaged.
    """
    content = None
    with contextlib.suppress(yaml.YAMLError, UnicodeDecodeError, OSError):
        content = read_yaml(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not all(isinstance(section, dict) for section in content.values()):
        raise InputError(f"{path} is damaged or unreadable. Choose another --output_dir, or set --overwrite true.")
    return content


def read_results(folder: Path) -> dict[str, Any]:
    """The results in a folder; empty if there are none, or if they cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        results = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
        if isinstance(results, dict) and isinstance(results.get("tests", {}), dict):
            return results
    return {}


def card_digest(card: str) -> str:
    """The digest by which a card is recognized as unedited."""
    return hashlib.blake2b(card.encode(), digest_size=16).hexdigest()


def has_edited_card(folder: Path) -> bool:
    """Whether the card in a folder was edited by a user, or may have been."""
    try:
        card = (folder / CARD_FILE).read_bytes()
    except FileNotFoundError:
        return False
    return card_digest(card.decode("utf-8", "replace")) != read_results(folder).get(CARD_DIGEST)


def matches(folder: Path, report: "RunReport") -> bool:
    """Whether the artifacts in a folder describe the same model as a report."""

    def measured(results: dict[str, object]) -> dict[str, object]:
        # "teacher" contains speeds, which differ each time.
        others = (CARD_DIGEST, CARD_NAME, "recipe", "versions", "teacher")
        return {key: results[key] for key in results if key not in others}

    return measured(read_results(folder)) == measured(json.loads(report.to_json()))


def keep_edited_card(folder: Path) -> None:
    """Rename an edited card, so that a new one can take its place."""
    if has_edited_card(folder):
        names = itertools.chain([OLD_CARD_FILE], (f"{OLD_CARD_FILE}.{number}" for number in itertools.count(2)))
        free = next(folder / name for name in names if not (folder / name).exists())
        (folder / CARD_FILE).replace(free)


def artifacts(folder: Path) -> list[Path]:
    """The files that describe the model in a folder, whether they exist or not; last the results, which name the
    others."""
    results = read_results(folder)
    tests, figures = results.get("tests"), results.get("figures")
    tests = [name for name in tests if TEST_NAME.fullmatch(name)] if isinstance(tests, dict) else []
    figures = [name for name in figures if is_figure(name)] if isinstance(figures, list) else []
    translations = [f"{test}{ending}" for test in tests for ending in ALL_TRANSLATIONS.values()]
    names = [CARD_FILE, EVAL_RESULTS, *translations, *figures, PROVENANCE_FILE, RESULTS_FILE]
    return [folder / name for name in names]


def is_figure(name: object) -> bool:
    """Whether a value in the results is the name of a figure, which may be deleted with them."""
    return isinstance(name, str) and FIGURE_NAME.fullmatch(name) is not None


def remove_stale(folder: Path) -> None:
    """Remove results, translations, figures and card; an edited card is renamed.

    Raises:
        InputError: if there is a folder in the place of a file; nothing is removed then.
        OSError: if a file cannot be removed or renamed.
    """
    paths = artifacts(folder)
    if folders := [path for path in paths if path.is_dir()]:
        raise InputError.of([f"{path} is a folder, but should be a file. Move it elsewhere." for path in folders])
    keep_edited_card(folder)
    for path in paths:
        path.unlink(missing_ok=True)


def in_order(files: list[Path]) -> list[Path]:
    """Sort files into the order in which to put them in a folder: those that describe the model last, the card at the
    end."""
    last = [*ALL_TRANSLATIONS.values(), RESULTS_FILE, CARD_FILE]
    return sorted(
        files, key=lambda file: max((i for i, end in enumerate(last) if file.name.endswith(end)), default=-1)
    )

"""The output folder of a run: the names of its contents, and the lock that keeps other processes out."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import yaml
from safetensors import SafetensorError

from ...configuration.keys import Sections
from ...configuration.yaml_reader import read_yaml
from ...errors import InputError, TrainingError, reason, write_remedy
from ...files import locked
from .checkpoint import is_checkpoint_name

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
    """Lock an output folder for this process while the block runs.

    Raises:
        InputError: if another process has locked it.
        TrainingError: if it is another folder at the end of the block.
        OSError: if the folder cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder.resolve()))
        except BlockingIOError:
            raise InputError(
                f"Another command is using {folder}. Wait for it to finish, or choose another folder."
            ) from None
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

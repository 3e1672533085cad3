"""Checkpoints of a run: everything needed to resume it, written completely or not at all.

A checkpoint is a folder `update-00001000`. It is written under another name and renamed once all of it has reached the
disk; its list of digests later shows whether a file was damaged. Nothing is deleted before its successor is in place.
"""

import hashlib
import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import UnpicklingError

import torch
from accelerate import Accelerator
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from ...errors import InputError, TrainingError, reason, write_remedy
from ...files import file_digest, sync
from ..optimization.progress import Progress, read_progress
from ..optimization.sharding import StateDict, full_tensor, optimizer_state, set_optimizer_state
from ..optimization.weights import MovingAverage, Tensors, check_shapes, gather_weights, set_weights

WEIGHTS_FILE = "model.safetensors"
EMA_FILE = "ema.safetensors"
OPTIMIZER_FILE = "optimizer.pt"
SCALER_FILE = "scaler.pt"
PROGRESS_FILE = "progress.json"
DIGESTS_FILE = "digests.json"
DIGEST = partial(hashlib.blake2b, digest_size=16)  # of files, to find damage
# Suffixes of folders that are being written, or deleted; they stay behind if the process is killed.
LEFT_BY_A_KILL = ("part", "removed")

DELETE_IT = "Delete it to resume from the previous one."


@dataclass
class TrainingState:
    """The complete state of a run: weights by name, progress, and the state dicts of optimizer and loss scaler."""

    weights: Tensors
    optimizer: StateDict
    progress: Progress
    ema: Tensors | None = None
    scaler: StateDict | None = None


def gather_state(
    accelerator: Accelerator, model: nn.Module, optimizer, ema: MovingAverage | None, progress: Progress
) -> TrainingState:
    """Everything that a checkpoint holds. Must be called in every process."""
    return TrainingState(
        weights=gather_weights(accelerator.unwrap_model(model)),
        optimizer=optimizer_state(optimizer),
        progress=progress,
        ema={name: full_tensor(value) for name, value in ema.shadow.items()} if ema else None,
        scaler=accelerator.scaler.state_dict() if accelerator.scaler is not None else None,
    )


def restore_state(
    accelerator: Accelerator, model: nn.Module, optimizer, ema: MovingAverage | None, checkpoint: Path
) -> Progress:
    """Load a checkpoint into model, optimizer, moving average and loss scaler, and return the progress it stores.

    Raises:
        TrainingError: if the checkpoint cannot be read, or has the state of another optimizer.
    """
    state = load_checkpoint(checkpoint)
    set_weights(accelerator.unwrap_model(model), state.weights)
    try:
        set_optimizer_state(optimizer, state.optimizer)
    except ValueError as error:
        raise TrainingError(f"{checkpoint / OPTIMIZER_FILE} cannot be used: {error}. {DELETE_IT}") from None
    if ema and state.ema:
        ema.load(state.ema)
    if accelerator.scaler is not None and state.scaler:
        accelerator.scaler.load_state_dict(state.scaler)
    return state.progress


def check_fits(model: nn.Module, checkpoint: Path) -> None:
    """Refuse a checkpoint of another model, before anything of the run is changed; only the weights' header is read.

    Args:
        model: not yet sharded.

    Raises:
        InputError: if the shapes differ.
        TrainingError: if the checkpoint is damaged.
    """
    try:
        with safe_open(checkpoint / WEIGHTS_FILE, "pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"{checkpoint} is damaged ({reason(error)}). {DELETE_IT}") from None
    check_shapes(model, shapes)


def checkpoint_folders(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("update-*") if is_checkpoint_name(path.name))


def is_checkpoint_name(name: str) -> bool:
    """Whether a folder of this name is a complete checkpoint, not an unfinished one or a user's copy."""
    return re.fullmatch(r"update-\d{8,}", name) is not None


def belongs_to_checkpoints(name: str) -> bool:
    """Whether a folder of this name is a checkpoint, complete or not, or the remains of one."""
    stem, _, ending = name.partition(".")
    return is_checkpoint_name(stem) and ending in ("", *LEFT_BY_A_KILL, "old", "damaged")


def step_of(path: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(path.name.removeprefix("update-"))


def save_checkpoint(folder: Path, state: TrainingState, keep: int) -> Path:
    """Write a checkpoint into `folder` and remove the oldest beyond `keep`.

    An unscheduled checkpoint, saved because an earlier session ended, is removed too, so that a resumed run ends with
    the same checkpoints, and thus the same mean, as an uninterrupted one.

    Raises:
        TrainingError: if it cannot be written, for example because the disk is full. The earlier checkpoints are left
            as they were.
    """

    def write(unfinished: Path) -> None:
        save_weights(state.weights, unfinished / WEIGHTS_FILE)
        if state.ema is not None:
            save_weights(state.ema, unfinished / EMA_FILE)
        _save(state.optimizer, unfinished / OPTIMIZER_FILE)
        if state.scaler is not None:
            _save(state.scaler, unfinished / SCALER_FILE)
        (unfinished / PROGRESS_FILE).write_text(state.progress.to_json())

    path = folder / f"update-{state.progress.step:08d}"
    try:
        write_whole(path, write)
    except (OSError, RuntimeError, SafetensorError) as error:
        before = [old for old in checkpoint_folders(folder) if old != path]
        last = f"The last good one is {before[-1]}." if before else "There is no earlier one."
        raise TrainingError(
            f"The checkpoint of step {state.progress.step} cannot be written to {folder}: {reason(error)}. "
            f"{last} {write_remedy(error)}, then run the same command again to continue."
        ) from error
    for old in checkpoint_folders(folder):
        if old != path and _is_unscheduled(old):
            remove(old)
    remove_oldest(folder, keep)
    return path


def remove_oldest(folder: Path, keep: int) -> None:
    """Remove the oldest checkpoints beyond `keep`."""
    for old in checkpoint_folders(folder)[:-keep]:
        remove(old)


def remove(path: Path) -> None:
    """Rename a folder, then delete it, so that it is never seen half deleted."""
    gone = path.with_name(f"{path.name}.removed")
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(OSError):
        os.replace(path, gone)
    shutil.rmtree(gone, ignore_errors=True)


def write_whole(path: Path, write) -> None:
    """Write a folder, with the digests of its files, either completely or not at all.

    Args:
        write: fills the empty folder that it is passed.
    """
    unfinished = path.with_name(f"{path.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    # Not the output folder, which may have been moved or removed.
    path.parent.mkdir(exist_ok=True)
    unfinished.mkdir()
    try:
        write(unfinished)
        digests = {file.name: file_digest(file, DIGEST) for file in sorted(unfinished.iterdir())}
        (unfinished / DIGESTS_FILE).write_text(json.dumps(digests, indent=1))
        make_readable(unfinished)
        for file in (*unfinished.iterdir(), unfinished):
            sync(file)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if path.exists():
        # If the process is killed between the two renames, `tidy` restores the old folder later.
        old = path.with_name(f"{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.replace(path, old)
        os.replace(unfinished, path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(unfinished, path)
    sync(path.parent)


def make_readable(folder: Path) -> None:
    """Give files the usual permissions of new files; safetensors makes its files readable by their owner only."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o666 & ~mask)


def find_damage(path: Path) -> str | None:
    """What is wrong with the files of a checkpoint; `None` if nothing is."""
    try:
        digests = json.loads((path / DIGESTS_FILE).read_text())
        wrong = [name for name, digest in digests.items() if file_digest(path / name, DIGEST) != digest]
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return reason(error)
    if wrong:
        return f"{', '.join(wrong)} changed after being written"
    if not (path / PROGRESS_FILE).exists():  # the best weights
        return None
    try:
        read_progress(path / PROGRESS_FILE)
    except InputError as error:
        return str(error).removesuffix(".")
    return None


def newest_intact(folder: Path, report) -> Path | None:
    """The newest checkpoint whose files are intact. Newer, damaged ones are renamed to end in `.damaged`.

    Args:
        report: called with a line about each checkpoint that is skipped.

    Raises:
        InputError: if there are checkpoints, but none is intact.
    """
    tidy(folder)
    checkpoints, errors = checkpoint_folders(folder), []
    for path in reversed(checkpoints):
        damage = find_damage(path)
        if damage is None:
            for damaged, error in errors:
                _set_aside(damaged)
                report(f"{error}; skipped and kept as {damaged.name}.damaged")
            return path
        errors.append((path, f"{path} is damaged ({damage})"))
    if errors:
        raise InputError(
            "\n".join(f"{error}." for _, error in errors) + f"\n{folder} has no intact checkpoint to resume from. "
            "Restore one from a copy, or start over with --overwrite true. Nothing was changed."
        )
    return None


def load_checkpoint(path: Path) -> TrainingState:
    """Read a checkpoint, with its tensors on the CPU.

    Raises:
        TrainingError: if it is damaged.
    """
    try:
        return TrainingState(
            weights=load_file(path / WEIGHTS_FILE),
            optimizer=_load(path / OPTIMIZER_FILE),
            progress=read_progress(path / PROGRESS_FILE),
            ema=load_file(path / EMA_FILE) if (path / EMA_FILE).exists() else None,
            scaler=_load(path / SCALER_FILE) if (path / SCALER_FILE).exists() else None,
        )
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, UnpicklingError, SafetensorError) as error:
        raise TrainingError(f"{path} is damaged ({reason(error).removesuffix('.')}). {DELETE_IT}") from None


def weights_file(path: Path) -> Path:
    """The file with a checkpoint's weights for translation: their moving average, if one is kept."""
    return path / EMA_FILE if (path / EMA_FILE).exists() else path / WEIGHTS_FILE


def save_weights(values: Tensors, path: Path) -> None:
    """Write tensors as safetensors, which accepts only contiguous ones."""
    save_file({name: value.contiguous() for name, value in values.items()}, path)


def _save(state: StateDict, path: Path) -> None:
    try:
        with path.open("wb") as file:
            torch.save(state, file)
    except RuntimeError as error:
        # torch reports a full disk as an unexpected position, raised while it handles the error of the file.
        raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def _load(path: Path) -> StateDict:
    return torch.load(path, weights_only=True, map_location="cpu")


def tidy(folder: Path) -> None:
    """Clean up after a process that was killed in [`write_whole`] or [`remove`]."""
    left = [path for path in folder.glob("update-*") if belongs_to_checkpoints(path.name)]
    for path in left:
        if path.suffix[1:] in LEFT_BY_A_KILL:
            shutil.rmtree(path, ignore_errors=True)
    for old in (path for path in left if path.suffix == ".old"):
        if old.with_suffix("").exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(old, old.with_suffix(""))


def _is_unscheduled(path: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return bool(json.loads((path / PROGRESS_FILE).read_text()).get("is_unscheduled"))
    return False


def _set_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(path, aside)

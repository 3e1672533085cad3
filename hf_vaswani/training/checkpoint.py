"""Checkpoints of a running training: everything that going on needs, written whole or not at all."""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from ..errors import InputError

WEIGHTS_FILE = "model.safetensors"


@dataclass
class Progress:
    """How far a training has come.

    Attributes:
        update: optimiser steps done.
        epoch, batch: the next batch is number `batch` of epoch `epoch`.
        seconds: time spent in training, over all its runs.
    """

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """A model's parameters by name, tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def set_weights(model: nn.Module, values: dict[str, torch.Tensor]) -> None:
    """Copy values into the parameters of those names.

    Raises:
        ValueError: where the names are not the same.
    """
    parameters = weights(model)
    if parameters.keys() != values.keys():
        raise ValueError(f"Other parameters than the model's: {sorted(parameters.keys() ^ values.keys())}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])


def checkpoint_folders(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("update-*") if path.suffix != ".part")


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer, scaler, progress: Progress, keep: int, every: int = 1
) -> Path:
    """Write a checkpoint into `folder` and remove the oldest beyond `keep`.

    One that is no multiple of `every` updates was the last of an earlier run. It goes, too, so that a training in
    parts ends with the checkpoints, and thus their mean, of a training in one.
    """
    path = folder / f"update-{progress.update:08d}"
    part = path.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in weights(model).items()}, part / WEIGHTS_FILE)
    torch.save(optimizer.state_dict(), part / "optimizer.pt")
    if scaler is not None:
        torch.save(scaler.state_dict(), part / "scaler.pt")
    (part / "progress.json").write_text(json.dumps(asdict(progress)))
    # A checkpoint has its name only once it is complete.
    shutil.rmtree(path, ignore_errors=True)
    os.replace(part, path)
    between = [old for old in checkpoint_folders(folder) if old != path and int(old.name[7:]) % every]
    for old in between:
        shutil.rmtree(old)
    for old in checkpoint_folders(folder)[:-keep]:
        shutil.rmtree(old)
    return path


def load_checkpoint(path: Path, model: nn.Module, optimizer, scaler) -> Progress:
    """Set model, optimiser and loss scaler to a checkpoint's state and say how far it had come.

    Raises:
        InputError: where the checkpoint is damaged.
    """
    try:
        set_weights(model, load_file(path / WEIGHTS_FILE))
        optimizer.load_state_dict(torch.load(path / "optimizer.pt", weights_only=True, map_location="cpu"))
        if scaler is not None and (path / "scaler.pt").exists():
            scaler.load_state_dict(torch.load(path / "scaler.pt", weights_only=True))
        return Progress(**json.loads((path / "progress.json").read_text()))
    except (OSError, ValueError, RuntimeError, EOFError, UnpicklingError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is damaged ({reason}). Delete it to go on from the checkpoint before.") from None


def average_weights(paths: list[Path]) -> dict[str, torch.Tensor]:
    """The mean of checkpoints' weights (section 6.1), summed in float64."""
    total: dict[str, torch.Tensor] = {}
    kinds = {}
    for path in paths:
        for name, value in load_file(path / WEIGHTS_FILE).items():
            total[name] = total.get(name, 0) + value.double()
            kinds[name] = value.dtype
    return {name: (value / len(paths)).to(kinds[name]) for name, value in total.items()}

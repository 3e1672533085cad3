"""Helpers for tests of training runs: reading a run's folder, running its command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from hf_vaswani.files import collect_errors
from hf_vaswani.training.recipe.arguments import DataArguments
from hf_vaswani.training.setup.splits import Splits, load_splits, parse_sources, source_errors

PROJECT = Path(__file__).parents[2]


def files_in(folder: Path) -> dict[Path, bytes]:
    """The content of every file under a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def splits_of(data: DataArguments) -> Splits:
    return load_splits(data, parse_sources(data))


def source_errors_of(data: DataArguments) -> list[str]:
    errors: list[str] = []
    sources = collect_errors(errors, lambda: parse_sources(data)) or {}
    return errors + source_errors(data, sources)


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def losses(folder: Path) -> list[float]:
    return [record["loss"] for record in records(folder) if "loss" in record]


def records_without_timings(folder: Path) -> list[dict]:
    """The log without its timings."""
    timings = {"target_tokens_per_second", "minutes"}
    return [{name: value for name, value in record.items() if name not in timings} for record in records(folder)]


def same_weights(folder: Path, other: Path) -> bool:
    """Whether two runs ended with the same final model and the same last checkpoint, bit for bit."""
    pairs = [(folder / "model.safetensors", other / "model.safetensors")]
    last, other_last = (sorted((path / "checkpoints").glob("update-*"))[-1] for path in (folder, other))
    pairs += [(file, other_last / file.name) for file in last.glob("*.safetensors")]
    for file, other_file in pairs:
        values, other_values = load_file(file), load_file(other_file)
        if values.keys() != other_values.keys() or any(not torch.equal(values[n], other_values[n]) for n in values):
            return False
    states = [torch.load(path / "optimizer.pt", weights_only=True)["state"] for path in (last, other_last)]
    if [(i, sorted(state)) for i, state in states[0].items()] != [(i, sorted(s)) for i, s in states[1].items()]:
        return False
    return all(torch.equal(states[0][i][name], states[1][i][name]) for i in states[0] for name in states[0][i])


def start_training(
    recipe, *options: str, processes: int = 1, script: str = "scripts/train.py", launcher: list[str] | None = None
) -> subprocess.Popen:
    """Starts a training script in a process group of its own, with standard error redirected to its `stdout`.

    Args:
        launcher: options of torchrun; by default, those that start the processes on this machine.
    """
    if processes > 1:
        launcher = launcher or ["--standalone", f"--nproc_per_node={processes}"]
    start = [sys.executable, *(["-m", "torch.distributed.run", *launcher] if launcher else [])]
    return subprocess.Popen(
        [*start, str(PROJECT / script), *recipe.command, *options],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_training(recipe, *options: str, **kwargs) -> str:
    """Runs a training script that must succeed and returns its output; `kwargs` as for [`start_training`]."""
    process = start_training(recipe, *options, **kwargs)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output

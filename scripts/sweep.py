"""Trains variants of a recipe with several seeds and compares them in a table: python scripts/sweep.py SWEEP.yaml.

The file names a recipe and the values of its keys: a grid, or a space that Optuna (https://optuna.org) searches. Each
run is a command `hf-vaswani train` with a folder of its own, so the same command resumes a sweep that was stopped.
docs/how_to/sweeps.md explains all of this.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import torch
import yaml
from pydantic import BaseModel, PositiveInt, ValidationError

from hf_vaswani.cli import main
from hf_vaswani.commands.options import CommandParser
from hf_vaswani.configuration.yaml_reader import read_yaml
from hf_vaswani.errors import InputError, TrainingError, counted, reason
from hf_vaswani.evaluation.seed_table import Run, SeedTable, Variant
from hf_vaswani.files import InputPath, collect_errors, reading
from hf_vaswani.ledger import check_new, exclusive, locked
from hf_vaswani.runtime.cores import available_cores
from hf_vaswani.runtime.imports import import_extra
from hf_vaswani.runtime.launcher import PARENT, is_set
from hf_vaswani.runtime.ray_session import ray_session
from hf_vaswani.training.recipe.recipe import load_recipe
from hf_vaswani.training.setup.splits import load_test_sets

SET_HERE = {"seed", "overwrite", "push_to_hub"}  # keys of recipes
TRAIN = ("-m", "hf_vaswani", "train")
LONGEST_NAME = 80
WIDE = 10  # a range that spans this factor is searched on a logarithmic scale
SECONDS_TO_SAVE, RETRIES = 60, 8  # after a sweep was killed; after a machine of a cluster was lost


class Sweep(BaseModel, extra="allow"):
    """The keys of a sweep file. All others are recipe keys, for all runs."""

    recipe: str
    output_dir: str
    rows: dict[str, dict[str, Any] | None] = {"": None}
    grid: dict[str, list[Any]] = {}
    search: dict[str, list[Any] | str] = {}
    sampler: Literal["tpe", "random"] = "tpe"
    trials: PositiveInt = 20
    seeds: list[int] = [1]
    jobs: PositiveInt | None = None  # runs side by side
    address: str | None = None  # of a Ray cluster

    def make_rows(self) -> list[Variant]:
        """Every row with every combination of the grid, the last key changing fastest."""
        combinations = [dict(zip(self.grid, values)) for values in itertools.product(*self.grid.values())]
        return [self.make_row(keys, name, own or {}) for name, own in self.rows.items() for keys in combinations]

    def make_row(self, keys: dict[str, Any], row: str = "", own: dict[str, Any] | None = None) -> Variant:
        """A row of the table, with its name, keys that the name stands for, and keys that are added to the name."""
        texts = {key: as_text(value) for key, value in {**(own or {}), **keys}.items()}
        full = "_".join(filter(None, [row, *(f"{key.rpartition('.')[2]}-{texts[key]}" for key in keys)])) or "recipe"
        name = re.sub(r"[^\w.+-]+", "-", full)[:LONGEST_NAME].strip("-.")
        if name != full:
            name += f"-{hashlib.blake2b(full.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"
        runs = [Run(str(seed), Path(self.output_dir, f"{name}_seed_{seed}")) for seed in dict.fromkeys(self.seeds)]
        return Variant(name, texts, runs, is_named=bool(row))

    def options(self, row: Variant, run: Run) -> list[str]:
        """The options of the command of a run."""
        own = {"training.seed": run.seed, "training.output_dir": str(run.folder)}
        own |= {"training.overwrite": "false", "training.push_to_hub": "false"}
        return [f"--{key}={as_text(value)}" for key, value in {**self.model_extra, **row.keys, **own}.items()]

    def check(self, rows: list[Variant]) -> None:
        """Raise an `InputError` with all errors in the recipes of some rows."""
        keys = dict.fromkeys(key for keys in (self.model_extra, *(row.keys for row in rows)) for key in keys)
        errors = [f"{key} is set by the sweep itself" for key in keys if key.rpartition(".")[2] in SET_HERE]
        for options in [self.options(row, run) for row in rows for run in row.runs]:
            collect_errors(errors, partial(load_recipe, self.recipe, options))
        if errors:
            raise InputError.of(errors)


def read_sweep(path: Path, options: list[str]) -> Sweep:
    """A sweep file. Options such as `--seeds [1,2]` replace its keys."""
    try:
        with reading(path):
            content = read_yaml(path.read_text(encoding="utf-8"))
        name = ""
        for word in options:
            if word.startswith("--"):
                name, _, word = word.removeprefix("--").partition("=")
            content[name.replace("-", "_")] = read_yaml(word) if word else True
        sweep = Sweep.model_validate(content)
    except ValidationError as error:
        errors = [f"{path}: {'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors()]
        raise InputError.of(errors) from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise InputError(f"{path} is not a sweep in YAML: {reason(error)}") from None
    if sweep.search and (sweep.grid or sweep.rows != {"": None}):
        raise InputError(f"{path}: a search proposes the values itself: use either search, or grid and rows.")
    return sweep


def as_text(value: Any) -> str:
    """A YAML value as on the command line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Machines:
    """Trains runs side by side: one on each GPU of this machine or of a Ray cluster, or as many as requested."""

    def __init__(self, sweep: Sweep):
        self.sweep, self.train_command, self.slots = sweep, train_command, SimpleQueue()
        gpus, cores = torch.cuda.device_count(), available_cores()
        if sweep.address:
            ray = import_extra("ray")
            gpus, cores = (int(ray.cluster_resources().get(kind, 0)) for kind in ("GPU", "CPU"))
        gpus = 0 if is_set("ACCELERATE_USE_CPU") else gpus
        self.jobs = sweep.jobs or gpus or 1
        threads = max(cores // self.jobs, 1)
        names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
        slots = [{"CUDA_VISIBLE_DEVICES": name} for name in names.split(",")[:gpus]]
        slots = slots or [{"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}]
        if sweep.address:
            share = {"num_gpus": 1 / math.ceil(self.jobs / gpus), "num_cpus": 0} if gpus else {"num_cpus": threads}
            remote = ray.remote(train_command).options(max_retries=RETRIES, **share)
            self.train_command, slots = lambda *arguments: ray.get(remote.remote(*arguments)), [{}]
        for number in range(self.jobs):
            self.slots.put(slots[number % len(slots)])

    def train(self, rows: list[Variant]) -> None:
        """Train the runs of some rows, and note what went wrong."""
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda pair: self._train(*pair), [(row, run) for row in rows for run in row.runs]))

    def _train(self, row: Variant, run: Run) -> None:
        slot = self.slots.get()
        print(f"{run.folder.name}: started; its log is {run.folder}.log", file=sys.stderr, flush=True)
        arguments = [*TRAIN, self.sweep.recipe, *self.sweep.options(row, run)]
        run.error = self.train_command(arguments, run.folder.resolve(), os.getcwd(), slot)
        print(f"{run.folder.name}: {run.error or 'finished'}", file=sys.stderr, flush=True)
        self.slots.put(slot)


def train_command(arguments: list[str], folder: Path, place: str, slot: dict[str, str]) -> str | None:
    """Run a command in `place`, with its log next to its folder, unless it is finished; return what went wrong."""
    log, done = Path(f"{folder}.log"), f"finished: {arguments}\n"
    if (folder / "results.json").exists() and log.exists() and log.read_text("utf-8", "replace").endswith(done):
        return None
    end = time.monotonic() + SECONDS_TO_SAVE
    while folder.exists() and time.monotonic() < end:  # a run of a sweep that was killed saves its state and ends
        with suppress(BlockingIOError), locked(folder):
            break
        time.sleep(0.5)
    with log.open("a+b") as file:
        begin = file.seek(0, os.SEEK_END)
        # Ctrl-C reaches the sweep alone, whose end the run notices.
        environment = {**os.environ, **slot, PARENT: str(os.getpid())}
        output = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT, "start_new_session": True}
        code = subprocess.run([sys.executable, *arguments], cwd=place, env=environment, **output).returncode
        if code == 0:
            file.write(done.encode())
            return None
        file.seek(begin)
        lines = ["its log is empty", *filter(None, file.read().decode("utf-8", "replace").splitlines())]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return f"exit status {code}: {(errors or lines)[-1]}"


def make_space(sweep: Sweep) -> dict[str, Any]:
    """Optuna's distribution for each key: a list of values, or a range `low..high`, of integers if both ends are."""
    optuna: Any = import_extra("optuna", "sweep") if sweep.search else None
    space, ends = {}, ({}, {})
    for key, values in sweep.search.items():
        try:
            if isinstance(values, list):
                space[key] = optuna.distributions.CategoricalDistribution(list(map(as_text, values)))
            else:
                is_whole = re.fullmatch(r"[-+]?\d+\.\.[-+]?\d+", values)
                low, high = values = list(map(int if is_whole else float, values.split("..")))
                kind = "IntDistribution" if is_whole else "FloatDistribution"
                space[key] = getattr(optuna.distributions, kind)(low, high, log=low > 0 and high >= WIDE * low)
        except ValueError:
            raise InputError(f"search: {key}: {values}: write a range, as in 0.1..0.3, or a list of values.") from None
        ends[0][key], ends[1][key] = values[0], values[-1]
    sweep.check([sweep.make_row(keys) for keys in ends])
    return space


def search(sweep: Sweep, space: dict[str, Any], machines: Machines) -> list[Variant]:
    """Train trials that Optuna proposes for the lowest validation loss, in batches that are trained side by side.

    Proposals depend only on the losses so far and the size of the batches, so a search that was stopped repeats them.
    """
    optuna: Any = import_extra("optuna", "sweep")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {
        "tpe": partial(optuna.samplers.TPESampler, constant_liar=True),
        "random": optuna.samplers.RandomSampler,
    }
    study, states = optuna.create_study(sampler=samplers[sweep.sampler](seed=1)), optuna.trial.TrialState
    rows: dict[str, Variant] = {}
    size = math.ceil(machines.jobs / len(sweep.seeds))
    for first in range(0, sweep.trials, size):
        batch = []
        for trial in [study.ask(space) for _ in range(first, min(first + size, sweep.trials))]:
            row = sweep.make_row(
                {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in trial.params.items()}
            )
            try:
                sweep.check([row])
                batch.append((trial, row))
            except InputError:  # conflicting values
                study.tell(trial, state=states.PRUNED)
        new = {row.name: row for _, row in batch if row.name not in rows}
        machines.train(list(new.values()))
        rows |= new
        for trial, row in batch:
            loss = rows[row.name].mean_loss
            study.tell(trial, *([loss] if math.isfinite(loss) else [None, states.FAIL]))
    return list(rows.values())


def run(options: argparse.Namespace) -> None:
    """Train the runs of a sweep, and write and print their table."""
    sweep = read_sweep(Path(options.sweep), options.options)
    rows, folder = sweep.make_rows(), Path(sweep.output_dir)
    sweep.check(rows)
    space = make_space(sweep)
    if (folder / "README.md").exists() and not (folder / "sweep.json").exists():
        check_new(folder)
    with ExitStack() as stack:
        stack.enter_context(exclusive(folder))
        if sweep.address:
            stack.enter_context(ray_session(sweep.address))
        machines = Machines(sweep)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends at once; the runs notice, and save their states
        machines.train(rows)
        rows += search(sweep, space, machines) if space else []
        recipe = load_recipe(sweep.recipe, sweep.options(rows[0], rows[0].runs[0]))
        references = {name: [target for _, target in pairs] for name, pairs in load_test_sets(recipe.data).items()}
        table = SeedTable(rows, references)
        files = table.save(folder, f"Sweep of {sweep.recipe}")
    print("\n\n".join(filter(None, [table.to_text(), table.best_line(), "\n".join(map(str, files))])))
    if table.failed:
        names = ", ".join(run.folder.name for run in table.failed)
        raise TrainingError(f"{counted(len(table.failed), 'run')} failed: {names}. Run the same command to retry.")


def make_parser() -> CommandParser:
    """The parser of the script."""
    parser = CommandParser(
        prog="sweep.py",
        rest_is_free=True,
        usage="python scripts/sweep.py SWEEP.yaml [--key value ...]",
        description="Train variants of a recipe with several seeds, and compare them in a table. The same command "
        "resumes a sweep that was stopped.",
    )
    parser.add_argument("sweep", type=InputPath, metavar="SWEEP.yaml", help="the sweep")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="--key value", help="keys, overriding the file")
    parser.set_defaults(run=run, needs_torch=True)
    return parser


if __name__ == "__main__":
    sys.exit(main(parser=make_parser()))

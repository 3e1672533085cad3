"""Runs the stages of a recipe, each after those that it needs, and then its last training run.

A finished stage is not run again; one that was stopped is resumed. Training runs use all processes. Stages that
translate or average run in the main process, which translates with a worker process per core, and the others wait.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelerate import PartialState

from ...data.tokenizers.tokenizer import SAVED_FILES
from ...errors import InputError, TrainingInterrupted, counted, reason
from ...hub.run_report import RunReport
from ...hub.wording import duration
from ...models.model_files import CONFIG_FILE
from ...runtime.launcher import is_set
from ...runtime.process_group import process_group
from ...runtime.processes import on_main_process, say
from ...runtime.signals import StopSignals
from ...runtime.threads import cores_of_run, threads_set
from ..checkpoints.average import average
from ..checkpoints.checkpoint import is_of_checkpoints
from ..checkpoints.output_folder import BEST, CHECKPOINTS
from ..processes import processes_of
from ..recipe.recipe import Recipe
from ..setup.output import hold_output
from ..setup.resume import FINAL_WEIGHTS, has_final_weights
from .arguments import AVERAGE, PAIRS_FILE, TRAIN, TRANSLATE
from .check import FoundStages, State, check_stages, with_overwrite
from .plan import Plan, PlannedStage, make_plan
from .record import MODEL_FILES, Record, inputs_from_stages, product_digest, read_record, settings_of
from .report import CompletedReport, result_of_run
from .translate_text import PROGRESS_FILE, TRANSLATIONS_FILE, make_pairs

# Trains a recipe, as `train` does.
TrainOne = Callable[..., RunReport | None]
DOES = {TRAIN: "trains", TRANSLATE: "translates", AVERAGE: "averages"}


def run_stages(recipe: Recipe, train_one: TrainOne) -> RunReport | None:
    """Run or resume the stages of a recipe, and then its last training run.

    Args:
        train_one: trains a recipe without stages.

    Returns:
        The report of the last run in the main process; `None` in the others.

    Raises:
        InputError, TrainingInterrupted, TrainingError: as `train` does; the errors of all stages are raised together,
            before any stage runs.
    """
    plan = make_plan(recipe)
    with process_group(cpu=is_set("ACCELERATE_USE_CPU")) as group:
        with processes_of(plan.last, ends_group=False) as processes:
            found = on_main_process(processes, lambda: check_stages(plan, processes))
        with hold_output(plan.folder, group):
            for number, planned in enumerate(plan.stages, start=1):
                _run_stage(planned, f"{number} of {len(plan.stages)}", plan, found, train_one, group)
            say(f"\nlast run, after {counted(len(plan.stages), 'stage')}: {plan.last.training.output_dir}", group)
            plan.last.made_from = on_main_process(group, lambda: _products(plan.begins_with, plan))
            return train_one(plan.last, complete=CompletedReport(plan), ends_group=False)


def _run_stage(
    planned: PlannedStage, number: str, plan: Plan, found: FoundStages, train_one: TrainOne, group: PartialState
) -> None:
    """Run a stage unless it is finished, and record its results."""
    state, kind = found.states[planned.name], planned.stage.kind
    if state is State.FINISHED:
        say(f"\nstage {planned.name} ({number}) is finished", group)
        return
    say(f"\nstage {planned.name} ({number}) {DOES[kind]}: {planned.folder}", group)
    record = on_main_process(group, lambda: _begin(planned, state, plan, found))
    if kind == TRAIN:
        try:
            report = train_one(with_overwrite(planned.arguments, False), ends_group=False)
        except InputError:
            before = found.records[planned.name]
            if state is State.BEGUN and before is not None:  # the run was refused, so what it made is still there
                on_main_process(group, lambda: before.write(planned.record))
            raise

        def finish_run() -> None:
            _finish(planned, record, result_of_run(report), report.seconds)

        on_main_process(group, finish_run)
        return
    if group.is_main_process:
        on_main_process(group, lambda: _run_other(planned, record, plan, group))
    else:
        with StopSignals():  # the main process stops for all
            on_main_process(group, lambda: None)


def _begin(planned: PlannedStage, state: State, plan: Plan, found: FoundStages) -> Record:
    """Remove what a stage replaces and write its record, before anything is written into its folder."""
    before = found.records[planned.name]
    if state is State.REPLACED and before is not None:
        _remove(planned, before.kind)
    inputs = {**found.inputs[planned.name], **inputs_from_stages(_products(planned.needs, plan))}
    seconds = before.seconds if before is not None and state is State.BEGUN else 0.0
    record = Record(planned.stage.kind, settings_of(planned.stage), inputs, seconds)
    planned.folder.parent.mkdir(parents=True, exist_ok=True)
    record.write(planned.record)
    return record


def _products(names: list[str], plan: Plan) -> dict[str, str]:
    """Digests of what the named stages, which are finished, made."""
    records = {name: read_record(plan.named(name).record) for name in names}
    return {name: record.product if record else "" for name, record in records.items()}


def _remove(planned: PlannedStage, kind: str) -> None:
    """Delete what a stage of the given kind made, and nothing else in its folder.

    What marks the stage as complete goes first. A run keeps its recipe, which marks the folder as that of a run: with
    no checkpoint left, the run starts over and removes the rest itself.
    """
    names = {
        TRAIN: (*FINAL_WEIGHTS, f"{BEST}/update-*", f"{CHECKPOINTS}/update-*"),
        TRANSLATE: (PAIRS_FILE, TRANSLATIONS_FILE, PROGRESS_FILE),
        AVERAGE: (*MODEL_FILES, *SAVED_FILES),
    }[kind]
    try:
        for path in [path for name in names for path in planned.folder.glob(name)]:
            if not path.is_dir():
                path.unlink(missing_ok=True)
            elif is_of_checkpoints(path.name):
                shutil.rmtree(path)
    except OSError as error:
        raise InputError(f"{planned.folder} cannot be written: {reason(error)}") from None


def _run_other(planned: PlannedStage, record: Record, plan: Plan, group: PartialState) -> None:
    """Run a stage that does not train."""
    began, seconds = time.monotonic(), record.seconds
    try:
        result = _translate(planned, plan, group) if planned.stage.kind == TRANSLATE else _average(planned, plan)
    finally:
        # The time of a stage that was stopped counts, too. A launcher may pass on the signal that stopped it.
        with StopSignals() as signals:
            record.seconds = seconds + time.monotonic() - began
            record.write(planned.record)
    if signals.received:
        raise TrainingInterrupted(
            f"Stopped by {signals.name}. Run the same command again to continue.", signals.received
        )
    _finish(planned, record, result, record.seconds)
    (planned.folder / TRANSLATIONS_FILE).unlink(missing_ok=True)


def _translate(planned: PlannedStage, plan: Plan, group: PartialState) -> dict[str, Any]:
    training = plan.recipe.training
    cores = cores_of_run(training.cpu_threads, group.num_processes)
    # The last bits of scores depend on the number of threads, so it must not be what an earlier stage has left.
    with threads_set(cores):
        counts = make_pairs(planned.folder, planned.arguments, plan.recipe.data, training.overwrite, cores)
    say(counts.in_words())
    return asdict(counts)


def _average(planned: PlannedStage, plan: Plan) -> dict[str, Any]:
    arguments, folder = planned.arguments, planned.folder
    # Stopped before it was recorded: the config is written last.
    if (folder / CONFIG_FILE).exists() and has_final_weights(folder):
        return {}
    finished = not arguments.is_of_checkpoints
    sources = [Path(name) for name in arguments.models]
    try:
        folder.mkdir(parents=True, exist_ok=True)  # the folder may exist, with other files in it
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
            members = average(sources, Path(made), arguments.last, arguments.best, finished)
            for path in sorted(Path(made).iterdir(), key=lambda path: path.name == CONFIG_FILE):
                path.replace(folder / path.name)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {reason(error)}") from None
    say("\n".join([f"the mean of the weights in {counted(len(members), 'folder')}:", *map(str, members)]))
    return {}


def _finish(planned: PlannedStage, record: Record, result: dict[str, Any], seconds: float) -> None:
    record.seconds, record.result, record.is_finished = float(seconds), result, True
    record.product = product_digest(planned)
    record.write(planned.record)
    say(f"stage {planned.name} is finished, after {duration(seconds)}")

"""Checks all stages of a recipe before any of them runs: reports all errors at once, and finds what is left to do."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from ...data.sources.text_files import check_file, iterate_lines
from ...data.sources.text_source import TextSource, digest
from ...errors import InputError
from ...files import collect_errors
from ...models.model_files import CONFIG_FILE
from ...text.languages import language_code
from ..check import look_at, open_hub
from ..checkpoints.average import members_of, open_members
from ..checkpoints.checkpoint import weights_file
from ..checkpoints.output_folder import RECIPE_FILE, read_stored
from ..recipe.recipe import Recipe
from ..setup.resume import MADE_FROM, can_go_on, has_weights
from ..setup.splits import held_out_of, languages_of, own_sources, own_text, parse_sources, text_errors_to_end
from ..setup.text_mix import OWN, REVERSED
from ..setup.tokenizer_and_model import FREE_FIELDS
from .arguments import AVERAGE, TRAIN, TRANSLATE, AverageArguments
from .options import PREFIX
from .order import models_named
from .plan import Plan, PlannedStage
from .record import (
    OF_FILE,
    OWN_TEXT,
    Record,
    differences,
    inputs_from_stages,
    is_complete,
    model_digest,
    read_record,
    settings_of,
)
from .teacher import asked_languages, teacher_errors
from .together import errors_of_models_used, together_errors

VALIDATION_TEXT, HELD_OUT = "the validation text", "what is held out"
LANGUAGES, NAMES = "the pair of languages", "source_language or target_language"
OVERWRITE = "Choose another --output_dir, or set --overwrite true to redo what has changed and everything made from it"


# Of texts, files, and models.
Digests = dict[Hashable, str]


class State(Enum):
    """What is left to do for a stage."""

    NEW = "it is not there"
    BEGUN = "it is there in part, or may be continued"
    FINISHED = "nothing is to be done"
    REPLACED = "a different stage is there, which is removed first"


@dataclass(frozen=True)
class FoundStages:
    """What the output folder holds of each stage, by the name of the stage.

    Attributes:
        states: what is left to do for each stage.
        records: the record of each stage; `None` if the stage was not begun.
        changes: what has changed in each stage that is to be replaced.
        inputs: digests of what each stage reads and no stage makes.
    """

    states: dict[str, State]
    records: dict[str, Record | None]
    changes: dict[str, list[str]]
    inputs: dict[str, dict[str, str]]

    def is_finished(self, name: str) -> bool:
        """Whether nothing is to be done for a stage."""
        return self.states[name] is State.FINISHED


def check_stages(plan: Plan, processes: Accelerator) -> FoundStages:
    """Check all stages and the last run.

    Nothing is written, except that a repository on the Hub is created if there are no errors.

    Raises:
        InputError: all errors at once.
    """
    found, errors = find_stages(plan, {})
    errors += _errors_of_runs(plan, found, processes)
    errors += errors_of_others(plan, [planned.name for planned in plan.stages if found.is_finished(planned.name)], {})
    if not errors:
        errors += _errors_in_texts(plan, found)
    collect_errors(errors, lambda: open_hub(plan.last, create=not errors))
    if errors:
        raise InputError.of(errors)
    return found


def find_stages(plan: Plan, digests: Digests) -> tuple[FoundStages, list[str]]:
    """What the output folder holds of each stage, and why it cannot be used.

    Args:
        digests: those that are known, and to which others are added, so that several plans read each file only once.
    """
    overwrites = plan.recipe.training.overwrite
    errors: list[str] = []
    found = FoundStages({}, {}, {}, {})
    inputs = _Inputs(plan.recipe, digests)
    for planned in plan.stages:
        where = f"{PREFIX}.{planned.name}"
        record = collect_errors(errors, lambda planned=planned: read_record(planned.record))
        found.records[planned.name] = record
        found.inputs[planned.name] = collect_errors([], lambda planned=planned: inputs.of(planned)) or {}
        state, why = _state(planned, record, found)
        if state is State.REPLACED:
            found.changes[planned.name] = why
        if record is not None and record.kind != planned.stage.kind:
            errors.append(
                f"{where}: {planned.folder} contains a stage of kind {record.kind}, but this one is of kind "
                f"{planned.stage.kind}. Delete the folder and {planned.record}, or choose another name or "
                "--output_dir."
            )
        elif state is State.REPLACED and not overwrites:
            errors.append(f"{where}: {planned.folder} contains another stage ({'; '.join(why)}). {OVERWRITE}")
        if record is None and planned.folder.exists() and any(planned.folder.iterdir()):
            errors.append(f"{where}: {planned.folder} is not empty and contains no stage. Move it elsewhere.")
        found.states[planned.name] = state
    if not overwrites and (changed := collect_errors(errors, lambda: _changed_since_last_run(plan, found))):
        names = ", ".join(changed)
        errors.append(
            f"{plan.last.training.output_dir} contains a run that used another model or text from {names}. {OVERWRITE}"
        )
    return found, errors


def errors_of_others(plan: Plan, finished: list[str], known: dict[str, list[str]]) -> list[str]:
    """Errors in the stages that do not train, and in how models of stages are used together.

    Args:
        finished: names of stages that are finished.
        known: errors in the files and models of stages that were looked at before, so that several plans look at each
            only once.
    """
    errors = errors_of_models_used(plan.recipe, plan.recipe.stages)
    for planned in plan.stages:
        found = []
        if planned.name not in finished and planned.stage.kind == TRAIN:
            found = errors_of_models_used(planned.stage.arguments, plan.recipe.stages)
        elif planned.name not in finished:
            made = [plan.named(name).folder for name in planned.needs if name in finished]
            key = repr([settings_of(planned.stage), languages_of(plan.recipe.data), list(plan.recipe.stages), made])
            if key not in known:
                known[key] = _errors_of_other(planned, plan.recipe, made)
            found = [*together_errors(planned.stage, plan.recipe.stages), *known[key]]
        elif planned is plan.teacher:  # which the last run is compared with
            found = _errors_of_models(planned, plan.recipe)
        errors += [f"{PREFIX}.{planned.name}.{error}" for error in found]
    return errors


def _state(planned: PlannedStage, record: Record | None, found: FoundStages) -> tuple[State, list[str]]:
    """The state of a stage and what has changed; the stages that it needs must have been checked before."""
    if record is None or (record.kind == planned.stage.kind == TRAIN and not has_weights(planned.folder)):
        # Before its first weights are saved, a run has nothing to lose.
        return State.NEW, []
    made = inputs_from_stages(_products(planned.needs, found))
    why = differences(record, planned, {**found.inputs[planned.name], **made})
    why += [f"stage {name} has changed or is trained further" for name in planned.needs if not found.is_finished(name)]
    if not why and is_complete(record, planned):
        return State.FINISHED, []
    if not why and planned.stage.kind == TRAIN and not can_go_on(planned.folder):
        why = ["it cannot be trained further or saved differently, since its checkpoints are gone"]
    return (State.REPLACED if why else State.BEGUN), why


def _products(names: list[str], found: FoundStages) -> dict[str, str]:
    """Digests of what those of the named stages that are finished have made."""
    return {name: record.product for name in names if found.is_finished(name) and (record := found.records[name])}


def _changed_since_last_run(plan: Plan, found: FoundStages) -> list[str]:
    """Stages that the last run needs and that are unfinished, or have made something else since it began.

    Raises:
        InputError: if the stored recipe of the last run is damaged.
    """
    stored = Path(plan.last.training.output_dir) / RECIPE_FILE
    if not stored.exists():
        return []
    unfinished = [name for name in plan.last_needs if not found.is_finished(name)]
    before = read_stored(stored).get(MADE_FROM, {})  # an earlier version stored none
    made = _products(plan.begins_with, found)
    return unfinished + [name for name, digest in made.items() if before.get(name, digest) != digest]


class _Inputs:
    """Digests of what stages read and no stage makes; each file is read only once."""

    def __init__(self, recipe: Recipe, digests: Digests):
        self.recipe = recipe
        self._digests = digests

    def of(self, planned: PlannedStage) -> dict[str, str]:
        """Digests of the inputs of a stage.

        Raises:
            InputError: if a text cannot be read.
        """
        arguments, kind = planned.stage.arguments, planned.stage.kind
        found = {}
        if kind == TRANSLATE:
            files = [name for name in arguments.inputs if is_file_name(name, self.recipe) and Path(name).is_file()]
            found |= {f"{OF_FILE}{name}": self._of_files(name) for name in files}
            found[LANGUAGES] = repr(asked_languages(arguments, self.recipe.data))
            if arguments.has_own_text:
                names = languages_of(self.recipe.data)
                if None in map(language_code, names):  # they are names of columns
                    found[NAMES] = repr(names)
                held_out = held_out_of(self.recipe.data)
                found[HELD_OUT] = repr(held_out) if held_out else ""
        if kind == TRAIN or (kind == TRANSLATE and arguments.has_own_text):
            data = arguments.data if kind == TRAIN else self.recipe.data
            found[OWN_TEXT] = self._text(own_sources(data))
            if kind == TRAIN and "validation" in (sources := parse_sources(own_text(data))):
                found[VALIDATION_TEXT] = self._text(sources["validation"])
        for names in models_named(kind, arguments).values():
            for name in names:
                if name not in self.recipe.stages and (known_by := self._of_model(name, arguments)):
                    key = "checkpoints of" if kind == AVERAGE and arguments.is_of_checkpoints else "model"
                    found[f"{key} {name}"] = known_by
        return found

    def _of_model(self, name: str, arguments: Any) -> str:
        """Digest of a model that is used, or of the checkpoints that are averaged; empty if there are none."""
        if not isinstance(arguments, AverageArguments):
            return self._of_files(name)
        last, best, finished = arguments.last, arguments.best, not arguments.is_of_checkpoints
        # What cannot be averaged is reported by `_errors_of_other`, unless the stage is finished and needs it no more.
        members = collect_errors([], lambda: members_of(Path(name), last, best, finished)) or []
        return " ".join(
            self._of_files(str(member.path if member.is_model else weights_file(member.path))) for member in members
        )

    def _of_files(self, name: str) -> str:
        return self._digest(Path(name), lambda: model_digest(Path(name)))

    def _text(self, sources: list[TextSource]) -> str:
        return " ".join(self._digest(source, lambda source=source: digest(source)) for source in sources)

    def _digest(self, key: Hashable, read: Callable[[], str]) -> str:
        if key not in self._digests:
            self._digests[key] = read()
        return self._digests[key]


def is_file_name(name: str, recipe: Recipe) -> bool:
    """Whether an input of a stage is a file, and not a stage or the training text."""
    return name != OWN and name not in recipe.stages


def _errors_of_runs(plan: Plan, found: FoundStages, processes: Accelerator) -> list[str]:
    """Errors in the runs that are not finished; what stages have yet to make does not count as missing."""
    errors = look_at(_without_unfinished(plan.last, plan, found), processes)[0]
    for planned in plan.stages:
        state = found.states[planned.name]
        if planned.stage.kind == TRAIN and state is not State.FINISHED:
            recipe = _without_unfinished(planned.arguments, plan, found)
            of_stage = look_at(with_overwrite(recipe, state is State.REPLACED), processes)[0]
            if of_stage and state is State.BEGUN and plan.recipe.training.overwrite:
                instead = look_at(with_overwrite(recipe, True), processes)[0]
                if len(instead) < len(of_stage):  # it can be redone, but not continued
                    of_stage, found.states[planned.name] = instead, State.REPLACED
            errors += [f"{PREFIX}.{planned.name}: {error}" for error in of_stage if error not in errors]
    return errors


def _without_unfinished(recipe: Recipe, plan: Plan, found: FoundStages) -> Recipe:
    """A recipe without what unfinished stages have yet to make, so that the rest of it can be checked."""
    missing = {str(p.folder): p for p in plan.stages if not found.is_finished(p.name)}
    data, training, tokenizer = recipe.data, recipe.training, recipe.tokenizer
    model: dict[str, Any] = dict(recipe.model)
    if data.text:
        folders = tuple(f"{folder}/" for folder in missing)
        kept = [name for name in data.text if not Path(name).as_posix().startswith(folders)]
        text = {name: data.text[name] for name in kept} if isinstance(data.text, dict) else kept
        data = data.model_copy(update={"text": text or None})
    teachers = [name for name in training.teachers if name not in missing]
    training = training.model_copy(update={"distill_from": teachers or None})
    if tokenizer.path in missing:
        tokenizer = tokenizer.model_copy(update={"path": None})
    evaluation = recipe.evaluation
    if evaluation.rerank_with in missing:
        evaluation = evaluation.model_copy(update={"rerank_with": None})
    while training.start_from in missing:
        start = missing[training.start_from]
        if start.stage.kind == TRAIN:
            # The run has the architecture of that model; `together.py` reports what contradicts it.
            model = {**start.arguments.model, **{key: model[key] for key in FREE_FIELDS & model.keys()}}
            training = training.model_copy(update={"start_from": start.arguments.training.start_from})
            continue
        # The mean has the architecture of its first model, which may be a folder of checkpoints.
        first = start.arguments.models[0]
        is_model = first in missing or (Path(first) / CONFIG_FILE).exists()
        training = training.model_copy(update={"start_from": first if is_model else None})
    peft = recipe.peft if training.start_from else type(recipe.peft)()
    return recipe.model_copy(
        update={
            "data": data,
            "training": training,
            "tokenizer": tokenizer,
            "evaluation": evaluation,
            "model": model,
            "peft": peft,
        }
    )


def with_overwrite(recipe: Recipe, overwrite: bool) -> Recipe:
    """A recipe with `training.overwrite` set to a value."""
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"overwrite": overwrite})})


def _errors_of_models(planned: PlannedStage, recipe: Recipe) -> list[str]:
    """Errors in the models that a stage translates with."""
    arguments = planned.stage.arguments
    return teacher_errors(arguments, recipe.data, [name for name in arguments.models if name not in recipe.stages])


def _check_lines(path: str) -> None:
    """Read a file of text to its end, so that a bad line is found before any work.

    Raises:
        InputError: if it cannot be read, or has no text.
    """
    check_file(path)
    for _ in iterate_lines(path):
        pass


def _errors_in_texts(plan: Plan, found: FoundStages) -> list[str]:
    """Errors anywhere in the texts that runs read, if a stage would work for hours before that."""
    unfinished = [planned for planned in plan.stages if not found.is_finished(planned.name)]
    return errors_in_texts(plan, unfinished) if unfinished else []


def errors_in_texts(plan: Plan, unfinished: list[PlannedStage]) -> list[str]:
    """Errors anywhere in the texts that the last run and unfinished stages read."""
    translating = [planned for planned in unfinished if planned.stage.kind == TRANSLATE]
    runs = [plan.last, *(planned.arguments for planned in unfinished if planned.stage.kind == TRAIN)]
    is_train_read = any(planned.stage.arguments.has_own_text for planned in translating) or any(
        {*(run.data.text or [OWN])} & {OWN, REVERSED} or held_out_of(run.data) for run in runs
    )
    texts = {repr(data): data for data in (own_text(run.data) for run in runs)}
    return [error for data in texts.values() for error in text_errors_to_end(data, is_train_read)]


def _errors_of_other(planned: PlannedStage, recipe: Recipe, made: list[Path]) -> list[str]:
    """Errors in the files and models of a stage that does not train.

    Args:
        made: folders of finished stages that it needs.
    """
    arguments, errors = planned.stage.arguments, []
    if planned.stage.kind == TRANSLATE:
        errors += _errors_of_models(planned, recipe)
        for path in [name for name in arguments.inputs if is_file_name(name, recipe)]:
            found: list[str] = []
            collect_errors(found, lambda path=path: _check_lines(path))
            errors += [f"translate.input: {error}" for error in found]
            if arguments.keep_closest:
                errors.append(
                    f"translate.keep_closest: {path} contains no translations to compare with. Use keep_closest only "
                    "for own and for stages that translate."
                )
    elif planned.stage.kind == AVERAGE:
        others = [Path(name) for name in arguments.models if name not in recipe.stages]
        missing = [path for path in others if not path.is_dir()]
        errors += [f"average.models: {path} is neither a stage nor a folder. Specify one." for path in missing]
        there = [*made, *(path for path in others if path not in missing)]
        last, best, wrong = arguments.last, arguments.best, []
        collect_errors(wrong, lambda: open_members(there, last, best, not arguments.is_of_checkpoints))
        errors += [f"average.models: {error}" for error in wrong]
    return errors

"""Which stages each stage needs, and the order in which they run: each after those that it needs."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.sources.tables import READERS, file_format
from ...errors import nearest
from ...text.languages import is_same_language
from ..recipe.arguments import RERANKER
from ..setup.text_mix import OWN, text_errors
from .arguments import AVERAGE, PAIRS_FILE, TRAIN, TRANSLATE, Stage
from .options import PREFIX

if TYPE_CHECKING:  # because `recipe` imports this module
    from ..recipe.recipe import Recipe


def models_named(kind: str, arguments: Any) -> dict[str, list[str]]:
    """Key → the models that it names: stages, folders, or ids on the Hub.

    Args:
        arguments: the recipe of a stage that trains; otherwise the stage's keys.
    """
    if kind == TRANSLATE:
        return {"translate.model": arguments.models}
    if kind == AVERAGE:
        return {"average.models": list(arguments.models)}
    named = {
        "training.start_from": arguments.training.start_from,
        "tokenizer.path": arguments.tokenizer.path,
        RERANKER: arguments.evaluation.rerank_with,
    }
    found = {key: [name] for key, name in named.items() if name}
    return found | ({"training.distill_from": names} if (names := arguments.training.teachers) else {})


def needs(kind: str, arguments: Any, stages: Mapping[str, Stage]) -> list[str]:
    """The stages that a stage, or the last training run, needs, each once."""
    names = [name for those in models_named(kind, arguments).values() for name in those]
    if kind == TRAIN and isinstance(arguments.data.text, dict | list):
        names += [str(name) for name in arguments.data.text]
    if kind == TRANSLATE:
        names += arguments.inputs
    return list(dict.fromkeys(name for name in names if name in stages))


def in_order(stages: Mapping[str, Stage]) -> list[Stage]:
    """The stages, each after those that it needs, and otherwise in the given order; there must be no cycle."""
    ordered: dict[str, Stage] = {}

    def add(name: str) -> None:
        for other in needs(stages[name].kind, stages[name].arguments, stages):
            if other not in ordered:
                add(other)
        ordered[name] = stages[name]

    for name in stages:
        if name not in ordered:
            add(name)
    return list(ordered.values())


def cycle(stages: Mapping[str, Stage]) -> list[str]:
    """Stages that need each other in a cycle, with the first one repeated at the end; empty without a cycle."""
    done: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in needs(stages[name].kind, stages[name].arguments, stages):
            if found := search(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in stages if (found := search(name, []))), [])


def reference_errors(recipe: "Recipe") -> list[str]:
    """Errors in what a recipe and its stages refer to: unknown texts and models, cycles, wrong directions."""
    stages, errors = recipe.stages, []
    makers = {name: [s.name for s in stages.values() if s.makes_model is is_model]
              for name, is_model in (("text", False), ("model", True))}  # fmt: skip
    for where, kind, arguments in _all_of(recipe):
        if kind == TRAIN:
            errors += [where + error for error in text_errors(arguments.data.text, makers["text"], makers["model"])]
            errors += [where + error for error in _word_teacher_errors(arguments, recipe)]
            errors += [where + error for error in _reranker_errors(arguments, recipe)]
        for key, names in models_named(kind, arguments).items():
            errors += [f"{where}{key}: {error}" for error in _model_errors(names, stages, makers["model"])]
        if kind == TRANSLATE:
            errors += [f"{where}{error}" for error in direction_errors(arguments, recipe)]
            errors += [f"{where}translate.input: {error}" for error in _input_errors(arguments, makers)]
        if kind == AVERAGE:
            errors += [f"{where}{error}" for error in _checkpoint_errors(arguments, stages)]
    if found := cycle(stages):
        steps = " needs ".join(found)
        errors.append(f"{PREFIX}: {steps}, which is a cycle. Remove one of these references")
    return errors


def directions(name: str, stages: Mapping[str, Stage]) -> set[str]:
    """The sides that the model of a stage can translate: `"source"`, `"target"` or both.

    Args:
        name: a stage that makes a model.
    """
    stage, seen = stages[name], set()
    while stage.kind == AVERAGE and stage.name not in seen:
        seen.add(stage.name)
        first = next(iter(stage.arguments.models), "")
        if first not in stages or not stages[first].makes_model:
            return {"source", "target"}
        stage = stages[first]
    if stage.kind != TRAIN:
        return {"source", "target"}
    if "reversed" in (stage.arguments.data.text or ()):
        return {"source", "target"}
    return {_side(stage.arguments)}


def direction_errors(arguments: Any, recipe: "Recipe") -> list[str]:
    """Errors for stages whose models are to translate in a direction that they were not trained in."""
    if _is_same_language(recipe):
        return []
    return [
        f"translate.side={arguments.side}: stage '{name}' learns only the opposite direction. Train it in both, with "
        f"data.text: [own, reversed], or in the required one, with data.reversed: "
        f"{'true' if arguments.side == 'target' else 'false'}"
        for name in arguments.models
        if name in recipe.stages and recipe.stages[name].makes_model
        if arguments.side not in directions(name, recipe.stages)
    ]


def _word_teacher_errors(run: "Recipe", recipe: "Recipe") -> list[str]:
    """Errors for stages that do not learn the directions in which a run distills them.

    Args:
        run: the recipe of a stage that trains, or of the last run.
        recipe: with all stages.
    """
    if _is_same_language(recipe):
        return []
    needed = {"source", "target"} if "reversed" in (run.data.text or ()) else {_side(run)}
    return [
        f"training.distill_from: stage '{name}' learns only {'one' if len(needed) > 1 else 'the opposite'} direction. "
        "Choose another stage"
        for name in run.training.teachers
        if name in recipe.stages and recipe.stages[name].makes_model
        if not needed <= directions(name, recipe.stages)
    ]


def _reranker_errors(run: "Recipe", recipe: "Recipe") -> list[str]:
    """An error for a stage that does not learn the direction in which it is to rerank the translations of a run.

    Arguments are those of [`_word_teacher_errors`].
    """
    name, opposite = run.evaluation.rerank_with, "source" if run.data.reversed else "target"
    if name not in recipe.stages or not recipe.stages[name].makes_model or _is_same_language(recipe):
        return []
    if opposite in directions(name, recipe.stages):
        return []
    return [f"{RERANKER}: stage '{name}' learns only the run's own direction. Choose a stage of the other direction"]


def _side(run: "Recipe") -> str:
    """The side of the text that a model for one direction translates."""
    return "target" if run.data.reversed else "source"


def _is_same_language(recipe: "Recipe") -> bool:
    """Whether both sides are in the same language, so that the direction makes no difference."""
    languages = recipe.data.source_language, recipe.data.target_language
    return None not in languages and is_same_language(*languages)


def _all_of(recipe: "Recipe") -> Iterable[tuple[str, str, Any]]:
    """Prefix for error messages, kind and arguments of the last run and of each stage."""
    yield "", TRAIN, recipe
    for stage in recipe.stages.values():
        yield f"{PREFIX}.{stage.name}.", stage.kind, stage.arguments


def _checkpoint_errors(arguments: Any, stages: Mapping[str, Stage]) -> list[str]:
    """Errors for runs that keep fewer checkpoints than are to be averaged, or write fewer."""
    errors = []
    # The last step is always saved, but not always validated.
    for key, limit, interval, rounded in (
        ("last", "save_total_limit", "save_steps", math.ceil), ("best", "keep_best", "eval_steps", math.floor),
    ):  # fmt: skip
        number = getattr(arguments, key)
        for name in arguments.models if number else []:
            if name not in stages or stages[name].kind != TRAIN:
                continue
            training = stages[name].arguments.training
            kept, steps, every = getattr(training, limit), training.max_steps, getattr(training, interval)
            if number > kept:
                errors.append(
                    f"average.{key}={number}: stage '{name}' keeps only {kept} (training.{limit}); raise that"
                )
            elif steps and every > 0 and number > (saved := rounded(steps / every)):
                errors.append(
                    f"average.{key}={number}: stage '{name}' saves only {saved}, with "
                    f"training.max_steps={steps} and training.{interval}={every}; lower the latter"
                )
    return errors


def _input_errors(arguments: Any, makers: dict[str, list[str]]) -> list[str]:
    """Errors for inputs that make no text or that nothing has the name of.

    Args:
        makers: names of the stages that make text, and of those that make a model.
    """
    errors, known = [], [OWN, *makers["text"]]
    for name in arguments.inputs:
        if name in makers["model"]:
            errors.append(f"stage '{name}' makes a model, not text")
        elif name not in known and file_format(name) in READERS and Path(name).name != PAIRS_FILE:
            errors.append(f"{name} contains both sides of pairs. Specify a file with only the sentences to translate")
        elif name not in known and not Path(name).exists() and (close := nearest(name, known)):
            errors.append(f"'{name}' is neither a stage nor a file; did you mean '{close}'?")
    twice = sorted({name for name in arguments.inputs if arguments.inputs.count(name) > 1})
    return errors + [f"'{name}' is listed twice. Remove one" for name in twice]


def _model_errors(names: list[str], stages: Mapping[str, Stage], makers: list[str]) -> list[str]:
    errors = []
    for name in names:
        if name in stages and name not in makers:
            errors.append(f"stage '{name}' translates and makes no model")
        elif name not in stages and stages and not Path(name).exists() and (close := nearest(name, makers)):
            errors.append(f"'{name}' is neither a stage nor a folder; did you mean '{close}'?")
    return errors

"""The plan of a recipe with stages: each stage in order, with its folder, and with paths in place of stage names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.tokenizers.arguments import OF_ANY_TOKENIZER, TokenizerArguments
from ..checkpoints.output_folder import STAGES_FOLDER
from ..recipe.recipe import Recipe
from ..setup.text_mix import OWN
from .arguments import AVERAGE, PAIRS_FILE, TRAIN, TRANSLATE, Stage
from .options import PREFIX
from .order import in_order, models_named, needs


@dataclass(frozen=True)
class PlannedStage:
    """A stage that is to run.

    Attributes:
        stage: as it is in the recipe.
        arguments: those of the stage, with paths in place of stage names: a recipe of one run, or its section's keys.
        folder: where the stage writes its output.
        needs: names of the stages that it needs.
    """

    stage: Stage
    arguments: Any
    folder: Path
    needs: list[str]

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.stage.name

    @property
    def record(self) -> Path:
        """The file beside the folder that says what the folder holds."""
        return self.folder.with_name(f"{self.name}.json")


@dataclass(frozen=True)
class Plan:
    """The stages of a recipe in order, and the last run.

    Attributes:
        recipe: as it was given.
        last: the recipe of the last run alone.
        last_needs: names of the stages that it is made from.
        begins_with: the names among them of those whose model or tokenizer it begins with, and if it reads a stream,
            of those that make its text; other text is compared itself.
    """

    recipe: Recipe
    stages: list[PlannedStage]
    last: Recipe
    last_needs: list[str]
    begins_with: list[str]

    @property
    def folder(self) -> Path:
        """The folder that holds the output of all stages."""
        return Path(self.last.training.output_dir) / STAGES_FOLDER

    @property
    def teacher(self) -> PlannedStage | None:
        """The stage whose translations the last run learns to produce; `None` if there is none.

        It is the first stage that the run needs and that translates the run's source side.
        """
        stages = (self.named(name) for name in self.last_needs)
        side = "target" if self.last.data.reversed else "source"
        return next((s for s in stages if s.stage.kind == TRANSLATE and s.stage.arguments.side == side), None)

    def named(self, name: str) -> PlannedStage:
        """The stage with a given name."""
        return next(stage for stage in self.stages if stage.name == name)


def make_plan(recipe: Recipe) -> Plan:
    """The plan of a recipe that `load_recipe` found valid."""
    folder, stages = Path(recipe.training.output_dir) / STAGES_FOLDER, recipe.stages
    folders = {name: folder / name for name in stages}
    planned = [
        PlannedStage(
            stage,
            _with_paths(stage.kind, stage.arguments, folders),
            folders[stage.name],
            needs(stage.kind, stage.arguments, stages),
        )
        for stage in in_order(stages)
    ]
    last = _with_paths(TRAIN, recipe, folders)
    last.stages, last.whole = {}, recipe
    last.stages_read = [
        (f"{PREFIX}.{stage.name}.{key}", name)
        for stage in planned
        for key, names in _files_named(stage.stage).items()
        for name in names
        if name not in stages
    ]
    # A stage that only reranks its translations changes nothing about the run itself.
    unscored = recipe.model_copy(update={"evaluation": type(recipe.evaluation)()})
    last_needs = needs(TRAIN, unscored, stages)
    models = {name for names in models_named(TRAIN, unscored).values() for name in names}
    begins_with = [name for name in last_needs if name in models or recipe.data.streaming]
    return Plan(recipe, planned, last, last_needs, begins_with)


def _files_named(stage: Stage) -> dict[str, list[str]]:
    """Key → the models and files that a stage names, apart from its training text."""
    named = models_named(stage.kind, stage.arguments)
    if stage.kind == TRANSLATE:
        named["translate.input"] = [name for name in stage.arguments.inputs if name != OWN]
    return named


def _with_paths(kind: str, arguments: Any, folders: dict[str, Path]) -> Any:
    def path(name: str) -> str:
        return str(folders.get(name, name))

    if kind == TRANSLATE:
        inputs = [str(folders[name] / PAIRS_FILE) if name in folders else name for name in arguments.inputs]
        return arguments.model_copy(update={"model": [path(name) for name in arguments.models], "input": inputs})
    if kind == AVERAGE:
        return arguments.model_copy(update={"models": [path(name) for name in arguments.models]})
    return _recipe_with_paths(arguments, folders)


def _recipe_with_paths(recipe: Recipe, folders: dict[str, Path]) -> Recipe:
    data, training, tokenizer = recipe.data, recipe.training, recipe.tokenizer
    pairs = {name: str(folder / PAIRS_FILE) for name, folder in folders.items()}
    if isinstance(data.text, dict):
        data = data.model_copy(update={"text": {pairs.get(name, name): w for name, w in data.text.items()}})
    elif data.text:
        data = data.model_copy(update={"text": [pairs.get(name, name) for name in data.text]})
    if training.start_from in folders:
        training = training.model_copy(update={"start_from": str(folders[training.start_from])})
        # The tokenizer of that model is used; the recipe's keys are for the stages that train one.
        kept = {name: getattr(tokenizer, name) for name in OF_ANY_TOKENIZER if name in TokenizerArguments.model_fields}
        tokenizer = TokenizerArguments().model_copy(update=kept)
    if training.teachers:
        teachers = [str(folders.get(name, name)) for name in training.teachers]
        training = training.model_copy(update={"distill_from": teachers})
    if tokenizer.path in folders:
        tokenizer = tokenizer.model_copy(update={"path": str(folders[tokenizer.path])})
    if (evaluation := recipe.evaluation).rerank_with in folders:
        evaluation = evaluation.model_copy(update={"rerank_with": str(folders[evaluation.rerank_with])})
    return recipe.model_copy(
        update={"data": data, "training": training, "tokenizer": tokenizer, "evaluation": evaluation}
    )

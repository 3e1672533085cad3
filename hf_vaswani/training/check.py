"""The first phase: reports everything wrong with a recipe that can be found before long work, in one error."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import DistributedType
from transformers import PreTrainedTokenizerBase

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.sources.text_source import TextSource
from ..errors import InputError
from ..evaluation.score import make_metrics
from ..files import collect_errors, path_error
from ..runtime.launcher import is_set, process_errors
from ..runtime.processes import first_on_each_machine, on_main_process
from .checkpoints.artifacts import RECIPE_FILE
from .optimization.optimizer import freeze
from .recipe.arguments import COMPARED, RERANKER, TEACHER
from .recipe.recipe import Recipe
from .setup.inputs import RunInputs
from .setup.output import output_errors
from .setup.precision import precision_errors
from .setup.splits import parse_sources, source_errors
from .setup.tokenizer_and_model import check_is_model, drops_layers, existing_tokenizer, make_model, named, new_config

if TYPE_CHECKING:
    from .optimization.word_distillation import WordTeacher


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that has passed all checks that need no long work, and what these checks opened.

    Attributes:
        processes: the processes that train.
        sources: the sources of each split.
        tokenizer, model: those that the recipe names; `None` if it names none, or if the run may be resumed, in which
            case they are opened later.
        inputs: what else the recipe names, all of it opened in the main process.
        repository: the Hub repository, with its namespace; `None` without `push_to_hub`.
    """

    recipe: Recipe
    processes: Accelerator
    sources: dict[str, list[TextSource]]
    tokenizer: PreTrainedTokenizerBase | None
    model: VaswaniForConditionalGeneration | None
    inputs: RunInputs
    repository: str | None = None


def check(recipe: Recipe, processes: Accelerator) -> CheckedRecipe:
    """Check a recipe, its output folder and the launcher's settings.

    Nothing is written, except that a missing Hub repository is created if everything else is right.

    Raises:
        InputError: all errors at once.
    """
    model, inputs = None, RunInputs(recipe)

    def check_all() -> tuple[dict[str, list[TextSource]], PreTrainedTokenizerBase | None, str | None]:
        nonlocal model
        errors, sources, tokenizer, model = look_at(inputs, processes)
        repository = collect_errors(errors, lambda: open_hub(recipe, create=not errors))
        if errors:
            raise InputError.of(errors)
        return sources, tokenizer, repository

    sources, tokenizer, repository = on_main_process(processes, check_all)
    if tokenizer is not None and recipe.training.start_from:
        # The main process has it already; the others read it once the recipe is known to be valid.
        model = first_on_each_machine(processes, lambda: model or open_model(recipe, tokenizer))
    return CheckedRecipe(recipe, processes, sources, tokenizer, model, inputs, repository)


def open_hub(recipe: Recipe, create: bool) -> str | None:
    """The repository that the recipe uploads to, with its namespace; `None` without `push_to_hub`.

    Args:
        create: whether to create it if it is missing.

    Raises:
        InputError: as in [`open_repository`].
    """
    arguments = recipe.training
    if not arguments.push_to_hub:
        return None
    from ..hub.repository import open_repository

    name = arguments.hub_model_id or Path(os.path.abspath(arguments.output_dir)).name
    try:
        return open_repository(name, arguments.hub_private_repo, arguments.hub_revision, create)
    except InputError as error:
        raise InputError(f"training.push_to_hub (training.hub_model_id={name}): {error}") from None


def adapter_upload_errors(recipe: Recipe) -> list[str]:
    """An error if an adapter would be uploaded whose base is not on the Hub: others could not load it."""
    from ..hub.repository import hub_id

    base = recipe.training.start_from
    if recipe.peft.is_used and not recipe.peft.merge and not hub_id(base):
        return [
            f"training.push_to_hub: the adapter's base, training.start_from={base}, is not on the Hub. Push that "
            "model and start from its id, or set peft.merge: true"
        ]
    return []


def look_at(
    inputs: RunInputs, processes: Accelerator
) -> tuple[
    list[str], dict[str, list[TextSource]], PreTrainedTokenizerBase | None, VaswaniForConditionalGeneration | None
]:
    """Find all errors in a recipe, as seen from this process, and open what that takes.

    Returns:
        The errors, the sources of each split, the tokenizer and the model.
    """
    recipe, errors, tokenizer, model = inputs.recipe, [], None, None
    sources = collect_errors(errors, lambda: parse_sources(recipe.data)) or {}
    errors += source_errors(recipe.data, sources)
    wrong_paths = path_errors(recipe)
    errors += wrong_paths or output_errors(recipe, sources)
    if recipe.peft.is_used:
        from ..runtime.imports import import_extra

        collect_errors(errors, lambda: named("peft", lambda: import_extra("peft")))
    if not wrong_paths:
        tokenizer, model = collect_errors(errors, lambda: open_existing(recipe)) or (None, None)
        collect_errors(errors, lambda: find_teacher(inputs, tokenizer, model))
        for name in ("augmenting_glossary", "scored_glossary", "reranker", "compared"):
            collect_errors(errors, partial(getattr, inputs, name))
    errors += tracker_errors(recipe.training.report_to) + bleu_errors(recipe.evaluation.tokenize)
    errors += freeze_errors(recipe) + precision_errors(recipe, processes.device)
    errors += process_errors(processes.num_processes)
    config = model.config if model else VaswaniConfig(**({} if recipe.training.start_from else recipe.model))
    errors += launcher_errors(recipe, processes, config)
    if recipe.training.push_to_hub:
        errors += adapter_upload_errors(recipe)
    return errors, sources, tokenizer, model


def open_existing(recipe: Recipe) -> tuple[PreTrainedTokenizerBase | None, VaswaniForConditionalGeneration | None]:
    """The tokenizer and the model that a new run begins with, each `None` unless the recipe names it.

    Raises:
        InputError: if they cannot be used.
    """
    source = recipe.training.start_from
    is_begun = (Path(recipe.training.output_dir) / RECIPE_FILE).exists() and not recipe.training.overwrite
    if is_begun or not recipe.tokenizer_source:
        return None, None  # a run that may be resumed has a tokenizer of its own
    if source:
        check_is_model("training.start_from", source)
    tokenizer = existing_tokenizer(recipe)
    if source:
        return tokenizer, open_model(recipe, tokenizer)
    check_names(new_config(recipe, tokenizer), recipe.training.freeze)
    return tokenizer, None


def open_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    """The model that training begins with, with the recipe's adapter, if any, in its layers.

    Raises:
        InputError: as in [`make_model`] and [`with_adapter`].
    """
    model = make_model(recipe, tokenizer)
    if not recipe.peft.is_used:
        return model
    from .setup.adapter import with_adapter

    return with_adapter(model, recipe).get_base_model()


def find_teacher(
    inputs: RunInputs, tokenizer: PreTrainedTokenizerBase | None, model: VaswaniForConditionalGeneration | None
) -> "WordTeacher | None":
    """The models of `training.distill_from`; `None` if there are none. Arguments as in [`word_teacher`]."""
    if not inputs.recipe.training.teachers:
        return None
    from .setup.word_teacher import word_teacher

    return word_teacher(inputs, tokenizer, model)


def launcher_errors(recipe: Recipe, processes: Accelerator, config: VaswaniConfig) -> list[str]:
    """Why FSDP cannot be used, if Accelerate was told to use it."""
    errors, is_sharded = [], processes.distributed_type == DistributedType.FSDP
    if is_set("ACCELERATE_USE_FSDP") and not is_sharded:
        errors.append("ACCELERATE_USE_FSDP: Accelerate does not use FSDP on a CPU or without a launcher. Unset it.")
    if is_sharded and not processes.is_fsdp2:
        errors.append("Only version 2 of FSDP is supported: accelerate launch --use_fsdp --fsdp_version 2 …")
    if is_sharded and recipe.peft.is_used:
        errors.append(f"peft.r={recipe.peft.r}: adapters cannot be trained with FSDP. Use DDP, Accelerate's default.")
    if processes.is_fsdp2 and drops_layers(config):
        errors.append("LayerDrop skips other layers in each process, which FSDP does not support. Use one of them.")
    return errors


def path_errors(recipe: Recipe) -> list[str]:
    """Why the system cannot use paths of the recipe, apart from those of its texts."""
    inputs = [("tokenizer.path", recipe.tokenizer.path), ("training.start_from", recipe.training.start_from)]
    inputs += [(TEACHER, name) for name in recipe.training.teachers]
    inputs += [(RERANKER, recipe.evaluation.rerank_with), *((COMPARED, name) for name in recipe.evaluation.compared)]
    outputs = [("training.output_dir", recipe.training.output_dir), ("data.cache_dir", recipe.data.cache_dir)]
    return [
        f"{key}: {error}"
        for paths in (inputs, outputs)
        for key, path in paths
        if path and (error := path_error(path, is_output=paths is outputs))
    ]


def freeze_errors(recipe: Recipe) -> list[str]:
    """What is wrong with `training.freeze`; with an existing tokenizer or model, it is checked when that is opened."""
    if recipe.tokenizer_source:
        return []
    errors: list[str] = []
    collect_errors(errors, lambda: check_names(VaswaniConfig(**recipe.model), recipe.training.freeze))
    return errors


def check_names(config: VaswaniConfig, patterns: list[str]) -> None:
    """Raise the [`InputError`] that [`freeze`] would, on a model without memory for its parameters."""
    if patterns:
        with torch.device("meta"):
            freeze(VaswaniForConditionalGeneration(config), patterns)


def bleu_errors(tokenize: str) -> list[str]:
    """Why BLEU cannot be computed with a tokenizer: it is unknown, or a package that it needs is missing."""
    errors: list[str] = []
    collect_errors(errors, lambda: make_metrics(["bleu"], bleu={"tokenize": tokenize}))
    return [f"evaluation.tokenize: {error}" for error in errors]


def available_trackers() -> set[str]:
    """The trackers whose packages are installed."""
    return {str(getattr(tracker, "value", tracker)) for tracker in get_available_trackers()}


def tracker_errors(names: list[str]) -> list[str]:
    """Errors for trackers that Accelerate does not know, or whose package is not installed."""
    known, available, errors = list(LOGGER_TYPE_TO_CLASS), available_trackers(), []
    for name in names:
        if name not in known:
            errors.append(f"training.report_to: {name!r} is unknown; choose from {', '.join(known)}")
        elif name not in available:
            errors.append(f"training.report_to: {name} is not installed. Install it, for example: pip install {name}")
    return errors

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
from ..runtime.processes import on_main_process, print_main
from .optimization.optimizer import freeze, import_torchao
from .recipe.recipe import Recipe
from .setup.inputs import RunInputs
from .setup.memory import training_memory_errors
from .setup.output import output_errors
from .setup.precision import precision_errors
from .setup.splits import parse_sources, source_errors
from .setup.tokenizer_and_model import drops_layers, named, new_config, settle_marks

if TYPE_CHECKING:
    from .optimization.word_distillation import WordTeacher


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that has passed all checks that need no long work, and what these checks opened.

    Attributes:
        processes: the processes that train.
        sources: the sources of each split.
        inputs: what else the recipe names, all of it opened in the main process.
        repository: the Hub repository, with its namespace; `None` without `push_to_hub`.
    """

    recipe: Recipe
    processes: Accelerator
    sources: dict[str, list[TextSource]]
    inputs: RunInputs
    repository: str | None = None


def check(recipe: Recipe, processes: Accelerator) -> CheckedRecipe:
    """Check a recipe, its output folder and the launcher's settings.

    Nothing is written, except that a missing Hub repository is created if everything else is right.

    Raises:
        InputError: all errors at once.
    """
    if recipe.training.start_from:
        from .setup.start_model import drop_unsupported

        for line in drop_unsupported(recipe):
            print_main(line, processes)
    settle_marks(recipe)
    inputs = RunInputs(recipe)

    def check_all() -> tuple[dict[str, list[TextSource]], PreTrainedTokenizerBase | None, str | None]:
        errors, sources = validate_recipe(inputs, processes)
        repository = collect_errors(errors, lambda: open_hub(recipe, create=not errors))
        if errors:
            raise InputError.of(errors)
        return sources, inputs.tokenizer, repository

    # The other processes open models once the recipe is known to be valid.
    sources, inputs.tokenizer, repository = on_main_process(processes, check_all)
    return CheckedRecipe(recipe, processes, sources, inputs, repository)


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


def validate_recipe(inputs: RunInputs, processes: Accelerator) -> tuple[list[str], dict[str, list[TextSource]]]:
    """Find all errors in a recipe, as seen from this process, and open what that takes.

    Returns:
        The errors, and the sources of each split.
    """
    recipe, errors, tokenizer, model = inputs.recipe, [], None, None
    sources = collect_errors(errors, lambda: parse_sources(recipe.data)) or {}
    errors += source_errors(recipe.data, sources)
    wrong_paths = path_errors(recipe)
    errors += wrong_paths or output_errors(recipe, sources)
    if recipe.peft.is_used:
        from ..runtime.imports import import_extra

        collect_errors(errors, lambda: named("peft", lambda: import_extra("peft")))
    if recipe.training.optim == "adam_8bit":
        collect_errors(errors, lambda: named("training.optim", import_torchao))
    if not wrong_paths:
        tokenizer = collect_errors(errors, lambda: inputs.tokenizer)
        model = tokenizer and collect_errors(errors, lambda: inputs.model)
        collect_errors(errors, lambda: find_teacher(inputs, tokenizer, model))
        for name in ("augmenting_glossary", "scored_glossary", "reranker", "compared"):
            collect_errors(errors, partial(getattr, inputs, name))
    errors += tracker_errors(recipe.training.report_to) + bleu_errors(recipe.evaluation.tokenize)
    if tokenizer is not None or not recipe.tokenizer_source:
        collect_errors(errors, lambda: check_freeze(recipe, tokenizer))
    errors += precision_errors(recipe, processes.device) + process_errors(processes.num_processes)
    config = model.config if model else VaswaniConfig(**({} if recipe.training.start_from else recipe.model))
    errors += launcher_errors(recipe, processes, config)
    if model and not recipe.training.keep_languages:  # they make it smaller, as soon as the text is read
        errors += training_memory_errors(recipe, model, processes.device, processes.mixed_precision != "no")
    if recipe.training.push_to_hub:
        errors += adapter_upload_errors(recipe)
    return errors, sources


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
    inputs = recipe.model_names + recipe.scoring_model_names
    outputs = [("training.output_dir", recipe.training.output_dir), ("data.cache_dir", recipe.data.cache_dir)]
    return [
        f"{key}: {error}"
        for paths in (inputs, outputs)
        for key, path in paths
        if path and (error := path_error(path, is_output=paths is outputs))
    ]


def check_freeze(recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None) -> None:
    """Raise the [`InputError`] that [`freeze`] would for a new model, on one without memory for its parameters."""
    if recipe.training.start_from:
        return  # checked when that model is opened
    config = new_config(recipe, tokenizer) if tokenizer else VaswaniConfig(**recipe.model)
    if recipe.training.freeze:
        with torch.device("meta"):
            freeze(VaswaniForConditionalGeneration(config), recipe.training.freeze)


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

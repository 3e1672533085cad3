"""What can be seen to be wrong with a training before any long work: all of it in one error, nothing written."""

import os
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from accelerate.utils import DistributedType

from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.tokenizers.arguments import SPECIAL_TOKENS
from ...errors import InputError
from ...evaluation.score import make_metrics
from ...files import path_error
from ...interop.model_size import TRAINING, memory_errors
from ...runtime.launcher import processes_asked_for
from ..checkpoints.checkpoint import checkpoint_folders
from ..checkpoints.output_folder import CHECKPOINTS, RECIPE_FILE, is_checkpoint, replacement_errors
from ..optimization.optimizer import freeze
from ..recipe.recipe import Recipe
from .splits import check_sources
from .tokenizer_and_model import SMALLER, build_model, new_config, open_tokenizer

# The project that trackers file a training under; TensorBoard's has a folder of this name in the output folder.
TRACKED_AS = "hf_vaswani"


def check(recipe: Recipe, accelerator: Accelerator) -> None:
    """Raises:
    InputError: the faults of a recipe's texts, output folder and trackers, and of the launcher's settings.
    """
    refused = check_paths(recipe)
    faults = check_sources(recipe.data) + (refused or check_output(recipe) + check_start(recipe))
    faults += check_trackers(recipe.training.report_to)
    faults += check_bleu(recipe.evaluation.tokenize) + check_freeze(recipe)
    faults += check_kind(accelerator) + check_processes(accelerator)
    if accelerator.device.type == "cpu":
        faults += check_memory(recipe)
    if faults:
        raise InputError.of(faults)


def check_environment() -> None:
    """Raises:
    InputError: kinds of distributed training that Accelerate was told to use, and that are not supported.
    """
    wanted = [kind for kind in ("DEEPSPEED", "MEGATRON_LM") if is_set(f"ACCELERATE_USE_{kind}")]
    if wanted:
        raise InputError(
            f"ACCELERATE_USE_{wanted[0]}={os.environ[f'ACCELERATE_USE_{wanted[0]}']}: {wanted[0]} is not supported. "
            "Several devices train with DDP, Accelerate's default, or FSDP."
        )


def check_kind(accelerator: Accelerator) -> list[str]:
    """What stands against FSDP, where Accelerate was told to use it."""
    if accelerator.distributed_type == DistributedType.FSDP:
        if not accelerator.is_fsdp2:
            return ["FSDP is supported in its second version: accelerate launch --use_fsdp --fsdp_version 2 …"]
    elif is_set("ACCELERATE_USE_FSDP"):
        where = "on a CPU" if accelerator.device.type == "cpu" else "in a process that no launcher has started"
        return [
            f"ACCELERATE_USE_FSDP={os.environ['ACCELERATE_USE_FSDP']}, but Accelerate does not use FSDP {where}. "
            "Unset it, or choose another config with accelerate config."
        ]
    return []


def is_set(variable: str) -> bool:
    """Whether a variable of the environment says yes, as Accelerate reads it."""
    return os.environ.get(variable, "false").lower() in ("true", "1", "yes", "y", "on", "t")


def check_processes(accelerator: Accelerator) -> list[str]:
    """Processes that were asked for, and that are not there or do not know of each other."""
    started, asked = int(os.environ.get("WORLD_SIZE", 1)), processes_asked_for()
    if started > accelerator.num_processes:
        # Accelerate looks for other processes on a CPU only where it is told to.
        return [
            f"The launcher started {started} processes that do not know of each other: each would train alone. On "
            "CPUs, set ACCELERATE_USE_CPU=true."
        ]
    if asked and asked > accelerator.num_processes:
        return [
            f"accelerate launch was told to start {asked} processes, and started {accelerator.num_processes}: on CPUs "
            f"it starts no more. Use ACCELERATE_USE_CPU=true torchrun --nproc_per_node {asked}, or give accelerate "
            "launch --num_processes 1."
        ]
    return []


def check_paths(recipe: Recipe) -> list[str]:
    """What the system has against the recipe's paths, besides those of its texts."""
    inputs = {"tokenizer.path": recipe.tokenizer.path, "training.start_from": recipe.training.start_from}
    outputs = {"training.output_dir": recipe.training.output_dir, "data.cache_dir": recipe.data.cache_dir}
    return [
        f"{key}: {error}"
        for key, path in {**inputs, **outputs}.items()
        if path and (error := path_error(path, is_output=key in outputs))
    ]


def check_output(recipe: Recipe) -> list[str]:
    """What stands against writing into the output folder."""
    folder = Path(recipe.training.output_dir)
    name = f"training.output_dir={folder}"
    if folder.exists() and not folder.is_dir():
        return [f"{name} is a file. Choose another folder."]
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    if not existing.is_dir():
        return [f"{name} cannot be made: {existing} is a file. Choose another folder."]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [f"{name} cannot be written: {existing} is not writable. Choose another folder."]
    holds = {path.name for path in folder.iterdir()} - {TRACKED_AS} if folder.exists() else set()
    if holds and RECIPE_FILE not in holds:
        return [f"{name} is not empty and holds no training. Choose another --output_dir."]
    # What has no checkpoint begins again.
    is_removed = recipe.training.overwrite or not checkpoint_folders(folder / CHECKPOINTS)
    return replacement_errors(recipe, is_removed) if holds else []


def check_start(recipe: Recipe) -> list[str]:
    """What stands against the tokenizer and the model that a recipe begins with."""
    is_begun = (Path(recipe.training.output_dir) / RECIPE_FILE).exists() and not recipe.training.overwrite
    if is_begun or not (recipe.tokenizer.path or recipe.training.start_from):
        return []  # a training that is gone on with has a tokenizer of its own
    source = recipe.training.start_from
    if source and is_checkpoint(Path(source)):
        return [
            f"training.start_from={source} is a checkpoint, weights alone. hf-vaswani average {source} --output "
            "FOLDER makes a model of it."
        ]
    try:
        tokenizer = open_tokenizer(recipe, (), is_resumed=False)
        if source:
            freeze(build_model(recipe, tokenizer), recipe.training.freeze)
        else:
            check_names(new_config(recipe, tokenizer), recipe.training.freeze)
    except InputError as error:
        return str(error).split("\n")
    return []


def check_freeze(recipe: Recipe) -> list[str]:
    """What is wrong with the names of what shall be frozen; of what exists already [`check_start`] sees to them."""
    if recipe.tokenizer.path or recipe.training.start_from:
        return []
    try:
        check_names(VaswaniConfig(**recipe.model), recipe.training.freeze)
    except InputError as error:
        return str(error).split("\n")
    return []


def check_memory(recipe: Recipe) -> list[str]:
    """That a new model cannot be trained in this machine's memory, whatever its vocabulary."""
    if recipe.training.start_from:
        return []
    config = VaswaniConfig(**recipe.model, vocab_size=len(SPECIAL_TOKENS))
    return [f"model: {error}: {SMALLER}" for error in memory_errors(config, TRAINING)]


def check_names(config: VaswaniConfig, patterns: list[str]) -> None:
    """Raises the [`InputError`] that [`freeze`] would, of a model whose parameters are names and shapes alone."""
    if patterns:
        with torch.device("meta"):
            freeze(VaswaniForConditionalGeneration(config), patterns)


def check_bleu(tokenize: str) -> list[str]:
    """Why BLEU cannot be computed with a tokenizer: it is unknown, or what it needs cannot be had."""
    try:
        make_metrics(["bleu"], bleu={"tokenize": tokenize})
    except InputError as error:
        return [f"evaluation.tokenize: {error}"]
    return []


def available_trackers() -> set[str]:
    """The trackers whose packages are installed."""
    return {str(getattr(tracker, "value", tracker)) for tracker in get_available_trackers()}


def check_trackers(names: list[str]) -> list[str]:
    """Trackers that Accelerate does not know, or whose package is not installed."""
    known, available, faults = list(LOGGER_TYPE_TO_CLASS), available_trackers(), []
    for name in names:
        if name not in known:
            faults.append(f"training.report_to: {name!r} is unknown; known are {', '.join(known)}")
        elif name not in available:
            faults.append(f"training.report_to: {name} is not installed. Install it, for example: pip install {name}")
    return faults

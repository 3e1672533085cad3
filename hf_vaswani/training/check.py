"""The first stage: everything that can be seen to be wrong with a recipe before long work, in one error."""

from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator
from transformers import PreTrainedTokenizerBase

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.sources.text_source import TextSource
from ..errors import InputError
from ..files import collect_errors
from ..runtime.processes import first_on_each_machine, on_main_process
from .checkpoints.output_folder import RECIPE_FILE, is_checkpoint
from .recipe.recipe import Recipe
from .setup import checks
from .setup.output import output_errors
from .setup.precision import precision_errors
from .setup.splits import parse_sources, source_errors
from .setup.tokenizer_and_model import existing_tokenizer, make_model, new_config


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe in which nothing is wrong that can be seen before long work, with what the checks have opened.

    Attributes:
        processes: that train.
        sources: of each split.
        tokenizer, model: that the recipe names, as far as it names them; of a run that may be resumed they are opened
            later.
    """

    recipe: Recipe
    processes: Accelerator
    sources: dict[str, list[TextSource]]
    tokenizer: PreTrainedTokenizerBase | None
    model: VaswaniForConditionalGeneration | None


def check(recipe: Recipe, processes: Accelerator) -> CheckedRecipe:
    """Check a recipe, the output folder and what the launcher was asked for. Nothing is written.

    Raises:
        InputError: all errors at once.
    """
    model = None

    def check_all() -> tuple[dict[str, list[TextSource]], PreTrainedTokenizerBase | None]:
        nonlocal model
        errors, tokenizer = [], None
        sources = collect_errors(errors, lambda: parse_sources(recipe.data)) or {}
        errors += source_errors(recipe.data, sources)
        path_errors = checks.path_errors(recipe)
        errors += path_errors or output_errors(recipe, sources)
        if not path_errors and (found := collect_errors(errors, lambda: open_existing(recipe))):
            tokenizer, model = found
        errors += checks.tracker_errors(recipe.training.report_to) + checks.bleu_errors(recipe.evaluation.tokenize)
        errors += checks.freeze_errors(recipe)
        errors += checks.fsdp_errors(processes) + checks.process_errors(processes)
        errors += precision_errors(recipe, processes.device)
        if processes.device.type == "cpu":
            errors += checks.memory_errors_of(recipe)
        if errors:
            raise InputError.of(errors)
        return sources, tokenizer

    sources, tokenizer = on_main_process(processes, check_all)
    if tokenizer is not None and recipe.training.start_from:
        # The main process has it already; the others read it once the recipe is known to be right.
        model = first_on_each_machine(processes, lambda: model or make_model(recipe, tokenizer))
    return CheckedRecipe(recipe, processes, sources, tokenizer, model)


def open_existing(recipe: Recipe) -> tuple[PreTrainedTokenizerBase | None, VaswaniForConditionalGeneration | None]:
    """The tokenizer and the model that a new run begins with, as far as the recipe names them.

    Raises:
        InputError: where they cannot be used.
    """
    source = recipe.training.start_from
    is_begun = (Path(recipe.training.output_dir) / RECIPE_FILE).exists() and not recipe.training.overwrite
    if is_begun or not recipe.tokenizer_source:
        return None, None  # a run that may be resumed has a tokenizer of its own
    if source and is_checkpoint(Path(source)):
        raise InputError(
            f"training.start_from={source} is a checkpoint, weights alone. hf-vaswani average {source} --output "
            "FOLDER makes a model of it."
        )
    tokenizer = existing_tokenizer(recipe)
    if source:
        return tokenizer, make_model(recipe, tokenizer)
    checks.check_names(new_config(recipe, tokenizer), recipe.training.freeze)
    return tokenizer, None

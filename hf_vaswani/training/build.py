"""The second phase: from a checked recipe to everything that the first step needs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from transformers import PreTrainedTokenizerBase

from ..configuration.keys import Sections
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.cache import cache_folder
from ..data.encoding import EncodedPairs, PackedIds, encode_pairs
from ..data.filters import FilterSettings
from ..data.prepared import tokenize
from ..data.sources.text_files import Pair
from ..data.sources.text_source import TextSource
from ..data.tokenizers.tokenizer import SOURCE_PREFIX
from ..errors import InputError, reason
from ..evaluation.score_settings import ScoreSettings, score_settings
from ..files import collect_errors
from ..models.families import family_of, longest_sequence
from ..runtime.processes import first_on_each_machine, on_main_process
from ..text.language_marks import unmarked_warning
from ..text.languages import NO_LANGUAGES, Languages
from .check import CheckedRecipe, find_teacher, path_errors
from .checkpoints.artifacts import CHECKPOINTS, TRACKED_AS, locked_output
from .checkpoints.checkpoint import check_fits, newest_intact, remove_oldest
from .optimization.step_batches import Corpus
from .recipe.arguments import DataArguments
from .recipe.recipe import Recipe
from .setup.directions import name_of
from .setup.inputs import RunInputs, open_model
from .setup.memory import training_memory_errors
from .setup.output import begin_output, check_weights
from .setup.precision import choose_precision
from .setup.run_fingerprint import RunFingerprint, is_resumed, local_digests
from .setup.splits import Splits, load_splits, model_directions, parse_sources, sample_pairs, source_errors
from .setup.tokenizer_and_model import existing_tokenizer, open_tokenizer, settle_marks
from .setup.training_batches import aligned_sample, describe_training_text, make_corpus, tokenizer_text
from .validation import DirectionsValidator, Validator

if TYPE_CHECKING:
    from ..data.alignment import TokenAligner
    from .optimization.word_distillation import WordTeacher

# Pairs from which it is found out what the training text is like.
DESCRIBED_PAIRS = 10_000


@dataclass(frozen=True)
class TrainingSetup:
    """Everything a run begins with.

    Attributes:
        processes: the processes that train.
        sources: the sources of each split.
        splits: the pairs read from these sources.
        model: on the CPU, with its initial weights.
        corpus: the training pairs, in batches.
        filters: the filters applied to the training text; their `max_length` may be derived from the text.
        counts: what the filters found in it.
        validator: measures models on the validation set.
        inputs: what else the recipe names.
        is_resumed: whether the output folder holds this very run.
        repository: the Hub repository that the model is uploaded to; `None` without an upload.
        teacher: the models that are distilled word by word; `None` if there are none.
        aligner: aligns the tokens of the training pairs; `None` without guided alignment.
    """

    recipe: Recipe
    processes: Accelerator
    sources: dict[str, list[TextSource]]
    splits: Splits
    tokenizer: PreTrainedTokenizerBase
    model: VaswaniForConditionalGeneration
    corpus: Corpus
    filters: FilterSettings
    counts: dict[str, int]
    validator: Validator | DirectionsValidator
    inputs: RunInputs
    is_resumed: bool
    repository: str | None = None
    teacher: "WordTeacher | None" = None
    aligner: "TokenAligner | None" = None

    @property
    def folder(self) -> Path:
        """The output folder."""
        return Path(self.recipe.training.output_dir)


def build(checked: CheckedRecipe) -> TrainingSetup:
    """Read the texts, load or create tokenizer and model, settle the precision, and tokenize; write only to the cache.

    The first process on each machine prepares the text; the others find it in the cache.

    Raises:
        InputError: if the texts, tokenizer, model or output folder cannot be used.
    """
    recipe, processes, sources, inputs = checked.recipe, checked.processes, checked.sources, checked.inputs
    splits = first_on_each_machine(processes, lambda: load_splits(recipe.data, sources))
    check_metric(recipe, splits)
    fingerprint = fingerprint_run(recipe, splits, processes)
    resumed = on_main_process(processes, lambda: is_resumed(recipe, fingerprint, splits.test_sets))
    tokenizer = inputs.tokenizer or on_main_process(
        processes, lambda: open_tokenizer(recipe, tokenizer_text(recipe, splits), resumed)
    )
    if recipe.training.keep_languages and not resumed:
        from .setup.start_model import cut_to_languages

        texts = chain(tokenizer_text(recipe, splits), splits.validation, *splits.test_sets.values())
        full = tokenizer
        tokenizer = on_main_process(processes, lambda: cut_to_languages(full, recipe, texts))
        inputs.__dict__.pop("model", None)  # two would take twice the memory
        inputs.model = open_model(recipe, tokenizer)
    model = first_on_each_machine(processes, lambda: inputs.model or open_model(recipe, tokenizer))
    if family_of(model.config):
        validated = (source for source, _ in splits.validation)
        if warning := unmarked_warning(tokenizer, validated, recipe.data.text_languages[1]):
            warning = warning.replace("tgt_lang", "data.target_language")
            raise InputError(f"training.start_from={recipe.training.start_from}: {warning}")
    if recipe.training.shortlist:
        from ..engines.shortlist import shortlist_errors

        if errors := shortlist_errors(tokenizer, model.config):
            raise InputError.of([f"training.shortlist: {error}" for error in errors])
    teacher = first_on_each_machine(processes, lambda: find_teacher(inputs, tokenizer, model))
    choose_precision(recipe, processes, model)
    if recipe.training.start_from:
        is_mixed = processes.mixed_precision != "no"
        if errors := training_memory_errors(recipe, model, processes.device, is_mixed):
            raise InputError.of(errors)
    models = [model, *(teacher.models if teacher else [])]
    limit = min((limit for each in models if (limit := longest_sequence(each))), default=None)
    corpus, filters, counts = first_on_each_machine(processes, lambda: make_corpus(inputs, splits, tokenizer, limit))
    if family_of(model.config) is None:
        describe_training_text(model.config, corpus, sample_pairs(splits, recipe.data, DESCRIBED_PAIRS))
    aligner = None
    if recipe.training.guided_alignment:
        from .optimization.guided_alignment import choose_head, learn_aligner

        choose_head(model.config)
        aligner = learn_aligner(corpus, tokenizer, lambda: aligned_sample(recipe, splits))

    def validator_of(direction: str, pairs: list[Pair]) -> Validator:
        encoded: EncodedPairs = first_on_each_machine(
            processes, lambda: encode_pairs(pairs, tokenizer, limit, "validation")
        )
        scoring, languages = scoring_of(recipe, tokenizer, direction), translated_languages(tokenizer, recipe.data)
        return Validator(processes, tokenizer, encoded, recipe.training, pairs, scoring, languages)

    if splits.validations:
        validator = DirectionsValidator({name: validator_of(name, own) for name, own in splits.validations.items()})
    else:
        validator = validator_of("", splits.validation)
    return TrainingSetup(
        recipe,
        processes,
        sources,
        splits,
        tokenizer,
        model,
        corpus,
        filters,
        counts,
        validator,
        inputs,
        resumed,
        checked.repository,
        teacher,
        aligner,
    )


def check_metric(recipe: Recipe, splits: Splits) -> None:
    """Refuse a metric of a direction that is not validated.

    Raises:
        InputError: it is not.
    """
    metric = recipe.training.metric_for_best_model
    direction = metric.rpartition("_")[0]
    if direction and direction not in splits.validations:
        known = ", ".join(splits.validations) or "none: the model has one direction"
        raise InputError(
            f"training.metric_for_best_model={metric}: {direction} is not a direction of the validation set. It has "
            f"{known}"
        )


def scoring_of(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, name: str) -> ScoreSettings:
    """How translations of a test set are scored, whose name ends with that of its direction if there are several."""
    target = recipe.data.text_languages[1]
    if directions := model_directions(recipe.data):
        target = next((pair[1] for pair in directions if name.endswith(name_of(pair))), target)
    return score_settings(tokenizer, target, recipe.evaluation.tokenize)


def translated_languages(tokenizer: PreTrainedTokenizerBase, data: DataArguments) -> Languages:
    """The languages that must be named to translate in a run, since they choose the prefix of sources."""
    return Languages(*data.text_languages) if tokenizer.init_kwargs.get(SOURCE_PREFIX) else NO_LANGUAGES


@contextmanager
def open_run(setup: TrainingSetup) -> Iterator[Path | None]:
    """Prepare the output folder, open the recipe's trackers, and hold the folder while the block runs.

    Yields:
        The checkpoint to resume from, if there is one.

    Raises:
        InputError: if the folder cannot be written or belongs to another run, all of its checkpoints are damaged, or a
            tracker cannot be opened.
    """
    recipe, processes = setup.recipe, setup.processes

    def begin() -> Path | None:
        if recipe.training.report_to:
            begin_tracking(recipe, processes)
        checkpoint = newest_intact(setup.folder / CHECKPOINTS, print) if setup.is_resumed else None
        if checkpoint is not None:
            check_fits(setup.model, checkpoint)
            check_weights(recipe, setup.model, setup.teacher)
        # All input has been checked by now: nothing is written or deleted before this point.
        fingerprint = fingerprint_run(recipe, setup.splits, processes)
        begin_output(recipe, fingerprint, setup.tokenizer, setup.model, setup.teacher, setup.is_resumed)
        # A process may have been killed after it wrote a checkpoint.
        remove_oldest(setup.folder / CHECKPOINTS, recipe.training.save_total_limit)
        return checkpoint

    with ExitStack() as stack:
        on_main_process(processes, lambda: stack.enter_context(locked_output(setup.folder)))
        yield on_main_process(processes, begin)


def fingerprint_run(recipe: Recipe, splits: Splits, processes: Accelerator) -> RunFingerprint:
    """What identifies a run besides its recipe."""
    texts, precision = splits.digests, processes.mixed_precision
    return RunFingerprint(texts, precision, processes.num_processes, local_digests(recipe))


def begin_tracking(recipe: Recipe, accelerator: Accelerator) -> None:
    """Open the recipe's trackers.

    Raises:
        InputError: if one of them cannot be opened, for example because nobody is logged in.
    """
    try:
        accelerator.init_trackers(TRACKED_AS, config=flat(recipe.to_dict()))
    except Exception as error:  # each tracker raises its own exceptions
        for tracker in accelerator.trackers:
            with suppress(Exception):  # those that were not opened cannot be closed
                tracker.finish()
        accelerator.trackers = []
        names = ", ".join(recipe.training.report_to)
        raise InputError(f"training.report_to={names}: cannot be opened: {reason(error)}") from error


def flat(sections: Sections) -> dict[str, str | int | float | bool]:
    """A recipe in the form that trackers accept: one level of keys, plain values."""
    pairs = {f"{section}.{name}": value for section, keys in sections.items() for name, value in keys.items()}
    return {name: value if isinstance(value, str | int | float) else str(value) for name, value in pairs.items()}


def prepare(recipe: Recipe, over: Callable[..., Iterator[PackedIds]] | None = None) -> int:
    """Read, filter and tokenize the training text of a recipe into its cache, without training.

    The text is read and filtered here, since a pair may repeat one from anywhere before it. The cache then holds the
    same files that a run in one process would write.

    Args:
        over: tokenizes batches elsewhere, see [`encode_to_file`].

    Returns:
        The number of pairs, before the length filters.

    Raises:
        InputError: all errors of the recipe's texts and tokenizer at once, before anything is written.
    """
    sources, tokenizer = _check_texts(recipe)
    splits = load_splits(recipe.data, sources)
    tokenizer = tokenizer or open_tokenizer(recipe, tokenizer_text(recipe, splits), is_resumed=False)
    return len(tokenize(splits.train, tokenizer, cache_folder(recipe.data.cache_dir), recipe.data.num_proc, over))


def _check_texts(recipe: Recipe) -> tuple[dict[str, list[TextSource]], PreTrainedTokenizerBase | None]:
    """The sources, and the tokenizer that the recipe names, if any."""
    if recipe.training.start_from:
        from .setup.start_model import drop_unsupported

        drop_unsupported(recipe)
    settle_marks(recipe)
    errors: list[str] = []
    found: Any = collect_errors(errors, lambda: parse_sources(recipe.data)) or {}
    errors += source_errors(recipe.data, found) + path_errors(recipe)
    tokenizer = collect_errors(errors, lambda: existing_tokenizer(recipe))
    if recipe.data.streaming:
        errors.append(
            "data.streaming: a stream is tokenized as it is read, so there is nothing to prepare. Set it to false."
        )
    if errors:
        raise InputError.of(errors)
    return found, tokenizer

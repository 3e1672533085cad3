"""The models, tokenizers and glossaries that a recipe names: each is opened once in a process."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...errors import InputError
from ...models.model_types import keeps_its_class
from ...text.languages import check_languages, choose_languages, group_languages, has_own_target, language_code
from ..checkpoints.artifacts import RECIPE_FILE
from ..recipe.arguments import COMPARED, RERANKER, TEACHER, DataArguments
from ..recipe.recipe import Recipe
from .splits import first_direction, model_languages, model_marks
from .tokenizer_and_model import check_is_model, existing_tokenizer, make_model, named, read_model, tokenizer_of

if TYPE_CHECKING:
    from ...text.glossary import Glossary
    from ...translator.reranking import Reranker


def open_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    """The model that training begins with, with the recipe's adapter, if any, in its layers.

    Raises:
        InputError: as in [`make_model`] and [`with_adapter`], or a model of another class does not fit into memory.
    """
    if (source := recipe.training.start_from) and keeps_its_class(source):
        from .memory import weight_memory_errors
        from .start_model import read_config

        if errors := weight_memory_errors(source, read_config(source)):
            raise InputError.of(errors)
    model = make_model(recipe, tokenizer)
    if not recipe.peft.is_used:
        return model
    from .adapter import with_adapter

    return with_adapter(model, recipe).get_base_model()


class RunInputs:
    """Opens what a recipe names when it is first used, and raises its errors then; each is `None` if the recipe names
    none."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self._teachers: dict[str, tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]] = {}

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        """The tokenizer that a new run begins with; a run that may be resumed has one of its own."""
        training = self.recipe.training
        is_begun = (Path(training.output_dir) / RECIPE_FILE).exists() and not training.overwrite
        if is_begun or not self.recipe.tokenizer_source:
            return None
        if training.start_from:
            check_is_model("training.start_from", training.start_from, is_start=True)
        return existing_tokenizer(self.recipe)

    @cached_property
    def model(self) -> VaswaniForConditionalGeneration | None:
        """The model that a new run starts from, as in [`open_model`]."""
        is_needed = self.tokenizer is not None and self.recipe.training.start_from
        return open_model(self.recipe, self.tokenizer) if is_needed else None

    def teacher(self, name: str) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase]:
        """A model of `training.distill_from`, on the CPU, in evaluation mode, and its tokenizer."""
        if name not in self._teachers:
            check_is_model(TEACHER, name)
            model, tokenizer = named(TEACHER, lambda: (read_model(name), tokenizer_of(name)))
            self._teachers[name] = model.float().eval().requires_grad_(False), tokenizer
        return self._teachers[name]

    @cached_property
    def augmenting_glossary(self) -> "Glossary | None":
        """The glossary to train with."""
        return self._glossary("augmentation")

    @cached_property
    def scored_glossary(self) -> "Glossary | None":
        """The glossary to score the test sets with."""
        return self._glossary("evaluation")

    def _glossary(self, section: str) -> "Glossary | None":
        if not (path := getattr(self.recipe, section).glossary):
            return None
        from ...data.glossary_files import read_glossary

        return named(f"{section}.glossary", lambda: read_glossary(path, self.recipe.data.text_languages))

    @cached_property
    def reranker(self) -> "Reranker | None":
        """The reranker of `evaluation.rerank_with`.

        Raises:
            InputError: it cannot be loaded, does not translate in the other direction, or must be told the languages.
        """
        name = self.recipe.evaluation.rerank_with
        if not name:
            return None
        from ...translator.reranking import open_reranker

        if model_marks(self.recipe.data):
            raise InputError(
                f"{RERANKER}={name}: sources begin with marks of languages or tags, which a reranker does not know. "
                "Remove it, and use hf-vaswani evaluate --rerank_with"
            )
        source, target = map(language_code, model_languages(self.recipe.data))
        reranker = named(RERANKER, lambda: open_reranker(name, None, [[(source, target)]], {}))
        _check_languages(f"{RERANKER}={name}", reranker.model, reranker.tokenizer)
        return reranker

    @cached_property
    def compared(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
        """The model of `evaluation.compare_with`, several as an ensemble, and its tokenizer.

        Raises:
            InputError: it cannot be loaded, or must be told the languages.
        """
        if not (names := self.recipe.evaluation.compared):
            return None
        from ...models.load import load_ensemble

        model, tokenizer = named(COMPARED, lambda: load_ensemble(names))
        key = f"{COMPARED}={', '.join(names)}"
        _check_languages(key, model, tokenizer)
        try:
            compared_languages(model, tokenizer, self.recipe.data)
        except ValueError as error:
            raise InputError(f"{key}: {error}") from None
        return model, tokenizer


def compared_languages(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, data: DataArguments
) -> dict[str, str]:
    """The languages of the first test set, as arguments of the pipeline, for a model of several; none for others.

    Raises:
        ValueError: the model does not translate them, or they are not known.
    """
    if not group_languages(tokenizer):
        return {}
    languages = choose_languages(model, tokenizer, tuple(map(language_code, first_direction(data))))
    if not languages.target:
        raise ValueError("it translates into several languages: set data.target_language")
    return languages.arguments()


def _check_languages(key: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    try:
        search = model.generation_config
        has_target = has_own_target(tokenizer, search.forced_bos_token_id, search.decoder_start_token_id)
        check_languages(tokenizer, None, None, has_target)
    except ValueError:
        raise InputError(
            f"{key} is multilingual, and a recipe has no key for its languages. Remove it, and use hf-vaswani evaluate"
        ) from None

"""Opens the models that a run distills word by word, and checks that they share its vocabulary and its languages."""

from transformers import PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...errors import InputError
from ...files import collect_errors
from ...pipeline.model_checks import vocabulary_error
from ...text.languages import fits_pair, language_code
from ...text.vocabularies import target_vocab_size, vocabularies
from ..optimization.word_distillation import WordTeacher
from ..recipe.recipe import Recipe
from .splits import learns_both_directions, model_languages
from .tokenizer_and_model import check_is_model, named, read_model, tokenizer_of

KEY = "training.distill_from"


def open_word_teacher(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None, model: VaswaniForConditionalGeneration | None
) -> WordTeacher | None:
    """The models of `training.distill_from`, on the CPU; `None` if there are none.

    Args:
        tokenizer, model: those of the run, `None` if they are not known yet; the vocabulary is then checked later.

    Raises:
        InputError: all errors at once: a model cannot be read, or does not fit the run.
    """
    errors: list[str] = []
    models = [
        found
        for name in recipe.training.teachers
        if (found := collect_errors(errors, lambda name=name: _open(name, recipe, tokenizer, model)))
    ]
    if errors:
        raise InputError.of(errors)
    training = recipe.training
    return WordTeacher(models, training.distill_weight, training.distill_top_k) if models else None


def _open(
    name: str,
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase | None,
    model: VaswaniForConditionalGeneration | None,
) -> VaswaniForConditionalGeneration:
    """One model of the teacher, in evaluation mode; arguments and errors are those of [`open_word_teacher`]."""
    key = f"{KEY}={name}"
    check_is_model(KEY, name)
    teacher, own_tokenizer = named(KEY, lambda: (read_model(name), tokenizer_of(name)))
    errors = []
    if error := vocabulary_error(teacher, own_tokenizer):
        errors.append(f"{key}: {error}")
    elif tokenizer is not None:
        # Vocabularies may be padded to a round number of embeddings.
        own, rows = teacher.config.decoder_vocab_size, target_vocab_size(tokenizer)
        rows = model.config.decoder_vocab_size if model else rows
        if vocabularies(own_tokenizer) != vocabularies(tokenizer):
            errors.append(
                f"{key} has a different vocabulary from the run's. Set tokenizer.path={name}, or choose another one"
            )
        elif own < rows:
            errors.append(f"{key} has {own:,} embeddings, fewer than the run's model, {rows:,}. Choose another one")
    languages = teacher.config.source_language, teacher.config.target_language
    if learns_both_directions(recipe.data):
        if languages != (None, None):
            errors.append(f"{key} translates in one direction, but the run learns both. Choose one that does, too")
    elif not fits_pair(tuple(map(language_code, model_languages(recipe.data))), languages):
        known = " to ".join(code or "any language" for code in languages)
        errors.append(f"{key} translates {known}, not the run's languages. Choose another one")
    limit = teacher.config.longest_sequence
    if limit and (recipe.data.max_length or 0) > limit:
        errors.append(
            f"data.max_length={recipe.data.max_length} exceeds the {limit} learned positions of {key}; lower it"
        )
    if errors:
        raise InputError.of(errors)
    return teacher.float().eval().requires_grad_(False)

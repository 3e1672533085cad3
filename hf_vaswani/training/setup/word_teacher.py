"""Opens the models that a run distills word by word, and checks that they share its vocabulary and its languages."""

from transformers import PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...core.pipeline_inputs import (
    is_same_language,
    language_code,
    target_vocab_size,
    vocabularies,
    vocabulary_error,
)
from ...errors import InputError
from ...files import collect_errors
from ..optimization.word_distillation import WordTeacher
from ..recipe.recipe import Recipe
from .splits import model_languages
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
    return WordTeacher(models, recipe.training.distill_weight) if models else None


def _open(
    name: str,
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase | None,
    model: VaswaniForConditionalGeneration | None,
) -> VaswaniForConditionalGeneration:
    key = f"{KEY}={name}"
    check_is_model(KEY, name)
    teacher, own_tokenizer = named(KEY, lambda: (read_model(name), tokenizer_of(name)))
    errors = []
    if error := vocabulary_error(teacher, own_tokenizer):
        errors.append(f"{key}: {error}")
    elif tokenizer is not None:
        # A vocabulary may be padded to a round number of embeddings.
        rows = model.config.decoder_vocab_size if model else target_vocab_size(tokenizer)
        if vocabularies(own_tokenizer) != vocabularies(tokenizer) or teacher.config.decoder_vocab_size != rows:
            errors.append(f"{key} has another vocabulary than the run. Set tokenizer.path={name}, or name another one")
    own = teacher.config.source_language, teacher.config.target_language
    wanted = tuple(map(language_code, model_languages(recipe.data)))
    if any(None not in pair and not is_same_language(*pair) for pair in zip(own, wanted)):
        errors.append(
            f"{key} translates from {own[0]} to {own[1]}, but the run learns to translate from {wanted[0]} to "
            f"{wanted[1]}. Name another model"
        )
    limit = teacher.config.longest_sequence
    if limit and (recipe.data.max_length or 0) > limit:
        errors.append(
            f"data.max_length={recipe.data.max_length} exceeds the {limit} learned positions of {key}; lower it"
        )
    if errors:
        raise InputError.of(errors)
    return teacher.float().eval().requires_grad_(False)

"""Opens the model that the final model is compared with, such as its teacher."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...errors import InputError
from ...text.languages import check_languages
from ...translation.load import load_ensemble
from ..recipe.arguments import COMPARED
from ..recipe.recipe import Recipe
from .tokenizer_and_model import named


def open_compared(recipe: Recipe) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """The model of `evaluation.compare_with`, several as an ensemble, and its tokenizer; `None` if none is named.

    Raises:
        InputError: it cannot be loaded, or must be told the languages.
    """
    if not (names := recipe.evaluation.compared):
        return None
    model, tokenizer = named(COMPARED, lambda: load_ensemble(names))
    try:
        check_languages(tokenizer, None, None, model.generation_config.forced_bos_token_id is not None)
    except ValueError:
        raise InputError(
            f"{COMPARED}={', '.join(names)} is multilingual, and a recipe has no key for its languages. Remove it "
            "(--compare_with null), and compare the models with hf-vaswani evaluate"
        ) from None
    return model, tokenizer

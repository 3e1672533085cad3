"""Opens the model of the other direction that reranks the translations of the test sets."""

from ...errors import InputError
from ...text.languages import check_languages, language_code
from ...translation.reranking import Reranker, open_reranker
from ..recipe.arguments import RERANKER
from ..recipe.recipe import Recipe
from .splits import model_languages
from .tokenizer_and_model import named


def open_reranker_of(recipe: Recipe) -> Reranker | None:
    """The reranker of `evaluation.rerank_with`; `None` if the recipe names none.

    Raises:
        InputError: it cannot be loaded, does not translate in the other direction, or must be told the languages.
    """
    name = recipe.evaluation.rerank_with
    if not name:
        return None
    source, target = map(language_code, model_languages(recipe.data))
    reranker = named(RERANKER, lambda: open_reranker(name, None, [[(source, target)]], {}))
    try:
        has_own_target = reranker.model.generation_config.forced_bos_token_id is not None
        check_languages(reranker.tokenizer, None, None, has_own_target)
    except ValueError:
        raise InputError(
            f"{RERANKER}={name} is multilingual, and a recipe has no key for its languages. Choose a model for one "
            "pair of languages, or rerank with hf-vaswani evaluate"
        ) from None
    return reranker

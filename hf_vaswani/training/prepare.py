"""Fills the cache of prepared text without training, so that a run of the same recipe can begin at once.

The text is read and filtered here, since a pair may repeat one from anywhere before it; it is tokenized here or, with
`over`, on other machines. The cache then holds the same files that a run in one process would write.
"""

from collections.abc import Callable, Iterator
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..data.cache import cache_folder
from ..data.encoding import PackedIds
from ..data.prepared import tokenize
from ..data.sources.text_source import TextSource
from ..errors import InputError
from ..files import collect_errors
from .check import path_errors
from .recipe.recipe import Recipe
from .setup.splits import load_splits, parse_sources, source_errors
from .setup.tokenizer_and_model import existing_tokenizer, open_tokenizer
from .setup.training_batches import tokenizer_text


def prepare(recipe: Recipe, over: Callable[..., Iterator[PackedIds]] | None = None) -> int:
    """Read, filter and tokenize the training text of a recipe into its cache.

    Args:
        over: tokenizes batches elsewhere, see [`encode_to_file`].

    Returns:
        The number of pairs, before the length filters.

    Raises:
        InputError: all errors of the recipe's texts and tokenizer at once, before anything is written.
    """
    sources, tokenizer = _check(recipe)
    splits = load_splits(recipe.data, sources)
    tokenizer = tokenizer or open_tokenizer(recipe, tokenizer_text(recipe, splits), is_resumed=False)
    return len(tokenize(splits.train, tokenizer, cache_folder(recipe.data.cache_dir), recipe.data.num_proc, over))


def _check(recipe: Recipe) -> tuple[dict[str, list[TextSource]], PreTrainedTokenizerBase | None]:
    """The sources, and the tokenizer that the recipe names, if any."""
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

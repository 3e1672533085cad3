"""Augmentation of a run's training pairs: its glossary, its encoder, and the tokens that it needs."""

from collections.abc import Iterable

from transformers import PreTrainedTokenizerBase

from ...data.augmentation.augmenter import Augmenter, augmenting_encoder
from ...data.augmentation.word_alignment import WordAligner
from ...data.encoding import Encoder, dropout_encoder, plain_encoder
from ...data.sources.text_files import Pair
from ...errors import InputError
from ...text.glossary import Glossary
from ...text.markers import KEEP_TOKENS, TERM_TOKENS, has_tokens, with_markers
from ..recipe.recipe import Recipe


def augmented_encoder(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, sample: Iterable[Pair], glossary: Glossary | None
) -> Encoder:
    """An encoder that changes pairs as the recipe says; the same in every process.

    Args:
        sample: pairs from which word translations are learned.
        glossary: that of the recipe, if there is one.
    """
    arguments, probability = recipe.augmentation, recipe.tokenizer.bpe_dropout
    aligner = WordAligner.learn(sample) if arguments.terms or arguments.placeholders else None
    marked = with_markers(tokenizer) if any(arguments.markers) else tokenizer
    inner = dropout_encoder(marked, probability) if probability else plain_encoder(marked)
    return augmenting_encoder(inner, Augmenter(arguments, aligner, glossary))


def check_tokens(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse an existing tokenizer without the tokens that augmentation needs.

    Raises:
        InputError: if it lacks them.
    """
    for key, tokens, sides in (
        ("placeholders", KEEP_TOKENS, ("source", "target")),
        ("terms", TERM_TOKENS, ("source",)),
    ):
        if getattr(recipe.augmentation, key) and not has_tokens(tokenizer, tokens, sides):
            raise InputError(
                f"augmentation.{key} needs the tokens {tokens[0]} to {tokens[-1]}, which the tokenizer of "
                f"{recipe.tokenizer_source} does not have. Learn a new tokenizer, or use that of a model that was "
                f"trained with augmentation.{key}"
            )

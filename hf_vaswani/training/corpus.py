"""The training pairs of a recipe: from its texts to batches, and to what a new tokenizer learns from."""

from collections.abc import Iterable, Iterator
from functools import partial

from transformers import PreTrainedTokenizerBase

from ..data.cache import cache_folder
from ..data.encoding import dropout_encoder, plain_encoder
from ..data.epochs import Budget, ResampledCorpus, StreamedCorpus, TokenisedCorpus
from ..data.filters import PairFilter
from ..data.parallel_text import Pair
from ..data.prepared import tokenise, usable
from ..data.sources import iterate_pairs
from .recipe import Recipe
from .texts import Texts, filter_settings, languages_of
from .updates import Corpus

# Pairs from the beginning of a stream that a new tokenizer learns from.
STREAM_SAMPLE = 1_000_000


def tokenizer_text(recipe: Recipe, texts: Texts) -> Iterable[Pair]:
    """The pairs that a new tokenizer learns from; of a stream, its first million."""
    return texts.train if texts.train is not None else StreamSample(recipe, texts)


class StreamSample:
    """The first pairs of all streamed sources, read anew whenever they are iterated over."""

    def __init__(self, recipe: Recipe, texts: Texts):
        self.recipe, self.texts = recipe, texts

    def __iter__(self) -> Iterator[Pair]:
        data = self.recipe.data
        pair_filter = PairFilter(filter_settings(data))
        share = STREAM_SAMPLE // len(self.texts.sources)
        for source in self.texts.sources:
            for number, pair in enumerate(pair_filter(iterate_pairs(source, languages_of(data), streaming=True))):
                if number == share:
                    break
                yield pair


def make_corpus(recipe: Recipe, texts: Texts, tokenizer: PreTrainedTokenizerBase) -> tuple[Corpus, dict[str, int]]:
    """The training pairs, batch by batch, and what the filters found in them.

    Raises:
        InputError: where no pair is left, or one is longer than a batch holds.
    """
    data, training = recipe.data, recipe.training
    settings = filter_settings(data)
    budget = Budget(training.max_tokens, training.max_sentences, data.max_length, training.seed)
    plain = plain_encoder(tokenizer)
    probability = recipe.tokenizer.bpe_dropout
    encode = dropout_encoder(tokenizer, probability) if probability else plain
    if texts.train is None:
        languages = languages_of(data)
        streams = [partial(iterate_pairs, source, languages, streaming=True) for source in texts.sources]
        return StreamedCorpus(streams, texts.weights, settings, encode, plain, budget, data.stream_part), {}
    tokenised = tokenise(texts.train, tokenizer, cache_folder(data.cache_dir), data.processes)
    pairs, text, counts = usable(texts.train, tokenised, settings)
    corpus = TokenisedCorpus(pairs, budget, texts.weights)
    if probability:
        return ResampledCorpus(text, encode, plain, budget, pairs.origins, texts.weights), counts
    return corpus, counts

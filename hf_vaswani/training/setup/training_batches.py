"""The training pairs of a recipe: as batches, as text for a new tokenizer, and in the words of a model's config."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...core.configuration_vaswani import VaswaniConfig
from ...core.sentence_splitting import split_sentences
from ...data.cache import cache_folder
from ...data.encoding import dropout_encoder, plain_encoder
from ...data.epochs import Budget, ResampledCorpus, StreamedCorpus, TokenizedCorpus
from ...data.filters import FilterSettings, PairFilter, covering_length
from ...data.prepared import PreparedText, tokenize, usable
from ...data.sources.text_files import Pair
from ...data.tokenizers.tokenizer import Unmarked
from ...errors import InputError, counted
from ..optimization.step_batches import Corpus
from ..recipe.recipe import Recipe
from .inputs import RunInputs
from .splits import Splits, filter_settings, model_marks, stream_of

# The number of pairs at the beginning of a stream that a new tokenizer is trained on.
STREAM_SAMPLE = 1_000_000
# The number of pairs of a stream in memory, which are shuffled and batched together.
STREAM_PART = 100_000
# The fields of a config that describe the training text: the pipeline must know what the model can translate.
TEXT_FIELDS = ("longest_training_source", "multi_sentence_share", "length_ratio")


def tokenizer_text(recipe: Recipe, splits: Splits) -> Iterable[Pair]:
    """The pairs that a new tokenizer is trained on; from streams, the first million in total."""
    text = splits.train if splits.train is not None else StreamSample(recipe, splits)
    if splits.train is not None and splits.weights and recipe.data.temperature:
        text = Reweighted(splits.train, splits.weights)
    if recipe.augmentation.uppercase:
        from ...data.augmentation.augmenter import PartlyLowercase

        marks = model_marks(recipe.data)
        return PartlyLowercase(Unmarked(text, marks) if marks else text, recipe.augmentation.uppercase)
    return text


class Reweighted:
    """A text whose sources have shares in proportion to weights; small ones are repeated, and none is cut."""

    def __init__(self, text: PreparedText, weights: Sequence[float]):
        origins = text.dataset.data.column("origin").to_numpy()
        sizes = np.bincount(origins, minlength=len(weights))
        times = np.array(weights) / np.maximum(sizes, 1)
        self._text, self._times = text, times / times[sizes > 0].min()
        self._origins = origins

    def __iter__(self) -> Iterator[Pair]:
        # How many pairs of each source there should have been so far: a pair is repeated to reach a whole number.
        seen = np.zeros(len(self._times))
        for pair, origin in zip(self._text, self._origins):
            before, seen[origin] = int(seen[origin]), seen[origin] + self._times[origin]
            yield from [pair] * (int(seen[origin]) - before)


class StreamSample:
    """The first pairs of all streamed sources, an equal number of each, read again in every iteration."""

    def __init__(self, recipe: Recipe, splits: Splits, size: int = STREAM_SAMPLE):
        self.recipe, self.splits, self.size = recipe, splits, size

    def __iter__(self) -> Iterator[Pair]:
        data = self.recipe.data
        pair_filter = PairFilter(filter_settings(data))
        share = self.size // len(self.splits.sources)
        for source in self.splits.sources:
            for number, pair in enumerate(pair_filter(stream_of(data, source))):
                if number == share:
                    break
                yield pair


def make_corpus(
    inputs: RunInputs, splits: Splits, tokenizer: PreTrainedTokenizerBase, limit: int | None
) -> tuple[Corpus, FilterSettings, dict[str, int]]:
    """The training pairs in batches, the filters applied to them, and what these filters found.

    Args:
        limit: the model's maximum sequence length in tokens; `None` for any length.

    Raises:
        InputError: if no pair is left, or if a pair is too long for a batch or for the model.
    """
    recipe = inputs.recipe
    data, training = recipe.data, recipe.training
    settings = filter_settings(data)
    plain = plain_encoder(tokenizer)
    probability = recipe.tokenizer.bpe_dropout
    encode = dropout_encoder(tokenizer, probability) if probability else plain
    if recipe.augmentation.shares:
        from ...data.augmentation.augmenter import augmented_encoder

        sample, glossary = aligned_sample(recipe, splits), inputs.augmenting_glossary
        encode = augmented_encoder(recipe.augmentation, probability, tokenizer, sample, glossary)

    def budget() -> Budget:
        return Budget(training.max_tokens, training.max_sentences, settings.max_length, training.seed)

    if splits.train is None:
        streams = [partial(stream_of, data, source) for source in splits.sources]
        stream = StreamedCorpus(streams, splits.weights, settings, encode, plain, budget(), STREAM_PART)
        return stream, settings, {}
    tokenized = tokenize(splits.train, tokenizer, cache_folder(data.cache_dir), data.num_proc)
    if data.max_length_coverage:
        length = covering_length(tokenized.source_lengths, tokenized.target_lengths, data.max_length_coverage)
        if limit and length > limit:
            raise InputError(
                f"data.max_length_coverage={data.max_length_coverage} amounts to {counted(length, 'token')}, more "
                f"than the {limit} learned positions of the model: raise model.max_position_embeddings or lower the "
                "coverage."
            )
        settings = replace(settings, max_length=length)
    pairs, text, counts = usable(splits.train, tokenized, settings)
    if lost := set(tokenized.origins.tolist()) - set(pairs.origins.tolist()):
        names = ", ".join(splits.sources[number].name for number in sorted(lost))
        raise InputError(
            f"{names}: the length filters leave out all pairs. Raise data.max_length and data.max_length_ratio, or "
            "remove the source."
        )
    corpus = TokenizedCorpus(pairs, budget(), splits.weights)
    if encode is not plain:
        longest = corpus.longest_source
        corpus = ResampledCorpus(text, encode, plain, budget(), pairs.origins, splits.weights, longest)
    return corpus, settings, counts


def aligned_sample(recipe: Recipe, splits: Splits) -> Iterable[Pair]:
    """The pairs from which word translations are learned: drawn at random, or the first ones of a stream."""
    from ..optimization.guided_alignment import ALIGNED_SAMPLE, random_rows

    if splits.train is None:
        return StreamSample(recipe, splits, ALIGNED_SAMPLE)
    columns = splits.train.dataset[random_rows(len(splits.train))]
    return zip(columns["source"], columns["target"])


def describe_training_text(config: VaswaniConfig, corpus: Corpus, sample: list[Pair]) -> None:
    """Set the fields of a config that describe the training text.

    Args:
        corpus: the training pairs; those of a stream are not counted, so that its longest source is unknown.
        sample: pairs from all parts of the text.
    """
    sources, targets = zip(*sample)
    config.longest_training_source = corpus.longest_source
    several = [source for source in sources if len(split_sentences(source.strip())) > 1]
    config.multi_sentence_share = round(len(several) / len(sources), 4)
    sizes = [sum(len(text.encode("utf-8", "replace")) for text in side) for side in (sources, targets)]
    config.length_ratio = float(f"{max(sizes[1], 1) / max(sizes[0], 1):.4g}")

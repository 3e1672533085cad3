"""All that a training needs before its first update, whoever makes the updates: the loop here or the Trainer."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from accelerate import Accelerator
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.encoding import EncodedPairs, encode_pairs
from ...data.epochs import ResampledCorpus, StreamedCorpus, TokenisedCorpus
from ...data.filters import FilterSettings, filter_report
from ...data.sources.sides import swapped_sides
from ...data.tokenizers.arguments import keys_of_a_new_tokenizer
from ...errors import InputError, counted
from ...runtime.processes import first_on_each_machine, on_main_process
from ..checkpoints.checkpoint import check_fits, newest_intact
from ..checkpoints.output_folder import CHECKPOINTS, begin_output, is_resumed
from ..optimization.optimizer import freeze
from ..optimization.steps import Corpus
from ..recipe.recipe import Recipe
from .splits import Texts, languages_of, load_texts, sample_of
from .tokenizer_and_model import build_model, drops_layers, open_tokenizer
from .training_batches import make_corpus, tokenizer_text

# Rows in which unknown tokens are counted, and the share of them that is told.
SAMPLE, WORTH_A_WORD = 10_000, 0.005
# Characters of a text that is shown.
SHOWN = 200


@dataclass(frozen=True)
class Start:
    """What a training begins with.

    Attributes:
        texts: as they were read.
        model: on the CPU, with the weights of the beginning.
        corpus: the training pairs, as batches.
        filters: that the training text went through; their `max_length` may come from the text.
        counts: what they found in it.
        validation_pairs: encoded.
        is_resumed: whether the output folder holds this very training.
    """

    recipe: Recipe
    texts: Texts
    tokenizer: PreTrainedTokenizerBase
    model: VaswaniForConditionalGeneration
    corpus: Corpus
    filters: FilterSettings
    counts: dict[str, int]
    validation_pairs: EncodedPairs
    is_resumed: bool

    @property
    def folder(self) -> Path:
        """The output folder."""
        return Path(self.recipe.training.output_dir)


def prepare(recipe: Recipe, processes: Accelerator) -> Start:
    """Read the texts, make or read tokenizer and model, tokenise. Nothing is written but the cache of prepared text.

    Args:
        processes: that train; the first of each machine prepares the text, and the others find it in the cache.

    Raises:
        InputError: texts, tokenizer, model or output folder that cannot be used.
    """
    texts = first_on_each_machine(processes, lambda: load_texts(recipe.data))
    resumed = on_main_process(processes, lambda: is_resumed(recipe, texts.digests, launched(processes)))
    tokenizer = on_main_process(processes, lambda: open_tokenizer(recipe, tokenizer_text(recipe, texts), resumed))
    model = first_on_each_machine(processes, lambda: make_model(recipe, tokenizer))
    if drops_layers(model.config) and processes.is_fsdp2:
        raise InputError(
            "LayerDrop leaves out other layers in each process, which FSDP cannot do. Choose one of them."
        )
    corpus, filters, counts = first_on_each_machine(processes, lambda: make_corpus(recipe, texts, tokenizer))
    limit = model.config.longest_sequence
    if limit and filters.max_length > limit:
        raise InputError(
            f"data.max_length_coverage={recipe.data.max_length_coverage} comes to {filters.max_length} tokens, beyond "
            f"the {limit} learned positions of the model: raise model.max_position_embeddings or lower the coverage."
        )
    validation_pairs = first_on_each_machine(
        processes, lambda: encode_pairs(texts.validation, tokenizer, limit, "validation")
    )
    return Start(recipe, texts, tokenizer, model, corpus, filters, counts, validation_pairs, resumed)


def make_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> VaswaniForConditionalGeneration:
    """The model that training begins with, frozen as far as the recipe says."""
    model = build_model(recipe, tokenizer)
    freeze(model, recipe.training.freeze)
    return model


def begin(start: Start, processes: Accelerator) -> Path | None:
    """Make the output folder ready, and find the checkpoint to go on from.

    Raises:
        TrainingError: where there are checkpoints, and all are damaged.
        InputError: where the folder cannot be written.
    """

    def find() -> Path | None:
        checkpoint = newest_intact(start.folder / CHECKPOINTS, print) if start.is_resumed else None
        if checkpoint is not None:
            check_fits(start.model, checkpoint)
        # All that could be wrong with the input has been seen: only now is anything written or deleted.
        begin_output(start, launched(processes))
        return checkpoint

    return on_main_process(processes, find)


def launched(accelerator: Accelerator) -> dict[str, Any]:
    """What the launcher says of a training, besides its recipe."""
    return {"mixed_precision": accelerator.mixed_precision, "processes": accelerator.num_processes}


def describe(start: Start, processes: Accelerator) -> list[str]:
    """What training begins with, a line each: texts, filters, sizes, padding, devices."""
    model, corpus, data = start.model, start.corpus, start.recipe.data
    lines = describe_sides(start)
    source, unused = start.recipe.tokenizer_source, keys_of_a_new_tokenizer(start.recipe.tokenizer)
    if source and unused:
        keys = ", ".join(f"tokenizer.{name}" for name in unused)
        lines.append(f"warning: no effect on the tokenizer of {source}, which is used as it is: {keys}")
    for split in ("validation", "test"):
        if share := getattr(data, f"{split}_share"):
            pairs = getattr(start.texts, split)
            lines.append(f"{counted(len(pairs), 'pair')} ({share:g}) of the training text held out as {split} set")
    if data.max_length_coverage:
        lines.append(
            f"training text: {data.max_length_coverage:.1%} of its pairs have at most {start.filters.max_length} "
            "tokens on a side, which is max_length"
        )
    if not isinstance(corpus, StreamedCorpus):
        lines += [f"training text: {line}" for line in filter_report(start.counts, start.filters)]
    if isinstance(corpus, TokenisedCorpus):
        epoch = corpus.token_budget.epoch(0)
        lines.append(
            f"{counted(len(corpus.pairs), 'training pair')}, {counted(len(epoch), 'batch')} an epoch, "
            f"{corpus.token_budget.padding_ratio(epoch):.1%} padding "
            f"({corpus.token_budget.random_padding_ratio():.1%} in random batches)"
        )
        unknown = unknown_share(corpus.pairs.dataset, start.tokenizer)
        if unknown > WORTH_A_WORD:
            remedy = "A larger vocab_size, or byte_fallback, can"
            if start.recipe.tokenizer.type == "word":
                remedy = "A larger vocab_size, or a lower min_frequency, has more words"
            if start.recipe.tokenizer.path or start.recipe.training.start_from:
                remedy = "The tokenizer was made for other text"
            lines.append(
                f"{unknown:.1%} of training tokens are {start.tokenizer.unk_token}: text that the vocabulary cannot "
                f"spell. {remedy}"
            )
    elif isinstance(corpus, ResampledCorpus):
        lines.append(f"{counted(len(corpus.text), 'training pair')}, tokenized again in each epoch")
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    lines.append(
        f"{len(start.tokenizer):,} tokens in the vocabulary, {model.num_parameters():,} parameters"
        + (f", {frozen:,} of them frozen" if frozen else "")
        + f", on {processes.num_processes} × {processes.device.type}"
    )
    return lines


def describe_sides(start: Start) -> list[str]:
    """The first training pair, and warnings where sides or files seem to be mixed up."""
    data, sample = start.recipe.data, sample_of(start.texts, start.recipe.data)
    if not sample:
        return []
    # What is held out of the training text has its sides.
    validation = {} if data.validation_share else {"validation": start.texts.validation}
    tests = {} if data.test_share else start.texts.test_sets
    shown = [shorten(text, SHOWN, placeholder=" …") for text in sample[0]]
    return [f"first pair: {' → '.join(shown)}", *swapped_sides(sample, {**validation, **tests}, languages_of(data))]


def unknown_share(dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> float:
    """The share of unknown tokens in the first rows of a tokenised corpus."""
    rows = dataset[:SAMPLE]
    tokens = [token for side in ("input_ids", "labels") for ids in rows[side] for token in ids]
    return tokens.count(tokenizer.unk_token_id) / max(len(tokens), 1)

"""What a run begins with, in words."""

from textwrap import shorten

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from ..data.epochs import ResampledCorpus, StreamedCorpus, TokenizedCorpus
from ..data.filters import filter_report
from ..data.sources.sides import shifted_lines, swapped_sides
from ..data.tokenizers.arguments import keys_of_a_new_tokenizer
from ..errors import counted
from ..evaluation.score_settings import tokenizer_warning
from ..evaluation.unreachable import unreachable, unreachable_warning
from ..text.inputs import looks_like_mojibake
from .build import TrainingSetup
from .describe_text import LOOKED_AT, describe_differences, describe_flaws
from .recipe.arguments import hub_keys_given
from .setup.splits import Splits, learns_both_directions, model_directions, model_languages, sample_pairs

# Rows in which unknown tokens and a wrong encoding are looked for, and the share of such tokens that is reported.
SAMPLE, REPORTED = 10_000, 0.005
# Maximum number of characters shown of a text.
SHOWN = 200


def describe(setup: TrainingSetup) -> list[str]:
    """The lines that describe what training begins with."""
    model, corpus, data = setup.model, setup.corpus, setup.recipe.data
    lines = describe_sides(setup) + describe_order(setup.splits) + describe_overlap(setup.splits)
    lines += describe_encoding(setup) + describe_scoring(setup)
    source, unused = setup.recipe.tokenizer_source, keys_of_a_new_tokenizer(setup.recipe.tokenizer)
    if source and unused:
        keys = ", ".join(f"tokenizer.{name}" for name in unused)
        lines.append(f"warning: ignored, since the tokenizer of {source} is used as is: {keys}")
    if setup.repository:
        lines.append(f"uploads to the Hub: {setup.repository}, hub_strategy {setup.recipe.training.hub_strategy}")
    elif unused := hub_keys_given(setup.recipe.training):
        keys = ", ".join(f"training.{name}" for name in unused)
        lines.append(f"warning: no effect without training.push_to_hub: {keys}")
    for split in ("validation", "test"):
        if share := getattr(data, f"{split}_share"):
            pairs = [pair for own in setup.splits.held_out(split).values() for pair in own]
            lines.append(f"{counted(len(pairs), 'pair')} ({share:g}) of the training text held out as the {split} set")
    if data.max_length_coverage:
        lines.append(
            f"training text: {data.max_length_coverage:.1%} of the pairs have at most {setup.filters.max_length} "
            "tokens on either side; this is now max_length"
        )
    if not isinstance(corpus, StreamedCorpus):
        lines += [f"training text: {line}" for line in filter_report(setup.counts, setup.filters)]
    # Text of several directions has other languages than each of its test sets.
    if not learns_both_directions(data) and not model_directions(data):
        some = sample_pairs(setup.splits, data, LOOKED_AT)
        lines += [f"training text:   {line}" for line in describe_flaws(some)]
        lines += describe_differences(some, setup.splits)
    if isinstance(corpus, TokenizedCorpus):
        epoch = corpus.token_budget.epoch(0)
        lines.append(
            f"{counted(len(corpus.pairs), 'training pair')}, {counted(len(epoch), 'batch')} per epoch, "
            f"{corpus.token_budget.padding_ratio(epoch):.1%} padding "
            f"({corpus.token_budget.random_padding_ratio():.1%} in random batches)"
        )
        unknown = unknown_share(corpus.pairs.dataset, setup.tokenizer)
        if unknown > REPORTED:
            remedy = "Increase vocab_size, or enable byte_fallback"
            if setup.recipe.tokenizer.type == "word":
                remedy = "Increase vocab_size, or lower min_frequency, to cover more words"
            if setup.recipe.tokenizer.path or setup.recipe.training.start_from:
                remedy = "The tokenizer was trained on different text"
            lines.append(
                f"{unknown:.1%} of training tokens are {setup.tokenizer.unk_token}: text that the vocabulary cannot "
                f"represent. {remedy}"
            )
    elif isinstance(corpus, ResampledCorpus):
        lines.append(f"{counted(len(corpus.text), 'training pair')}, tokenized again in each epoch")
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    lines.append(
        f"{len(setup.tokenizer):,} tokens in the vocabulary, {model.num_parameters():,} parameters"
        + (f", {frozen:,} of them frozen" if frozen else "")
        + f", on {setup.processes.num_processes} × {setup.processes.device.type}"
    )
    return lines


def describe_sides(setup: TrainingSetup) -> list[str]:
    """The first training pair, and warnings if sides or files seem to be swapped."""
    data, sample = setup.recipe.data, sample_pairs(setup.splits, setup.recipe.data)
    if not sample:
        return []
    # Sets held out of the training text have the same sides as it has.
    validation = {} if data.validation_share else {"validation": setup.splits.validation}
    tests = {} if data.test_share else setup.splits.test_sets
    shown = [shorten(text, SHOWN, placeholder=" …") for text in sample[0]]
    first = f"first pair: {' → '.join(shown)}"
    if all(source.strip() == target.strip() for source, target in sample):
        return [first, "warning: source and target are the same text, so the model learns to copy"]
    if learns_both_directions(data) or model_directions(data):
        return [first]
    return [first, *swapped_sides(sample, {**validation, **tests}, model_languages(data))]


def describe_order(splits: Splits) -> list[str]:
    """Warnings about texts with sides that are shifted by a line; the order of a stream is not known."""
    texts = {"training": splits.train or [], "validation": splits.validation, **splits.test_sets}
    return [warning for name, pairs in texts.items() if (warning := shifted_lines(name, pairs))]


def describe_overlap(splits: Splits) -> list[str]:
    """Warnings about pairs of the validation and test sets that are trained on; those of a stream are not known."""
    if splits.train is None:
        return []
    return [
        f"warning: {found:,} of {len(pairs):,} pairs of the {name} set are also in the training text, so its scores "
        "say less about new text"
        for name, pairs in {"validation": splits.validation, **splits.test_sets}.items()
        if (found := splits.train.overlap(pairs))
    ]


def describe_encoding(setup: TrainingSetup) -> list[str]:
    """A warning about training text that was read in a wrong encoding before, with an example."""
    texts = [text for pair in sample_pairs(setup.splits, setup.recipe.data, SAMPLE) for text in pair]
    found = list(filter(looks_like_mojibake, texts))
    if not found:
        return []
    return [
        f"warning: {len(found):,} of {len(texts):,} training sentences looked at seem to be UTF-8 that was read in "
        f"another encoding, such as '{shorten(found[0], SHOWN, placeholder=' …')}'. Repair the text"
    ]


def describe_scoring(setup: TrainingSetup) -> list[str]:
    """What the scores of translations will not show as it is: capitals, words, references that cannot be written."""
    scoring, lines = setup.validator.scoring, []
    if scoring.lowercase:
        lines.append("the tokenizer lowercases, so scores are of lowercased text: case:lc in their signatures")
    targets = [reference for _, reference in setup.splits.validation]
    lines.append(tokenizer_warning(scoring.tokenize, setup.recipe.data.text_languages[1], targets))
    for name, pairs in {"validation": setup.splits.validation, **setup.splits.test_sets}.items():
        references = [reference for _, reference in pairs]
        if found := unreachable(setup.tokenizer, references, scoring.lowercase):
            lines.append(unreachable_warning(f"the {name} set", found, len(references)))
    return [line for line in lines if line]


def unknown_share(dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> float:
    """The share of unknown tokens in the first rows of a tokenized corpus."""
    rows = dataset[:SAMPLE]
    tokens = [token for side in ("input_ids", "labels") for ids in rows[side] for token in ids]
    return tokens.count(tokenizer.unk_token_id) / max(len(tokens), 1)

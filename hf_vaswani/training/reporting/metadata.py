"""What a model card tells of a training besides its scores: text, tokenizer, sizes, costs, examples, weak points."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...core.pipeline_inputs import target_vocab_size
from ...data.encoding import encode_in_slices, plain_encoder
from ...data.epochs import ResampledCorpus, StreamedCorpus, TokenisedCorpus
from ...data.filters import faults_found, pairs_kept
from ...data.sources.parallel_files import Pair
from ...data.sources.text_source import BUILT_IN, TextSource
from ...data.tokenizers.tokenizer import side_backends
from ...evaluation.analysis import best_and_worst, scores_by_length, short_example
from ...runtime.machine import precision, versions
from ..checkpoints.checkpoint import Progress
from ..loop import TrainingLoop
from ..setup.setup import Start
from ..setup.splits import TESTS, sources_of
from .cost import training_flops
from .scores import ScoredTest

# The fields of the config that a reader compares models by.
ARCHITECTURE = (
    "encoder_layers", "decoder_layers", "d_model", "encoder_attention_heads", "decoder_attention_heads",
    "d_k", "d_v", "encoder_ffn_dim", "decoder_ffn_dim", "norm_position", "position_type", "max_position_embeddings",
    "share_encoder_decoder_embeddings", "tie_word_embeddings", "dropout", "embedding_dropout", "attention_dropout",
    "activation_dropout", "encoder_word_dropout", "decoder_word_dropout", "encoder_layerdrop", "decoder_layerdrop",
    "label_smoothing",
)  # fmt: skip


def facts_of(
    start: Start,
    loop: TrainingLoop,
    model: VaswaniForConditionalGeneration,
    counts: dict[str, int],
    tests: dict[str, ScoredTest],
) -> dict[str, Any]:
    """Facts of a training as plain values, for `results.json`.

    Args:
        model: the final one.
        counts: of the filters.
        tests: the translated test sets by name, whose first is looked at closely.
    """
    facts = training_facts(start, loop, model, counts)
    if tests:
        test = next(iter(tests.values()))
        facts["findings"] = test_set_facts(start, test.pairs, test.found.texts)
    return facts


def training_facts(
    start: Start, loop: TrainingLoop, model: VaswaniForConditionalGeneration, counts: dict[str, int]
) -> dict[str, Any]:
    """What a training was made of, and what it took; arguments as of [`facts_of`]."""
    recipe, progress = start.recipe, loop.progress
    settings = start.filters
    return {
        "sources": {
            split.removeprefix(TESTS): [describe_source(source) for source in sources]
            for split, sources in sources_of(recipe.data).items()
        },
        "base_model": hub_id(recipe.training.start_from),
        "text": recipe.data.name,
        "pairs": {
            "train": pairs_kept(counts, settings) if counts and is_read_once(start, progress) else None,
            "validation": len(start.validation_pairs),
            **{name: len(pairs) for name, pairs in start.texts.test_sets.items()},
        },
        "faults": [
            {"pairs": count, "meaning": meaning, "left_out": settings.drops(fault)}
            for fault, count, meaning in (faults_found(counts, settings) if counts else [])
        ],
        "tokenizer": describe_tokenizer(start.tokenizer),
        "languages": [model.config.source_language, model.config.target_language],
        "architecture": {name: getattr(model.config, name) for name in ARCHITECTURE},
        "seen": progress.seen,
        "epochs": epochs(start, progress.seen),
        "flops": flops(start, model, progress),
        "seconds": progress.seconds,
        "energy": progress.energy,
        "machines": progress.machines,
        "processes": progress.processes,
        "precision": precision(loop.accelerator),
        "versions": versions(),
    }


def is_read_once(start: Start, progress: Progress) -> bool:
    """Whether what filters counted is each pair of the text once: of a stream, once it was read to its end."""
    is_stream = isinstance(start.corpus, StreamedCorpus)
    return not is_stream or (progress.epoch > 0 and not start.texts.weights)


def hub_id(name: str | None) -> str | None:
    """A name of a model, if it is one of the Hub: not a path, and nothing that lies here."""
    is_id = name and re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name) and not Path(name).exists()
    return name if is_id else None


def describe_source(source: TextSource) -> dict[str, Any]:
    """A source by the names that others know it by, files without the folders that they lie in."""
    if not source.dataset:
        paths = [source.file] if source.file else [*source.source, *source.target]
        return {"files": [Path(path).name for path in paths], "weight": source.weight}
    fields = dataclasses.asdict(source)
    is_local = source.dataset == BUILT_IN or Path(source.dataset).exists()
    return {
        "dataset": Path(source.dataset).name if is_local else source.dataset,
        "on_hub": not is_local,
        **{name: fields[name] for name in ("config", "split", "revision", "weight")},
    }


def describe_tokenizer(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Kind and sizes."""
    if tokenizer.is_fast:
        backends = side_backends(tokenizer)
        kind, is_joint = type(backends["source"].model).__name__, backends["source"] is backends["target"]
    else:  # of another system
        kind, is_joint = type(tokenizer).__name__, not getattr(tokenizer, "separate_vocabs", False)
    sizes = {"source_tokens": len(tokenizer), "target_tokens": target_vocab_size(tokenizer)}
    return {"type": kind, "joint": is_joint, **sizes}


def epochs(start: Start, seen: dict[str, int] | None) -> float | None:
    """How often each training pair was seen; `None` where that is not known, or not the same for all."""
    if not seen or start.texts.weights or isinstance(start.corpus, StreamedCorpus):
        return None
    corpus = start.corpus
    return seen["pairs"] / len(corpus.text if isinstance(corpus, ResampledCorpus) else corpus.pairs)


def flops(start: Start, model: VaswaniForConditionalGeneration, progress: Progress) -> float | None:
    """The estimated cost of the training; `None` where it cannot be estimated."""
    training, seen = start.recipe.training, progress.seen
    if not seen or training.freeze:
        return None
    # Updates with R-Drop compute their tokens twice; all updates have about as many.
    doubled = max(progress.update - training.r_drop_from + 1, 0) / progress.update if training.r_drop else 0
    return training_flops(model, seen["source_tokens"], seen["target_tokens"], passes=1 + doubled)


def test_set_facts(start: Start, test: list[Pair], hypotheses: list[str]) -> dict[str, Any]:
    """What the translations of the test set show: an example, the best and the worst, and where the model is weak.

    Args:
        test: its pairs.
        hypotheses: the translation of each.
    """
    sources, references = map(list, zip(*test))
    source_ids, hypothesis_ids = encode_in_slices(plain_encoder(start.tokenizer), sources, hypotheses)
    lengths, hypothesis_lengths = (np.array([len(row) for row in rows]) for rows in (source_ids, hypothesis_ids))
    unknown, limit = start.tokenizer.unk_token_id, start.model.config.longest_sequence
    longest = greatest_lengths(lengths, start.recipe.generation.max_length_offset, limit)
    return {
        "sentences": len(test),
        "example": short_example(sources, hypotheses),
        **best_and_worst(sources, hypotheses, references, lengths),
        "by_length": scores_by_length(hypotheses, references, lengths),
        "source_tokens": int(lengths.sum()),
        "unknown_tokens": int(sum((row == unknown).sum() for row in source_ids)) if unknown is not None else 0,
        "empty": sum(not hypothesis.strip() for hypothesis in hypotheses),
        # The tokens of a translation that was cut, and the end that it has not. It may have been longer before its
        # unknown tokens were left out of the text: these are the least.
        "at_limit": int((hypothesis_lengths > longest).sum()),
        "sources_cut": int((lengths > limit).sum()) if limit else 0,
        **beyond_training(start, lengths),
    }


def greatest_lengths(lengths: np.ndarray, offset: int, positions: int | None) -> np.ndarray:
    """The tokens at which the search for each translation ends.

    Args:
        lengths: of the sources, in tokens.
        offset: tokens that a translation may have more.
        positions: of the model, where they are learned; the token that a translation begins with takes the first.
    """
    return lengths + offset if positions is None else np.minimum(lengths + offset, positions - 1)


def beyond_training(start: Start, lengths: np.ndarray) -> dict[str, int]:
    """The longest source trained on, in tokens, and how many test sources are longer, where that is known."""
    if not isinstance(start.corpus, TokenisedCorpus):
        return {}
    longest = int(start.corpus.pairs.source_lengths.max())
    return {"longest_trained": longest, "beyond_training": int((lengths > longest).sum())}

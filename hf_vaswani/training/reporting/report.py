"""The report of a run: scores, texts, sizes, costs, examples, weaknesses; its summary."""

import math
from pathlib import Path
from statistics import fmean
from textwrap import indent

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...cleaning.provenance import cleaned_from
from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.encoding import encode_in_slices, plain_encoder
from ...data.epochs import ResampledCorpus, StreamedCorpus, TokenizedCorpus
from ...data.filters import issues_found, pairs_kept
from ...data.sources.text_files import Pair
from ...data.sources.text_source import BUILT_IN, TextSource
from ...data.tokenizers.tokenizer import side_backends
from ...errors import counted
from ...evaluation.unreachable import unreachable
from ...hub.repository import file_names, hub_id
from ...models.families import config_value, family_of, longest_sequence
from ...records.run_report import (
    AdapterInfo,
    Analysis,
    Architecture,
    CleanedText,
    FinalWeights,
    PairError,
    RunReport,
    Seen,
    Source,
    TestScores,
    TokenizerInfo,
)
from ...records.trail import read_trail
from ...runtime.machine import precision, versions
from ...text.languages import is_multilingual, own_languages
from ...text.vocabularies import target_vocab_size
from ..build import TrainingSetup
from ..optimization.progress import Progress
from ..optimization.weights import weights
from ..scoring import ScoredTest
from ..setup.run_fingerprint import run_inputs
from ..setup.splits import Splits, named_sources
from ..setup.tokenizer_and_model import drops_layers
from ..validation import perplexity
from .log import last_logged, logged

EXAMPLES = 8
# Below this BLEU, a model has learned next to nothing of its test set.
UNTRAINED = 5.0
# A test set whose BLEU is so many times lower than that of the validation set, in a model that has learned something,
# is text of another kind.
FAR_BELOW, LEARNED = 3, 1.0
# The same for chrF2, which does not fall as far.
FAR_BELOW_CHRF, LEARNED_CHRF = 1.5, 20.0
# The share of validation pairs that are near copies of training pairs if their scores say little, and how many times
# its best value the last validation loss is if the model gets worse.
MANY_COPIES, WORSE = 0.1, 1.01
# How far the loss is above that of a uniform guess if the run diverged. That of a new model is above it by about 0.5.
DIVERGED = 1.0


def make_report(
    setup: TrainingSetup,
    progress: Progress,
    model: VaswaniForConditionalGeneration,
    final: FinalWeights,
    validation: tuple[float, float],
    averaged: list[int],
    counts: dict[str, int],
    tests: dict[str, ScoredTest],
    figures: list[str],
) -> RunReport:
    """Collect everything that is known about a run.

    Args:
        model: the final model.
        final: which weights it has, and why.
        validation: loss and token accuracy of the final model.
        averaged: the steps whose weights were averaged.
        counts: what the filters found.
        tests: the translated test sets by name; the first one is analyzed.
        figures: paths relative to the output folder.
    """
    recipe, settings = setup.recipe, setup.filters
    sections, (loss, accuracy) = recipe.to_dict(), validation
    first = next(iter(tests.values()), None)
    trail = read_trail(setup.folder)
    analysis = {"analysis": analyze_test_set(setup, first.pairs, first.found.texts)} if first else {}
    return RunReport(
        folder=setup.folder,
        examples=first.examples(EXAMPLES) if first else [],
        steps=progress.step,
        minutes=progress.seconds / 60,
        parameters=model.num_parameters(),
        validation_loss=loss,
        validation_perplexity=perplexity(loss),
        validation_accuracy=accuracy,
        averaged=averaged,
        final_weights=final,
        filters=counts,
        figures=figures,
        # How the model was measured.
        generation=sections["generation"],
        evaluation=sections["evaluation"],
        tests={name: test_scores(setup, test) for name, test in tests.items()},
        sources={
            name: [describe_source(source) for source in sources]
            for name, sources in named_sources(recipe.data, setup.sources).items()
        },
        base_model=hub_id(recipe.training.start_from),
        inputs=run_inputs(recipe),
        **({"class_name": type(model).__name__} if family_of(model.config) else {}),
        **describe_adapter(setup),
        text=recipe.data.name,
        pairs={
            "train": pairs_kept(counts, settings) if counts and is_read_once(setup, progress) else None,
            "validation": setup.validator.size,
            **{name: len(pairs) for name, pairs in setup.splits.test_sets.items()},
        },
        pair_errors=[
            PairError(pairs=count, meaning=meaning, left_out=settings.drops(error))
            for error, count, meaning in (issues_found(counts, settings) if counts else [])
        ],
        tokenizer=describe_tokenizer(setup.tokenizer),
        languages=languages_of(model, setup.tokenizer),
        directions=getattr(model.config, "language_pairs", None) or [],
        architecture=Architecture(**{name: config_value(model.config, name) for name in Architecture.model_fields}),
        seen=Seen(**progress.seen) if progress.seen else None,
        epochs=epochs(setup, progress.seen),
        flops=flops(setup, model, progress),
        seconds=progress.seconds,
        energy=progress.energy,
        machines=progress.machines,
        processes=progress.processes,
        precision=precision(setup.processes),
        versions=versions(),
        **analysis,
        **({"cleaned": cleaned} if (cleaned := cleaned_texts(setup.sources["train"])) else {}),
        **({"near_copies": copies} if (copies := near_copies(setup.splits)) else {}),
        **({"trail": trail} if trail else {}),
    )


def test_scores(setup: TrainingSetup, test: ScoredTest) -> TestScores:
    """The scores of a test set, and the references that the model cannot write, if there are any."""
    found = unreachable(setup.tokenizer, [reference for _, reference in test.pairs], setup.validator.scoring.lowercase)
    return test.scores().model_copy(update={"unreachable": found} if found else {})


def is_read_once(setup: TrainingSetup, progress: Progress) -> bool:
    """Whether the filters have counted each pair once: true of a stream only after it was read to its end."""
    is_stream = isinstance(setup.corpus, StreamedCorpus)
    return not is_stream or (progress.epoch > 0 and not setup.splits.weights)


def near_copies(splits: Splits) -> dict[str, int]:
    """How many pairs of the validation set and each test set are nearly in the training text; nothing for a stream."""
    if splits.train is None:
        return {}
    sets = {"validation": splits.validation, **splits.test_sets}
    return {name: found for name, pairs in sets.items() if (found := splits.train.near_copies(pairs))}


def cleaned_texts(sources: list[TextSource]) -> list[CleanedText]:
    """How `hf-vaswani clean` made the files of some sources, each folder of its results once."""
    files = [Path(file) for source in sources for file in (source.file, *source.source, *source.target) if file]
    found = {file.resolve().parent: values for file in files if (values := cleaned_from(file))}
    return [CleanedText(**values) for values in found.values()]


def describe_adapter(setup: TrainingSetup) -> dict[str, AdapterInfo]:
    """The report's field about an adapter, if one was trained."""
    recipe = setup.recipe
    if not recipe.peft.is_used:
        return {}
    trained = sum(value.numel() for value in weights(setup.model).values())
    info = AdapterInfo(
        parameters=trained,
        all_parameters=setup.model.num_parameters(),
        base=file_names(recipe.training.start_from),
        merged=recipe.peft.merge,
    )
    return {"adapter": info}


def languages_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[str | None]:
    """Source and target language of a model: those that its tokenizer marks texts with, or else its own."""
    if is_multilingual(tokenizer):
        return [tokenizer.src_lang, tokenizer.tgt_lang]
    return list(own_languages(model.config, tokenizer))


def describe_source(source: TextSource) -> Source:
    """A source by names that mean something elsewhere: files, for example, without their folders."""
    swapped = {"reversed": True} if source.reversed else {}
    if not source.dataset:
        paths = [source.file] if source.file else [*source.source, *source.target]
        return Source(files=[Path(path).name for path in paths], weight=source.weight, **swapped)
    is_local = source.dataset == BUILT_IN or Path(source.dataset).exists()
    return Source(
        dataset=Path(source.dataset).name if is_local else source.dataset,
        on_hub=not is_local,
        config=source.config,
        split=source.split,
        revision=source.revision,
        weight=source.weight,
        **swapped,
    )


def describe_tokenizer(tokenizer: PreTrainedTokenizerBase) -> TokenizerInfo:
    """The type of a tokenizer, and the sizes of its vocabularies."""
    if tokenizer.is_fast:
        backends = side_backends(tokenizer)
        kind, is_joint = type(backends["source"].model).__name__, backends["source"] is backends["target"]
    else:  # a tokenizer of another system
        kind, is_joint = type(tokenizer).__name__, not getattr(tokenizer, "separate_vocabs", False)
    return TokenizerInfo(
        type=kind, joint=is_joint, source_tokens=len(tokenizer), target_tokens=target_vocab_size(tokenizer)
    )


def epochs(setup: TrainingSetup, seen: dict[str, int]) -> float | None:
    """How often each training pair was seen; `None` if that is not known, or not the same for all."""
    if not seen or setup.splits.weights or isinstance(setup.corpus, StreamedCorpus):
        return None
    corpus = setup.corpus
    return seen["pairs"] / len(corpus.text if isinstance(corpus, ResampledCorpus) else corpus.pairs)


def flops(setup: TrainingSetup, model: VaswaniForConditionalGeneration, progress: Progress) -> float | None:
    """The estimated cost of training; `None` if it cannot be estimated."""
    training, seen = setup.recipe.training, progress.seen
    if not seen or training.freeze or setup.recipe.peft.is_used:
        return None
    tokens = seen["source_tokens"], seen["target_tokens"]
    costs = [training_flops(model, *tokens, passes=2 if training.r_drop else 1)]  # R-Drop computes tokens twice
    if setup.teacher:
        if setup.teacher.top_k and isinstance(setup.corpus, TokenizedCorpus):  # which it sees once
            pairs = setup.corpus.pairs
            tokens = int(pairs.source_lengths.sum()), int(pairs.target_lengths.sum())
        # A teacher makes only forward passes, a third of the cost.
        costs += [training_flops(teacher, *tokens, passes=1 / 3) for teacher in setup.teacher.models]
    return None if None in costs else sum(costs)


def analyze_test_set(setup: TrainingSetup, test: list[Pair], hypotheses: list[str]) -> Analysis:
    """Analyze the translations of a test set: an example, the best and the worst ones, and where the model is weak.

    Args:
        test: the pairs of the test set.
        hypotheses: the translation of each source.
    """
    from ...evaluation.analysis import best_and_worst, scores_by_length, short_example

    sources, references = map(list, zip(*test))
    source_ids, hypothesis_ids = encode_in_slices(plain_encoder(setup.tokenizer), sources, hypotheses)
    lengths, hypothesis_lengths = (np.array([len(row) for row in rows]) for rows in (source_ids, hypothesis_ids))
    unknown, limit = setup.tokenizer.unk_token_id, longest_sequence(setup.model)
    lowercase = setup.validator.scoring.lowercase
    longest = greatest_lengths(lengths, setup.recipe.generation.max_length_offset, limit)
    is_own = family_of(setup.model.config) is None  # others have a limit of their own
    best, worst = best_and_worst(sources, hypotheses, references, lengths, lowercase=lowercase)
    trained = {}
    if isinstance(setup.corpus, TokenizedCorpus):
        longest_trained = int(setup.corpus.pairs.source_lengths.max())
        trained = {"longest_trained": longest_trained, "beyond_training": int((lengths > longest_trained).sum())}
    return Analysis(
        sentences=len(test),
        example=short_example(sources, hypotheses),
        best=best,
        worst=worst,
        by_length=scores_by_length(hypotheses, references, lengths, lowercase),
        source_tokens=int(lengths.sum()),
        unknown_tokens=int(sum((row == unknown).sum() for row in source_ids)) if unknown is not None else 0,
        empty=sum(not hypothesis.strip() for hypothesis in hypotheses),
        # A translation that was cut has the maximum number of tokens, plus the end token that encoding its text adds.
        # This is a lower bound: unknown tokens are left out of the text, which shortens some.
        at_limit=int((hypothesis_lengths > longest).sum()) if is_own else 0,
        sources_cut=int((lengths > limit).sum()) if limit else 0,
        **trained,
    )


def greatest_lengths(lengths: np.ndarray, offset: int, positions: int | None) -> np.ndarray:
    """The number of tokens at which the search for each translation ends.

    Args:
        lengths: lengths of the sources, in tokens.
        offset: how many tokens longer than its source a translation may be.
        positions: number of the model's positions if they are learned; the start token takes the first one.
    """
    return lengths + offset if positions is None else np.minimum(lengths + offset, positions - 1)


def training_flops(
    model: VaswaniForConditionalGeneration, source_tokens: int, target_tokens: int, passes: float = 1
) -> float | None:
    """Estimate training FLOPs as 6·N·D: six per weight of a matrix and token that passes it, two of them forward.

    Source tokens pass through the encoder's layers and the key and value projections of cross-attention; target tokens
    pass through the rest of the decoder's layers and the output projection. The cost of attention itself, norms and
    embeddings is left out.

    Args:
        source_tokens, target_tokens: seen in training, without padding.
        passes: of each token through the network, averaged over all steps.

    Returns:
        The FLOPs; `None` if training uses LayerDrop, for which the estimate would be too high, and for layers with
        other names (T5).
    """
    if drops_layers(model.config) or not hasattr(model.get_encoder(), "layers"):
        return None
    source = target = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim != 2 or ".layers." not in name:
            continue
        if ".encoder.layers." in name or name.endswith(("encoder_attn.k_proj.weight", "encoder_attn.v_proj.weight")):
            source += parameter.numel()
        else:
            target += parameter.numel()
    target += model.get_output_embeddings().weight.numel()
    return 6.0 * passes * (source * source_tokens + target * target_tokens)


def summary(report: RunReport) -> str:
    """The text that a training command prints at its end."""
    from ...hub.card_wording import duration
    from ...hub.markdown import usage_code

    lines = []
    for source, translation, reference in report.examples:
        lines += [f"source       {source}", f"translation  {translation}", f"reference    {reference}", ""]
    lines.append(
        f"{counted(report.steps, 'step')} in {duration(60 * report.minutes)}; {report.parameters:,} parameters"
    )
    if report.adapter:
        lines.append(f"adapter for {report.adapter.base}: {report.adapter.size()}")
    lines.append(
        f"validation loss {report.validation_loss:.4f} per target token, perplexity "
        f"{report.validation_perplexity:.2f}; {report.validation_accuracy:.1%} of tokens right"
    )
    for name, scores in report.tests.items():
        lines += score_lines(name, scores)
    lines += mean_lines(report)
    guess = math.log(report.tokenizer.target_tokens)
    if not report.validation_loss < guess + DIVERGED:
        lines.append(
            f"The validation loss is far above that of a uniform guess ({guess:.4f}): the run diverged, and more "
            "steps do not help. Start over with --overwrite true and a lower --learning_rate."
        )
    else:
        lines += low_scores(report)
    if report.figures:
        places = dict.fromkeys(figure.partition("/")[0] for figure in report.figures)
        lines.append(f"figures: {', '.join(str(report.folder / place) for place in places)}")
    text = report.examples[0][0] if report.examples else "…"
    code = indent(usage_code(str(report.folder), text), " " * 4)
    return "\n".join([*lines, "", "Use the model in Python:", "", code])


def low_scores(report: RunReport) -> list[str]:
    """What follows from a low BLEU: by how well the model translated the validation text, and how its loss went."""
    bleu, chrf = (last_logged(report.folder, f"validation_{name}") or 0.0 for name in ("bleu", "chrf"))
    unlike = [
        name for name, scores in report.tests.items()
        if (bleu >= LEARNED and scores.bleu * FAR_BELOW < bleu)
        or (chrf >= LEARNED_CHRF and scores.chrf2 * FAR_BELOW_CHRF < chrf)
    ]  # fmt: skip
    lines = []
    if unlike:
        lines.append(
            f"The validation text had BLEU {bleu:.2f} and chrF2 {chrf:.2f}, far more than {', '.join(unlike)}."
        )
        copies, size = report.near_copies.get("validation", 0), report.pairs["validation"] or 0
        if copies >= MANY_COPIES * size:
            lines.append(
                f"{copies:,} of its {size:,} pairs are near copies of training pairs: validate with other text, and "
                "leave repetitions out with hf-vaswani clean before you hold out a share."
            )
        else:
            lines.append(
                "That text differs from what the model has learned, in spelling, tokenization, capitals or subject; "
                "more steps help little. The first lines of the run say in what, and so does hf-vaswani clean with "
                "--test_source and --test_target."
            )
    if any(scores.bleu < UNTRAINED for name, scores in report.tests.items() if name not in unlike):
        losses = logged(report.folder, "validation_loss")
        best = min(losses, key=losses.__getitem__, default=0)
        if losses and losses[max(losses)] > WORSE * losses[best]:
            lines.append(
                f"The validation loss was lowest at step {best:,}, with {losses[best]:.4f}, and rose to "
                f"{losses[max(losses)]:.4f}: the model learns its training text by heart, and more steps do not help. "
                "More text does, or a smaller model, more dropout, or a smaller vocabulary."
            )
        else:
            lines.append(
                "A BLEU this low means that the model cannot translate yet: it needs more steps. The same command "
                "with a larger --max_steps or --max_minutes continues the run."
            )
    return lines


def mean_lines(report: RunReport) -> list[str]:
    """The mean scores of a model for several directions."""
    names = {"-".join(pair) for pair in report.directions}
    own = [scores for name, scores in report.tests.items() if name in names]
    if len(own) < 2:
        return []
    bleu, chrf2 = (fmean(getattr(scores, name) or 0.0 for scores in own) for name in ("bleu", "chrf2"))
    lines = [f"mean of {len(own)} directions: BLEU {bleu:.2f}, chrF2 {chrf2:.2f}"]
    if all(scores.mbr_chrf2 is not None for scores in own):
        bleu, chrf2 = (fmean(getattr(scores, f"mbr_{name}") or 0.0 for scores in own) for name in ("bleu", "chrf2"))
        lines.append(f"mean with minimum Bayes risk decoding: BLEU {bleu:.2f}, chrF2 {chrf2:.2f}")
    return lines


def score_lines(name: str, scores: TestScores) -> list[str]:
    """The scores of a test set, with their signatures."""
    lines = [
        f"{name} BLEU {scores.bleu:.2f} ({scores.bleu_signature})",
        f"{name} chrF2 {scores.chrf2:.2f} ({scores.chrf2_signature})",
    ]
    searches = {
        "greedy": "greedy search", "mbr": "minimum Bayes risk decoding", "reranked": "reranking",
        "glossary": "the glossary",
    }  # fmt: skip
    for prefix, search in searches.items():
        bleu, chrf2 = getattr(scores, f"{prefix}_bleu"), getattr(scores, f"{prefix}_chrf2")
        if bleu is not None:
            lines.append(f"{name} with {search}: BLEU {bleu:.2f}, chrF2 {chrf2:.2f}")
    if terms := scores.terms:
        lines.append(
            f"{name} terms of the glossary: {terms.found:,} of {terms.in_sources:,} without it, "
            f"{terms.found_with_glossary:,} with it"
        )
    return lines

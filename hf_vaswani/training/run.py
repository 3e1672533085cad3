"""A training from recipe to finished folder: the one function behind every training command."""

import json
import os
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin, InitProcessGroupKwargs
from transformers import PreTrainedTokenizerBase

from ..configuration_vaswani import VaswaniConfig
from ..data.cache import cache_folder
from ..data.encoding import dropout_encoder, encode_pairs, plain_encoder
from ..data.epochs import Budget, ResampledCorpus, StreamedCorpus, TokenisedCorpus
from ..data.filters import PairFilter, filter_report
from ..data.parallel_text import Pair
from ..data.prepared import tokenise, usable
from ..data.sources import iterate_pairs
from ..errors import InputError
from ..evaluation.score import bleu, chrf
from ..hub.card import write_card
from .checkpoint import (
    average_weights,
    checkpoint_folders,
    damage_of,
    newest_intact,
    set_weights,
    update_of,
    weights_file,
)
from .loop import TrainingLoop
from .optimizer import freeze
from .output import BEST, CHECKPOINTS, begin_output, is_resumed
from .preflight import check
from .prepare import build_model, open_tokenizer
from .processes import on_main_process
from .recipe import Recipe
from .results import Results
from .selection import BestWeights
from .texts import Texts, filter_settings, languages_of, load_texts
from .updates import Corpus
from .validation import Validation

RESULTS_FILE = "results.json"
TRANSLATIONS_FILE = "test_translations.txt"
EXAMPLES = 8
# A large corpus takes hours to prepare, while the other processes wait for the first.
PATIENCE = timedelta(days=1)
# Pairs from the beginning of a stream that a new tokenizer learns from.
STREAM_SAMPLE = 1_000_000


def train(recipe: Recipe) -> Results | None:
    """Train a model, or go on with the same training, and write the final model into `training.output_dir`.

    The folder then holds the model with the mean of the last checkpoints' weights, its tokenizer,
    `generation_config.json`, a model card, translations of the test set, curves and `results.json`.

    Returns:
        The results, in the main process; `None` in the others.

    Raises:
        InputError: what the user can put right, before any long work starts.
        TrainingInterrupted: at SIGTERM or Ctrl-C, once the state is saved.
        TrainingError: where training cannot go on: its loss is not finite, or the disk is full.
    """
    accelerator = make_accelerator(recipe)
    try:
        return train_and_finish(recipe, accelerator)
    finally:
        # First the distributed model, then its process group: the other way round, their threads can wait for each
        # other.
        accelerator.free_memory()
        accelerator.end_training()


def make_accelerator(recipe: Recipe) -> Accelerator:
    """Devices, processes and precision, as recipe and launcher say.

    Raises:
        InputError: all that can be seen to be wrong with the recipe here.
    """
    arguments = recipe.training
    # One step, whatever the launcher is told: the loop divides by the tokens of the whole update itself.
    accelerator = Accelerator(
        mixed_precision=arguments.mixed_precision,
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        log_with=arguments.trackers or None,
        project_dir=arguments.output_dir,
        kwargs_handlers=[
            # LayerDrop leaves out other layers in each process, whose gradients DDP would wait for.
            DistributedDataParallelKwargs(find_unused_parameters=drops_layers(recipe)),
            InitProcessGroupKwargs(timeout=PATIENCE),
        ],
    )
    on_main_process(accelerator, lambda: check(recipe, accelerator))
    if accelerator.device.type == "cpu":
        # `accelerate launch` sets one thread a process unless told otherwise, whatever the machine has.
        torch.set_num_threads(arguments.cpu_threads or fair_share_of_cores(accelerator.num_processes))
    return accelerator


def train_and_finish(recipe: Recipe, accelerator: Accelerator) -> Results | None:
    """All of the work of [`train`], between the making of the processes and their end."""
    folder = Path(recipe.training.output_dir)
    # The first process of each machine prepares the text; the others find it in the cache.
    with accelerator.local_main_process_first():
        texts = load_texts(recipe.data)
    resumed = on_main_process(accelerator, lambda: is_resumed(recipe, texts.digests))
    tokenizer = on_main_process(accelerator, lambda: open_tokenizer(recipe, tokenizer_text(recipe, texts), resumed))
    model = build_model(recipe, tokenizer)
    frozen = freeze(model, recipe.training.freeze)
    with accelerator.local_main_process_first():
        corpus, counts = make_corpus(recipe, texts, tokenizer)
    limit = longest_sequence(model.config)
    validation = Validation(
        accelerator,
        tokenizer,
        encode_pairs(texts.validation, tokenizer, limit, "validation"),
        texts.validation[: recipe.training.validate_sentences],
        recipe.training.max_tokens,
    )
    # All that could be wrong with the input has been seen: only now is anything written or deleted.
    on_main_process(accelerator, lambda: begin_output(recipe, texts.digests, tokenizer, resumed))
    say = print if accelerator.is_main_process else lambda line: None
    checkpoint = on_main_process(accelerator, lambda: newest_intact(folder / CHECKPOINTS, say))
    if recipe.training.trackers:
        accelerator.init_trackers("hf_vaswani", config=flat(recipe.to_dict()))
    loop = TrainingLoop(
        recipe.training, folder, accelerator, model, corpus, validation, tokenizer.pad_token_id, checkpoint
    )
    for line in describe(recipe, loop, tokenizer, corpus, counts, frozen):
        loop.log.say(line)
    loop.run()
    return finish(recipe, folder, loop, tokenizer, texts.test, counts)


def tokenizer_text(recipe: Recipe, texts: Texts):
    """The pairs that a new tokenizer learns from; of a stream, its first million."""
    return texts.train if texts.train is not None else StreamSample(recipe, texts)


class StreamSample:
    """The first pairs of all streamed sources, read anew whenever they are iterated over."""

    def __init__(self, recipe: Recipe, texts: Texts):
        self.recipe, self.texts = recipe, texts

    def __iter__(self):
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
        stream_filter = PairFilter(settings)
        return (
            StreamedCorpus(streams, texts.weights, stream_filter, encode, plain, budget, data.stream_part),
            stream_filter.counts,
        )
    tokenised = tokenise(texts.train, tokenizer, cache_folder(data.cache_dir), data.processes)
    pairs, text, counts = usable(texts.train, tokenised, settings)
    corpus = TokenisedCorpus(pairs, budget, texts.weights)
    if probability:
        return ResampledCorpus(text, encode, plain, budget, pairs.origins, texts.weights), counts
    return corpus, counts


def describe(
    recipe: Recipe,
    loop: TrainingLoop,
    tokenizer: PreTrainedTokenizerBase,
    corpus: Corpus,
    counts: dict[str, int],
    frozen: int,
) -> list[str]:
    """What training begins with: filters, sizes, padding, devices."""
    accelerator, parameters = loop.accelerator, loop.raw_model.num_parameters()
    lines = []
    if not isinstance(corpus, StreamedCorpus):
        lines += [f"training text: {line}" for line in filter_report(counts, filter_settings(recipe.data))]
    if isinstance(corpus, TokenisedCorpus):
        epoch = corpus.token_budget.epoch(0)
        lines.append(
            f"{len(corpus.pairs):,} training pairs, {len(epoch):,} batches an epoch, "
            f"{corpus.token_budget.padding_ratio(epoch):.1%} padding "
            f"({corpus.token_budget.random_padding_ratio():.1%} in random batches)"
        )
    held = f", {frozen:,} of them frozen" if frozen else ""
    lines.append(
        f"{len(tokenizer):,} sub-words, {parameters:,} parameters{held}, on {accelerator.num_processes} × "
        f"{accelerator.device.type}"
    )
    return lines


def drops_layers(recipe: Recipe) -> bool:
    """Whether layers are left out in training, so that some parameters get no gradient."""
    return any(recipe.model.get(f"{stack}_layerdrop") for stack in ("encoder", "decoder"))


def longest_sequence(config: VaswaniConfig) -> int | None:
    """The tokens that a model can take; `None` where there is no limit."""
    return config.max_position_embeddings if config.position_type == "learned" else None


def fair_share_of_cores(processes: int) -> int:
    """Cores for each of so many processes on this machine; at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(cores // int(os.environ.get("LOCAL_WORLD_SIZE", processes)), 1)


def flat(sections: dict[str, dict]) -> dict[str, str | int | float | bool]:
    """A recipe as trackers take it: one level of keys, plain values."""
    pairs = {f"{section}.{name}": value for section, keys in sections.items() for name, value in keys.items()}
    return {name: value if isinstance(value, str | int | float) else str(value) for name, value in pairs.items()}


def finish(
    recipe: Recipe,
    folder: Path,
    loop: TrainingLoop,
    tokenizer: PreTrainedTokenizerBase,
    test_pairs: list[Pair] | None,
    counts: dict[str, int],
) -> Results | None:
    """Average checkpoints, score the mean, and save all that is needed to use it."""
    model = loop.raw_model
    files = on_main_process(loop.accelerator, lambda: files_to_average(recipe, folder, loop.log.say))
    set_weights(model, average_weights(files))
    validation_loss, validation_accuracy = loop.validation.likelihood(model)
    scores, examples, hypotheses = [], [], []
    if test_pairs:
        sources, references = map(list, zip(*test_pairs))
        hypotheses = loop.validation.translate(model, sources, show_progress=loop.accelerator.is_main_process)
        scores = [bleu(hypotheses, references), chrf(hypotheses, references)]
        examples = list(zip(sources, hypotheses, references))[:EXAMPLES]
    if not loop.accelerator.is_main_process:
        return None
    results = Results(
        folder,
        loop.progress.update,
        loop.progress.seconds / 60,
        model.num_parameters(),
        validation_loss,
        validation_accuracy,
        [update_of(file.parent) for file in files],
        counts,
        scores,
        examples,
    )
    if test_pairs:
        (folder / TRANSLATIONS_FILE).write_text("".join(f"{text}\n" for text in hypotheses), encoding="utf-8")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / RESULTS_FILE).write_text(json.dumps(results.to_dict(), indent=2) + "\n", encoding="utf-8")
    if loop.has_trained or not (folder / "README.md").exists():
        write_card(folder, recipe.to_dict(), results.to_dict())
    return results


def files_to_average(recipe: Recipe, folder: Path, report) -> list[Path]:
    """The weights whose mean is the final model: of the last checkpoints, or of the best; damaged ones passed over.

    Raises:
        InputError: where there are none.
    """
    arguments = recipe.training
    if arguments.average_best:
        best = BestWeights(folder / BEST, arguments.best_metric, arguments.keep_best).folders()
        paths = best[: arguments.average_best]
    else:
        last = checkpoint_folders(folder / CHECKPOINTS)[-arguments.average_last :]
        paths = [path for path in last if damage_of(path) is None]
        for path in set(last) - set(paths):
            report(f"{path} is damaged, and left out of the mean")
    if not paths:
        raise InputError(
            f"{folder} holds no whole weights to make the final model from. Raise training.max_updates to train on."
        )
    return [weights_file(path) for path in paths]

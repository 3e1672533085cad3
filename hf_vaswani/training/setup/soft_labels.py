"""Computes a teacher's soft labels for the training text, once for all steps, into the cache of prepared text."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from accelerate import Accelerator
from tqdm import tqdm

from ...data.cache import cache_folder, cached
from ...data.encoding import Collator, EncodedPairs
from ...data.epochs import Budget, TokenizedCorpus
from ...data.soft_labels import LabeledRows, read_soft_labels, write_soft_labels
from ...runtime.processes import first_on_each_machine
from ...runtime.threads import cores_of_run, threads_set
from ..optimization.passes import CPU_PASS_TOKENS
from ..optimization.word_distillation import WordTeacher
from ..recipe.recipe import Recipe

# Incremented when the meaning of the files changes.
FORMAT = 1


def with_soft_labels(
    corpus: TokenizedCorpus,
    teacher: WordTeacher,
    recipe: Recipe,
    processes: Accelerator,
    collate: Collator,
    vocab_size: int,
) -> TokenizedCorpus:
    """The corpus with the teacher's soft labels, which the first process on each machine computes.

    Args:
        vocab_size: that of the run's model.

    Raises:
        InputError: the cache cannot be read or written.
    """
    pairs = corpus.pairs
    k = min(teacher.top_k, vocab_size)
    device, precision = processes.device, processes.mixed_precision
    key = ["soft labels", FORMAT, pairs.digest(), teacher.digest, k, vocab_size, device.type, precision]

    def make(folder: Path) -> None:
        placed = teacher.copy_to(device, precision)
        with threads_set(cores_of_run(recipe.training.cpu_threads, processes.num_processes)):
            write_soft_labels(folder, pairs.target_lengths, k, _labeled(pairs, placed, collate, device, vocab_size))

    found = first_on_each_machine(
        processes,
        lambda: cached(
            cache_folder(recipe.data.cache_dir),
            key,
            make,
            lambda folder: read_soft_labels(folder, pairs.target_lengths, k),
        ),
    )
    return TokenizedCorpus(replace(pairs, soft_labels=found), corpus.budget, corpus.weights)


def _labeled(
    pairs: EncodedPairs, teacher: WordTeacher, collate: Collator, device: torch.device, vocab_size: int
) -> Iterator[LabeledRows]:
    """The soft labels of all pairs, batch by batch; the batches depend on nothing but the pairs."""
    longest = max(int(pairs.source_lengths.max()), int(pairs.target_lengths.max()))
    batches = Budget(max(CPU_PASS_TOKENS, longest)).batches(pairs).epoch(0)
    with tqdm(total=len(pairs), unit=" pairs", desc="Soft labels", disable=not sys.stderr.isatty()) as bar:
        for rows in batches:
            batch = {name: tensor.to(device) for name, tensor in collate(pairs.rows(rows)).items()}
            labels = teacher.soft_labels(batch, vocab_size)
            ids, probabilities = labels.ids.cpu().numpy(), labels.probabilities.half().cpu().numpy()
            lengths = pairs.target_lengths[rows].tolist()
            yield rows, [(ids[i, :length], probabilities[i, :length]) for i, length in enumerate(lengths)]
            bar.update(len(rows))

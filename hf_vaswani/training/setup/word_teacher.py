"""The models that a run distills word by word: opened, checked against the run, and used once for their soft labels
of the training text, into the cache of prepared text.
"""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from accelerate import Accelerator
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.cache import cache_folder, cached
from ...data.encoding import Collator, EncodedPairs, LabeledRows, read_soft_labels, write_soft_labels
from ...data.epochs import Budget, TokenizedCorpus
from ...data.prepared import PreparedText, tokenizer_digest
from ...errors import InputError, TrainingInterrupted
from ...files import collect_errors
from ...generation.model_checks import vocabulary_error
from ...runtime.processes import first_on_each_machine
from ...runtime.signals import StopSignals
from ...runtime.threads import cores_of_run, threads_set
from ...text.languages import fits_pair, language_code, pairs_in_words
from ...text.vocabularies import target_vocab_size, vocabularies
from ..optimization.step_batches import CPU_PASS_TOKENS
from ..optimization.word_distillation import WordTeacher
from ..recipe.arguments import TEACHER
from ..recipe.recipe import Recipe
from .inputs import RunInputs
from .splits import learns_both_directions, model_languages

# Incremented when the meaning of the files changes.
FORMAT = 1
# Tokens of a padded side in a forward pass of a teacher on other devices than a CPU.
PASS_TOKENS = 16_384
# What a config says of where and how a model was saved.
ORIGIN = {"_name_or_path", "architectures", "auto_map", "dtype", "transformers_version"}


def word_teacher(
    inputs: RunInputs, tokenizer: PreTrainedTokenizerBase | None, model: VaswaniForConditionalGeneration | None
) -> WordTeacher | None:
    """The models of `training.distill_from`, on the CPU; `None` if there are none.

    Args:
        tokenizer, model: those of the run, `None` if they are not known yet; the vocabulary is then checked later.

    Raises:
        InputError: all errors at once: a model cannot be read, or does not fit the run.
    """
    training, models = inputs.recipe.training, []
    errors: list[str] = []
    for name in training.teachers:
        if found := collect_errors(errors, lambda name=name: inputs.teacher(name)):
            models.append(found[0])
            errors += [f"{TEACHER}={name}: {error}" for error in misfits(inputs, name, tokenizer, model)]
    if errors:
        raise InputError.of(errors)
    return WordTeacher(models, training.distill_weight, training.distill_top_k) if models else None


def misfits(
    inputs: RunInputs,
    name: str,
    tokenizer: PreTrainedTokenizerBase | None,
    model: VaswaniForConditionalGeneration | None,
) -> list[str]:
    """Why a model cannot teach a run, whose tokenizer and model are given as in [`word_teacher`]."""
    recipe, (teacher, own_tokenizer) = inputs.recipe, inputs.teacher(name)
    errors = [error] if (error := vocabulary_error(teacher, own_tokenizer)) else []
    if tokenizer is not None and not errors:
        # Vocabularies may be padded to a round number of embeddings.
        rows = model.config.decoder_vocab_size if model else target_vocab_size(tokenizer)
        if vocabularies(own_tokenizer) != vocabularies(tokenizer):
            errors.append(f"its vocabulary is not the run's. Set tokenizer.path={name}, or choose another one")
        elif teacher.config.decoder_vocab_size < rows:
            errors.append(f"it has fewer embeddings than the run's model, {rows:,}. Choose another one")
    languages = teacher.config.source_language, teacher.config.target_language
    if learns_both_directions(recipe.data):
        is_fit = languages == (None, None)
    else:
        is_fit = fits_pair(tuple(map(language_code, model_languages(recipe.data))), languages)
    if not is_fit:
        errors.append(f"it translates {pairs_in_words([languages])}, not the run's languages. Choose another one")
    limit = teacher.config.longest_sequence
    if limit and (recipe.data.max_length or 0) > limit:
        errors.append(f"data.max_length={recipe.data.max_length} exceeds its {limit} learned positions; lower it")
    return errors


@dataclass(frozen=True)
class Labeling:
    """What the soft labels of a run depend on.

    Attributes:
        text: the training text, before the length filters.
        stop: the signals that stop the work.
    """

    recipe: Recipe
    text: PreparedText
    tokenizer: PreTrainedTokenizerBase
    teacher: WordTeacher
    processes: Accelerator
    stop: StopSignals

    def __call__(self, corpus: TokenizedCorpus) -> TokenizedCorpus:
        """The corpus with soft labels, which the first process on each machine computes, unless they are cached.

        Raises:
            InputError: the cache cannot be read or written, or the teacher's output is not finite.
            TrainingInterrupted: after a signal.
        """
        pairs, data = corpus.pairs, self.recipe.data
        labels = first_on_each_machine(
            self.processes,
            lambda: cached(
                cache_folder(data.cache_dir),
                self._key(pairs),
                lambda folder: self._write(pairs, folder),
                lambda folder: read_soft_labels(folder, pairs.target_lengths, self._k),
            ),
        )
        return TokenizedCorpus(replace(pairs, soft_labels=labels), corpus.budget, corpus.weights)

    @property
    def _k(self) -> int:
        return self.teacher.tokens_kept(target_vocab_size(self.tokenizer))

    @property
    def _threads(self) -> int:
        return cores_of_run(self.recipe.training.cpu_threads, self.processes.num_processes)

    def _key(self, pairs: EncodedPairs) -> list:
        """Everything that decides the labels, to the last bit on the same machine."""
        configs = [model.config.to_dict() for model in self.teacher.models]
        configs = [{name: value for name, value in config.items() if name not in ORIGIN} for config in configs]
        # Which pairs the length filters have kept.
        kept = hashlib.sha256(pairs.source_lengths.tobytes() + pairs.target_lengths.tobytes()).hexdigest()
        where = [self.processes.device.type, self._threads, torch.__version__, self.processes.mixed_precision]
        text = [self.text.digest, tokenizer_digest(self.tokenizer), kept]
        return ["soft labels", FORMAT, *text, self.teacher.digest, configs, self._k, *where]

    def _write(self, pairs: EncodedPairs, folder: Path) -> None:
        with threads_set(self._threads):
            write_soft_labels(folder, pairs.target_lengths, self._k, self._labeled(pairs))

    def _labeled(self, pairs: EncodedPairs) -> Iterator[LabeledRows]:
        """The soft labels of all pairs, batch by batch."""
        device, precision = self.processes.device, self.processes.mixed_precision
        teacher, collate = self.teacher.copy_to(device, precision), Collator(self.tokenizer.pad_token_id)
        # The batches depend on nothing but the pairs and the kind of device.
        tokens = CPU_PASS_TOKENS if device.type == "cpu" else PASS_TOKENS
        longest = max(int(pairs.source_lengths.max()), int(pairs.target_lengths.max()))
        batches = Budget(max(tokens, longest)).batches(pairs).epoch(0)
        with tqdm(total=len(pairs), unit=" pairs", desc="Soft labels", disable=not sys.stderr.isatty()) as bar:
            for rows in batches:
                if self.stop.received:
                    raise TrainingInterrupted(
                        f"Stopped by {self.stop.name} while soft labels were computed. Run the same command again to "
                        "compute them from the beginning.",
                        self.stop.received,
                    )
                batch = {name: tensor.to(device) for name, tensor in collate(pairs.rows(rows)).items()}
                labels = teacher.soft_labels(batch, target_vocab_size(self.tokenizer))
                if not labels.probabilities.isfinite().all():
                    raise InputError(
                        f"training.distill_from={','.join(self.recipe.training.teachers)}: the output is not finite "
                        f"with mixed_precision={precision}. Check the model, or choose another precision."
                    )
                ids, probabilities = labels.ids.cpu().numpy(), labels.probabilities.half().cpu().numpy()
                lengths = pairs.target_lengths[rows].tolist()
                yield rows, [(ids[i, :length], probabilities[i, :length]) for i, length in enumerate(lengths)]
                bar.update(len(rows))

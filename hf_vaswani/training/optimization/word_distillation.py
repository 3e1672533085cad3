"""Word-level knowledge distillation (Kim & Rush 2016, section 3.1): at each position of the target, the model also
learns the whole distribution of a teacher over the next token, not only the token that follows.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from ...core.modeling_vaswani import IGNORED_LABEL, VaswaniForConditionalGeneration
from ...fast.label_smoothing import (
    CrossEntropy,
    fused_loss,
    is_fused,
    logits_by_row,
    sequence_loss,
    softmax_into,
)
from .weights import tensors_digest


@dataclass(frozen=True)
class WordTeacher:
    """The models whose distributions a run learns.

    Attributes:
        models: in evaluation mode, with the run's vocabulary; the teacher's distribution is the mean of theirs.
        weight: share of the loss that compares with the teacher; the rest compares with the labels.
        top_k: how many tokens of a distribution the soft labels keep; `None`: whole distributions, in each step.
    """

    models: list[VaswaniForConditionalGeneration]
    weight: float
    top_k: int | None = None

    @cached_property
    def digest(self) -> str:
        """The digest that identifies the weights of the models, in their order."""
        named = ((i, name, value) for i, model in enumerate(self.models) for name, value in model.named_parameters())
        return tensors_digest({f"{i}.{name}": value for i, name, value in named})

    def copy_to(self, device: torch.device, mixed_precision: str) -> "WordTeacher":
        """The same models on a device, with weights in the precision of the run; copies, unless nothing changes.

        On a CPU, autocast would convert weights and activations again and again, and take almost twice as long.
        """
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(mixed_precision, torch.float32)
        return replace(
            self,
            models=[
                model if (model.device, model.dtype) == (device, dtype) else copy.deepcopy(model).to(device, dtype)
                for model in self.models
            ],
        )

    @torch.no_grad()
    def logits(self, batch: dict[str, torch.Tensor], vocab_size: int) -> list[torch.Tensor]:
        """The logits `(batch, target_length, vocab_size)` of each model, for a batch as in [`training_loss`].

        Args:
            vocab_size: that of the run's model; embeddings beyond it only pad a teacher's vocabulary.
        """
        return list(self._logits_of_each(batch, vocab_size))

    def _logits_of_each(self, batch: dict[str, torch.Tensor], vocab_size: int) -> Iterator[torch.Tensor]:
        inputs, labels = {name: batch[name] for name in ("input_ids", "attention_mask")}, batch["labels"]
        for model in self.models:
            inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
            with torch.autocast(labels.device.type, enabled=False):
                logits = model(**inputs, use_cache=False).logits[..., :vocab_size]
            yield logits

    def distributions(self, batch: dict[str, torch.Tensor], vocab_size: int) -> "TeacherLogits | TopTokens":
        """What the teacher expects at each target position of a batch: its soft labels, if the batch has some."""
        if "soft_label_ids" in batch:
            probabilities = batch["soft_label_probabilities"].float()
            # Their sum is not exactly 1 after rounding to 16 bits, and 0 where they only pad.
            sums = probabilities.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float16).tiny)
            return TopTokens(batch["soft_label_ids"].long(), probabilities / sums)
        return TeacherLogits(self.logits(batch, vocab_size))

    def tokens_kept(self, vocab_size: int) -> int:
        """How many tokens the soft labels of a position keep: `top_k`, or all that there are."""
        return vocab_size if self.top_k is None else min(self.top_k, vocab_size)

    @torch.no_grad()
    def soft_labels(self, batch: dict[str, torch.Tensor], vocab_size: int) -> "TopTokens":
        """The `top_k` most probable tokens at each target position, their probabilities scaled to a sum of 1."""
        total = sum(logits.float().softmax(-1) for logits in self._logits_of_each(batch, vocab_size))
        probabilities, ids = total.topk(self.tokens_kept(vocab_size), dim=-1)
        return TopTokens(ids, probabilities / probabilities.sum(-1, keepdim=True))


@dataclass(frozen=True)
class TeacherLogits:
    """Whole distributions, the mean of those of several models.

    Attributes:
        models: the logits `(…, vocab_size)` of each model.
    """

    models: list[torch.Tensor]

    def by_row(self) -> "TeacherLogits":
        """`(…, vocab_size)` → `(n, vocab_size)`."""
        return TeacherLogits([logits_by_row(part) for part in self.models])

    def at(self, rows: slice | torch.Tensor) -> "TeacherLogits":
        """Those of some rows."""
        return TeacherLogits([part[rows] for part in self.models])

    def mean_of(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of values `(n, vocab_size)` under each row's distribution, `(n,)`."""
        return (torch.stack([part.float().softmax(-1) for part in self.models]).mean(0) * values).sum(-1)

    def subtract_gradient(self, gradient: torch.Tensor, logits: torch.Tensor, weight: float) -> torch.Tensor:
        """Subtract the gradient of the weighted mean of logits `(n, vocab_size)`, and return that mean, `(n, 1)`."""
        share, soft = weight / len(self.models), torch.empty_like(logits)
        total = logits.new_zeros((len(logits), 1))
        for part in self.models:
            softmax_into(soft, part.float())
            total += share * torch.linalg.vecdot(soft, logits).unsqueeze(1)
            gradient.sub_(soft, alpha=share)
        return total


@dataclass(frozen=True)
class TopTokens:
    """The most probable tokens of each distribution; the others count as impossible.

    Attributes:
        ids: `(…, k)`, int64.
        probabilities: `(…, k)`, float32.
    """

    ids: torch.Tensor
    probabilities: torch.Tensor

    def by_row(self) -> "TopTokens":
        """`(…, k)` → `(n, k)`."""
        return TopTokens(self.ids.flatten(0, -2), self.probabilities.flatten(0, -2))

    def at(self, rows: slice | torch.Tensor) -> "TopTokens":
        """Those of some rows."""
        return TopTokens(self.ids[rows], self.probabilities[rows])

    def mean_of(self, values: torch.Tensor) -> torch.Tensor:
        """The mean of values `(n, vocab_size)` under each row's distribution, `(n,)`."""
        return (self.probabilities * values.gather(-1, self.ids)).sum(-1)

    def subtract_gradient(self, gradient: torch.Tensor, logits: torch.Tensor, weight: float) -> torch.Tensor:
        """Subtract the gradient of the weighted mean of logits `(n, vocab_size)`, and return that mean, `(n, 1)`."""
        gradient.scatter_add_(1, self.ids, -weight * self.probabilities)
        return weight * self.mean_of(logits).unsqueeze(1)


def distillation_loss(
    logits: torch.Tensor,
    expected: TeacherLogits | TopTokens,
    labels: torch.Tensor,
    label_smoothing: float,
    target_tokens: float,
    weight: float,
) -> torch.Tensor:
    """(1 - weight) times the cross-entropy against the labels, plus weight times that against the teacher's
    distribution, in float32.

    Args:
        logits: `(batch, target_length, vocab_size)`.
        expected: the teacher's distributions at the same positions.
        labels: `(batch, target_length)`; positions of -100 do not count.
        label_smoothing: epsilon of the labels, as in [`sequence_loss`]; the teacher's distribution is not smoothed.
        target_tokens: divisor of the sum over all positions.
    """
    if is_fused(logits, "cpu"):
        mixed = CrossEntropy(label_smoothing, expected.by_row(), weight)
        return fused_loss(logits, labels, float(target_tokens), mixed)
    words = expected.by_row().mean_of(logits.float().log_softmax(-1).flatten(0, -2))
    # If the labels that count were an index, a GPU would have to finish all its work first.
    word_loss = -words.where(labels.flatten() != IGNORED_LABEL, 0).sum() / target_tokens
    return (1 - weight) * sequence_loss(logits, labels, label_smoothing, target_tokens) + weight * word_loss

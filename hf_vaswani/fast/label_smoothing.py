"""The smoothed cross-entropy that the model is trained with (section 5.4).

Its gradient is simple: softmax minus the smoothed labels. In training, it is computed together with the loss, some
rows at a time: on a CPU a few, which stay in the processor's caches. Left to autograd, the same sums make a dozen
passes over all logits, the largest tensor there is. On a CPU they take a third of the time of an optimizer step; on a
GPU, they keep several copies of all logits in float32.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ..core import modeling_vaswani
from ..core.modeling_vaswani import IGNORED_LABEL

# Number of logits processed at once, few enough for the processor's caches.
CACHED_LOGITS = 2**18
# On a GPU: 256 MiB in float32.
DEVICE_LOGITS = 2**26

# Losses `(n, 1)` of some rows, and their gradients `(n, vocab_size)`.
LossesAndGradients = tuple[list[torch.Tensor], list[torch.Tensor]]


def sequence_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """The model's own loss, [`sequence_loss`](../core/modeling_vaswani.py), with its arguments."""
    if not is_fused(logits, "cpu", "cuda"):
        return modeling_vaswani.sequence_loss(logits, labels, label_smoothing, num_items_in_batch)
    labels = labels.to(logits.device)
    if num_items_in_batch is None:
        # A batch of nothing but padding has loss 0, not 0 / 0.
        num_items_in_batch = labels.ne(IGNORED_LABEL).sum().clamp(min=1)
    if logits.device.type == "cpu":
        return fused_loss(logits, labels, float(num_items_in_batch), CrossEntropy(label_smoothing))
    if torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    return fused_loss(logits, labels, num_items_in_batch, DeviceCrossEntropy(label_smoothing))


def is_fused(logits: torch.Tensor, *devices: str) -> bool:
    """Whether a loss of these logits is to be computed along with its gradient, if that is written for `devices`."""
    return logits.requires_grad and logits.device.type in devices and not torch.compiler.is_compiling()


def logits_by_row(logits: torch.Tensor) -> torch.Tensor:
    """`(…, vocab_size)` → `(n, vocab_size)`, in float32 or bfloat16.

    bfloat16 stays: it is converted a few rows at a time, which saves a float32 copy of all logits, and another of
    their gradient. float16 does not: a small gradient would be lost before a gradient scaler multiplies it.
    """
    return (logits if logits.dtype == torch.bfloat16 else logits.float()).flatten(0, -2)


def softmax_into(probabilities: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Write the softmax of logits `(n, vocab_size)` to `probabilities`; return their log-sum-exp, `(n, 1)`.

    Both take one exponential per logit, and pass over the caches faster than torch's softmax.
    """
    highest = logits.amax(1, keepdim=True)
    sums = torch.sub(logits, highest, out=probabilities).exp_().sum(1, keepdim=True)
    probabilities /= sums
    return highest + sums.log_()


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy of rows against smoothed labels, on a CPU.

    With `expected`, it is against the mean of these and of other distributions over the next token, which have the
    share `weight`. Cross-entropy is linear in its targets, so the gradient is softmax minus that mean.

    Attributes:
        expected: distributions of all rows, with the methods of a teacher's: `at` and `subtract_gradient`.
    """

    label_smoothing: float
    expected: Any = None
    weight: float = 0.0

    passes = 1

    @property
    def logits_at_once(self) -> int:
        """The number of logits of a pass to compute at once."""
        return CACHED_LOGITS if self.expected is None else CACHED_LOGITS // 2

    def shares(self, vocab_size: int, share: float = 1.0) -> tuple[float, float]:
        """The probability that smoothed labels give to each token, and what they give to the right one besides; both
        times `share`."""
        return share * self.label_smoothing / vocab_size, share * (1 - self.label_smoothing)

    def entropies(self, logits: torch.Tensor, log_sums: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Cross-entropies against smoothed labels, `(n, 1)`, of logits with their log-sum-exp."""
        every, more = self.shares(logits.shape[1])
        entropies = log_sums - more * logits.gather(1, right)
        if every:
            entropies -= every * logits.sum(1, keepdim=True)
        return entropies

    def __call__(
        self, passes: list[torch.Tensor], right: torch.Tensor, scale: torch.Tensor, rows: slice
    ) -> LossesAndGradients:
        """The losses and scaled gradients of some rows.

        Args:
            passes: logits `(n, vocab_size)` in float32, of each pass.
            right: the labels, `(n, 1)`.
            scale: of the gradients, `(n, 1)`; 0 for labels that do not count.
            rows: which of all rows these are.
        """
        (logits,) = passes
        gradient = torch.empty_like(logits)
        log_sums = softmax_into(gradient, logits)
        losses = self.entropies(logits, log_sums, right)
        if self.expected is not None:
            losses = (1 - self.weight) * losses
            expected = self.expected.at(rows)
            losses += self.weight * log_sums - expected.subtract_gradient(gradient, logits, self.weight)
        every, more = self.shares(logits.shape[1], 1 - self.weight)
        if every:
            gradient -= every
        gradient.scatter_add_(1, right, gradient.new_full(right.shape, -more))
        return [losses], [gradient.mul_(scale)]


class DeviceCrossEntropy(CrossEntropy):
    """[`CrossEntropy`] on a GPU: in few kernels, and without waiting for any of them."""

    @property
    def logits_at_once(self) -> int:
        return DEVICE_LOGITS

    def __call__(
        self, passes: list[torch.Tensor], right: torch.Tensor, scale: torch.Tensor, rows: slice
    ) -> LossesAndGradients:
        (logits,) = passes
        every, more = self.shares(logits.shape[1])
        log_probs = logits.log_softmax(-1)
        of_right = log_probs.gather(1, right)
        losses = -more * of_right
        if every:  # otherwise, tokens that are impossible would make it NaN
            losses -= every * log_probs.sum(1, keepdim=True)
        gradient = torch.addcmul(-every * scale, log_probs.exp_(), scale)
        return [losses], [gradient.scatter_(1, right, (of_right.exp_() - every + self.label_smoothing - 1) * scale)]


def fused_loss(
    logits: torch.Tensor, labels: torch.Tensor, divisor: torch.Tensor | float, loss: CrossEntropy
) -> torch.Tensor:
    """A sum over rows, computed along with its gradient, divided by `divisor`.

    Args:
        logits: `(passes · batch, target_length, vocab_size)`, of one pass after the other.
        labels: `(batch, target_length)`; positions of -100 do not count.
        loss: computes some rows.
    """
    return FusedLoss.apply(logits_by_row(logits), labels.flatten(), divisor, loss)


class FusedLoss(torch.autograd.Function):
    """The loss of rows of logits `(passes · n, vocab_size)` with labels `(n,)`, computed along with its gradient.

    Both are computed in float32, some rows at a time; the gradient is kept in the type of the logits, float32 or
    bfloat16.
    """

    @staticmethod
    def forward(
        ctx, logits: torch.Tensor, labels: torch.Tensor, divisor: torch.Tensor | float, loss: CrossEntropy
    ) -> torch.Tensor:
        gradient = torch.empty_like(logits)
        total = logits.new_zeros((), dtype=torch.float32)
        n, step = len(labels), max(1, loss.logits_at_once // logits.shape[1])
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            counted = (labels[rows] != IGNORED_LABEL).unsqueeze(1)
            right = labels[rows].unsqueeze(1).where(counted, 0)
            places = [slice(i * n + rows.start, i * n + rows.stop) for i in range(loss.passes)]
            results = loss([logits[place].float() for place in places], right, counted.float() / divisor, rows)
            for place, losses, part in zip(places, *results):
                total += losses.where(counted, 0).sum()
                gradient[place] = part
        ctx.save_for_backward(gradient)
        return total / divisor

    @staticmethod
    @once_differentiable
    def backward(ctx, of_loss: torch.Tensor):
        (gradient,) = ctx.saved_tensors
        # The loss itself is nearly always what is differentiated: no need for another pass over the large tensor. To
        # know that, a GPU would have to finish all its work first.
        is_whole = of_loss.device.type == "cpu" and of_loss == 1
        return gradient if is_whole else gradient * of_loss, None, None, None


__all__ = ["CrossEntropy", "fused_loss", "is_fused", "sequence_loss"]

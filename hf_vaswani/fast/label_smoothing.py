"""The smoothed cross-entropy that the model is trained with (section 5.4).

Its gradient is simple: softmax minus the smoothed labels. In training, it is computed together with the loss, some
rows at a time: on a CPU a few, which stay in the processor's caches. Left to autograd, the same sums make a dozen
passes over all logits, the largest tensor there is. On a CPU they take a third of the time of an optimizer step; on a
GPU, they keep several copies of all logits in float32.
"""

import torch
from torch.autograd.function import once_differentiable

from ..core import modeling_vaswani
from ..core.modeling_vaswani import IGNORED_LABEL

# Number of logits processed at once, few enough for the processor's caches.
CACHED_LOGITS = 2**18
# On a GPU: 256 MiB in float32.
DEVICE_LOGITS = 2**26


def sequence_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    label_smoothing: float = 0.0,
    num_items_in_batch: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """The model's own loss, [`sequence_loss`](../core/modeling_vaswani.py), with its arguments."""
    device = logits.device.type
    if not logits.requires_grad or device not in ("cpu", "cuda") or torch.compiler.is_compiling():
        return modeling_vaswani.sequence_loss(logits, labels, label_smoothing, num_items_in_batch)
    labels = labels.to(logits.device)
    if num_items_in_batch is None:
        # A batch of nothing but padding has loss 0, not 0 / 0.
        num_items_in_batch = labels.ne(IGNORED_LABEL).sum().clamp(min=1)
    rows, labels = logits_by_row(logits), labels.flatten()
    if device == "cpu":
        return SmoothedCrossEntropy.apply(rows, labels, label_smoothing, float(num_items_in_batch))
    if torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    return DeviceCrossEntropy.apply(rows, labels, label_smoothing, num_items_in_batch)


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


def smoothed_entropies(
    logits: torch.Tensor, log_sums: torch.Tensor, right: torch.Tensor, label_smoothing: float
) -> torch.Tensor:
    """Cross-entropies against smoothed labels, `(n, 1)`.

    Args:
        logits: `(n, vocab_size)`, with their log-sum-exp `log_sums` and their labels `right`, `(n, 1)` each.
    """
    entropies = log_sums - (1 - label_smoothing) * logits.gather(1, right)
    if label_smoothing:
        entropies -= label_smoothing / logits.shape[1] * logits.sum(1, keepdim=True)
    return entropies


class LossWithGradient(torch.autograd.Function):
    """A loss with a gradient for its first argument only, which `forward` computes and saves along with the loss."""

    @staticmethod
    @once_differentiable
    def backward(ctx, of_loss: torch.Tensor):
        (gradient,) = ctx.saved_tensors
        # The loss itself is nearly always what is differentiated: no need for another pass over the large tensor. To
        # know that, a GPU would have to finish all its work first.
        is_whole = of_loss.device.type == "cpu" and of_loss == 1
        return gradient if is_whole else gradient * of_loss, *[None] * (len(ctx.needs_input_grad) - 1)


class SmoothedCrossEntropy(LossWithGradient):
    """The loss of rows of logits `(n, vocab_size)` with labels `(n,)`, computed along with its gradient.

    Both are computed in float32; the gradient is kept in the type of the logits, float32 or bfloat16.
    """

    @staticmethod
    def forward(
        ctx, logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float, divisor: float
    ) -> torch.Tensor:
        gradient = torch.empty_like(logits)
        total = logits.new_zeros((), dtype=torch.float32)
        vocab_size = logits.shape[1]
        step = max(1, CACHED_LOGITS // vocab_size)
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            counted = labels[rows] != IGNORED_LABEL
            right = labels[rows].where(counted, 0).unsqueeze(1)
            part_logits = logits[rows].float()
            part = torch.empty_like(part_logits)
            entropies = smoothed_entropies(part_logits, softmax_into(part, part_logits), right, label_smoothing)
            total += entropies.squeeze(1).where(counted, 0).sum()
            if label_smoothing:
                part -= label_smoothing / vocab_size
            part.scatter_add_(1, right, part.new_full(right.shape, label_smoothing - 1))
            gradient[rows] = part.mul_((counted / divisor).unsqueeze(1))
        ctx.save_for_backward(gradient)
        return total / divisor


class DeviceCrossEntropy(LossWithGradient):
    """[`SmoothedCrossEntropy`] on a GPU: in few kernels, and without waiting for any of them."""

    @staticmethod
    def forward(
        ctx, logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float, divisor: torch.Tensor | float
    ) -> torch.Tensor:
        gradient = torch.empty_like(logits)
        total = logits.new_zeros((), dtype=torch.float32)
        smoothed = label_smoothing / logits.shape[1]
        step = max(1, DEVICE_LOGITS // logits.shape[1])
        for start in range(0, len(logits), step):
            rows = slice(start, start + step)
            counted = (labels[rows] != IGNORED_LABEL).unsqueeze(1)
            right = labels[rows].unsqueeze(1).where(counted, 0)
            log_probs = logits[rows].float().log_softmax(-1)
            of_right = log_probs.gather(1, right)
            entropies = (label_smoothing - 1) * of_right
            if label_smoothing:  # otherwise, tokens that are impossible would make it NaN
                entropies -= smoothed * log_probs.sum(1, keepdim=True)
            total += entropies.where(counted, 0).sum()
            share = counted.float() / divisor
            gradient[rows] = torch.addcmul(-smoothed * share, log_probs.exp_(), share)
            of_right = (of_right.exp_() - smoothed + label_smoothing - 1) * share
            gradient[rows].scatter_(1, right, of_right.to(gradient.dtype))
        ctx.save_for_backward(gradient)
        return total / divisor


__all__ = ["sequence_loss"]

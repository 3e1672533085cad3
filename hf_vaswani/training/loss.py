"""The loss of a training step: smoothed cross-entropy, alone or with R-Drop."""

import torch
import torch.nn.functional as F
from torch import nn

from ..loss_vaswani import CACHED_LOGITS, IGNORED_LABEL, LossWithGradient


def training_loss(
    model: nn.Module, batch: dict[str, torch.Tensor], target_tokens: int, r_drop: float = 0.0
) -> torch.Tensor:
    """A batch's part of the mean loss per target token of an update.

    Args:
        batch: `input_ids`, `attention_mask` and `labels` of the model.
        target_tokens: of the whole update, in all its batches and processes.
        r_drop: weight alpha of R-Drop (Liang et al. 2021); 0 for none. Each pair is then computed twice in one
            forward pass, under two dropout masks. The loss is half the sum of both cross-entropies plus alpha / 2
            times the mean of the two Kullback–Leibler divergences between their distributions: equation 4 of the
            article, halved, so that alpha 0 is the plain loss.
    """
    if not r_drop:
        return model(**batch, num_items_in_batch=target_tokens).loss
    doubled = {name: torch.cat([tensor, tensor]) for name, tensor in batch.items()}
    output = model(**doubled, num_items_in_batch=2 * target_tokens)
    return output.loss + divergence(output.logits, batch["labels"] != IGNORED_LABEL, r_drop / 2 / target_tokens)


def divergence(logits: torch.Tensor, counted: torch.Tensor, weight: float) -> torch.Tensor:
    """The mean of both Kullback–Leibler divergences between two passes, summed over positions, times a weight.

    Args:
        logits: `(2 · batch, target_length, vocab_size)`, the second pass behind the first.
        counted: `(batch, target_length)`, bool; the positions that count.
    """
    logits, counted = logits.float().flatten(0, -2), counted.flatten()
    if logits.device.type == "cpu" and not torch.compiler.is_compiling():
        return Divergence.apply(logits, counted, float(weight))
    first, second = (half[counted].log_softmax(-1) for half in logits.chunk(2))
    both = F.kl_div(first, second, reduction="sum", log_target=True)
    both = both + F.kl_div(second, first, reduction="sum", log_target=True)
    return weight / 2 * both


class Divergence(LossWithGradient):
    """The divergence on a CPU, with its gradient, some rows at a time as in `loss_vaswani.py`.

    With log-probabilities l and m, probabilities p and q of the two passes, and K = sum(p (l - m)), the gradient of
    K + sum(q (m - l)) by the first pass' logits is p (l - m - K) + p - q; by the second's likewise.
    """

    @staticmethod
    def forward(ctx, logits: torch.Tensor, counted: torch.Tensor, weight: float) -> torch.Tensor:
        passes = logits.unflatten(0, (2, -1))
        gradient = torch.empty_like(passes)
        scale, total = weight / 2 * counted.unsqueeze(1), logits.new_zeros(())
        step = max(1, CACHED_LOGITS // 2 // logits.shape[1])
        for start in range(0, len(counted), step):
            rows = slice(start, start + step)
            log_probs = passes[:, rows].log_softmax(-1)
            probs = log_probs.exp()
            part = torch.mul(probs, log_probs - log_probs.flip(0), out=gradient[:, rows])
            divergences = part.sum(-1, keepdim=True)
            total += (scale[rows] * divergences).sum()
            part.addcmul_(probs, divergences, value=-1).add_(probs).sub_(probs.flip(0)).mul_(scale[rows])
        ctx.save_for_backward(gradient.flatten(0, 1))
        return total

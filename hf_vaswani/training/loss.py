"""The loss of a training step: smoothed cross-entropy, alone or with R-Drop."""

import torch
import torch.nn.functional as F
from torch import nn

from ..loss_vaswani import IGNORED_LABEL


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
    counted = batch["labels"] != IGNORED_LABEL
    first, second = (logits[counted].float().log_softmax(-1) for logits in output.logits.chunk(2))
    divergence = (
        F.kl_div(first, second, reduction="sum", log_target=True)
        + F.kl_div(second, first, reduction="sum", log_target=True)
    ) / 2
    return output.loss + r_drop / 2 * divergence / target_tokens

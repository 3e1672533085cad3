"""The loss of a training step: smoothed cross-entropy, alone, with R-Drop, or with a teacher's distributions."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from ...core.modeling_vaswani import IGNORED_LABEL
from ...fast.label_smoothing import (
    CACHED_LOGITS,
    LossWithGradient,
    logits_by_row,
    sequence_loss,
    smoothed_entropies,
    softmax_into,
)

if TYPE_CHECKING:
    from .word_distillation import WordTeacher


def training_loss(
    model: nn.Module,
    batch: dict[str, torch.Tensor],
    target_tokens: float,
    r_drop: float = 0.0,
    teacher: "WordTeacher | None" = None,
    guided_alignment: float = 0.0,
) -> torch.Tensor:
    """A batch's part of the mean loss per target token of an optimizer step.

    Args:
        model: in training mode, possibly wrapped for several processes.
        batch: the model's `input_ids`, `attention_mask` and `labels`; labels of -100 are ignored. With a teacher,
            also the soft labels of a [`Collator`], unless the teacher computes its distributions now.
        target_tokens: divisor of the sum over the batch's target tokens: their number in the whole step, over all its
            batches and processes; divided by the number of processes if these average their gradients.
        r_drop: weight alpha of R-Drop (Liang et al. 2021); 0 for none. With R-Drop, each pair is computed twice in
            one forward pass, with two dropout masks.
        teacher: the models whose distributions are learned as well as the labels; not together with R-Drop.
        guided_alignment: weight of the alignment loss; 0 for none. Otherwise the batch has `aligned_positions`.
    """
    if guided_alignment:
        from .guided_alignment import alignment_loss, watch_head

        inputs = {name: tensor for name, tensor in batch.items() if name != "aligned_positions"}
        with watch_head(getattr(model, "module", model)) as recorded:
            loss = training_loss(model, inputs, target_tokens, r_drop, teacher)
        if not recorded:
            return loss
        return loss + guided_alignment * alignment_loss(**recorded, batch=batch, target_tokens=target_tokens)
    if not r_drop and teacher is None:
        return model(**batch, num_items_in_batch=target_tokens).loss
    own = getattr(model, "module", model)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    inputs["decoder_input_ids"] = own.prepare_decoder_input_ids_from_labels(batch["labels"])
    if teacher:
        from .word_distillation import distillation_loss

        logits = model(**inputs, use_cache=False).logits
        expected = teacher.distributions(batch, logits.shape[-1])
        # Autocast would compute products of probabilities in 16 bits.
        with torch.autocast(logits.device.type, enabled=False):
            return distillation_loss(
                logits, expected, batch["labels"], own.config.label_smoothing, target_tokens, teacher.weight
            )
    doubled = {name: torch.cat([tensor, tensor]) for name, tensor in inputs.items()}
    logits = model(**doubled, use_cache=False).logits
    # Autocast would compute the divergence's products in 16 bits.
    with torch.autocast(logits.device.type, enabled=False):
        return r_drop_loss(logits, batch["labels"], own.config.label_smoothing, target_tokens, r_drop)


def r_drop_loss(
    logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float, target_tokens: float, alpha: float
) -> torch.Tensor:
    """Half the sum of the cross-entropies of two passes, plus alpha / 2 times the mean of the two Kullback–Leibler
    divergences between their distributions: equation 4 of Liang et al. 2021, halved; with alpha 0, the plain loss.

    Args:
        logits: `(2 · batch, target_length, vocab_size)`, the first pass followed by the second.
        labels: `(batch, target_length)`; positions with -100 are ignored.
        label_smoothing: epsilon of the cross-entropies, as in [`sequence_loss`].
        target_tokens: divisor of the sums over all positions.
    """
    if logits.requires_grad and logits.device.type == "cpu" and not torch.compiler.is_compiling():
        return RDrop.apply(logits_by_row(logits), labels.flatten(), label_smoothing, float(target_tokens), alpha)
    cross_entropies = sequence_loss(logits, torch.cat([labels, labels]), label_smoothing, 2 * target_tokens)
    first, second = (half.log_softmax(-1) for half in logits.float().chunk(2))
    # KL(p, q) + KL(q, p). If the labels that count were an index, a GPU would have to finish all its work first.
    divergences = ((first.exp() - second.exp()) * (first - second)).sum(-1).where(labels != IGNORED_LABEL, 0).sum()
    return cross_entropies + alpha / 4 / target_tokens * divergences


class RDrop(LossWithGradient):
    """R-Drop's loss on a CPU, for logits `(2 n, vocab_size)` and labels `(n,)`; the gradient is computed with it, some
    rows at a time, as in `fast/label_smoothing.py`.

    With log-probabilities l and m and probabilities p and q of the two passes, d = l - m and K = sum(p d), the
    gradient of both divergences with respect to the first pass's logits is p (d - K) + p - q; with respect to the
    second's, the same with p and q swapped and -d for d.
    """

    @staticmethod
    def forward(
        ctx, logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float, divisor: float, alpha: float
    ) -> torch.Tensor:
        gradient = torch.empty_like(logits)
        total = logits.new_zeros((), dtype=torch.float32)
        n, vocab_size = len(labels), logits.shape[1]
        entropy_share, divergence_share = 1 / (2 * divisor), alpha / (4 * divisor)
        smoothed = logits.new_tensor(-entropy_share * label_smoothing / vocab_size, dtype=torch.float32)
        step = max(1, CACHED_LOGITS // 2 // vocab_size)
        for start in range(0, n, step):
            end = min(start + step, n)
            counted = labels[start:end] != IGNORED_LABEL
            right = labels[start:end].where(counted, 0).unsqueeze(1)
            passes = [logits[start:end].float(), logits[n + start : n + end].float()]
            parts = [torch.empty_like(rows) for rows in passes]
            log_sums = [softmax_into(part, rows) for rows, part in zip(passes, parts)]
            log_ratio = (passes[0] - passes[1]).sub_(log_sums[0] - log_sums[1])
            difference = parts[0] - parts[1]
            for rows, part, log_sum, sign in zip(passes, parts, log_sums, (1, -1)):
                divergence = sign * torch.linalg.vecdot(part, log_ratio).unsqueeze(1)
                entropy = smoothed_entropies(rows, log_sum, right, label_smoothing)
                value = entropy_share * entropy + divergence_share * divergence
                total += value.squeeze(1).where(counted, 0).sum()
                factor = torch.add(
                    entropy_share - divergence_share * divergence, log_ratio, alpha=sign * divergence_share
                )
                rest = torch.add(smoothed, difference, alpha=sign * divergence_share)
                torch.addcmul(rest, part, factor, out=part)
                part.scatter_add_(1, right, part.new_full(right.shape, entropy_share * (label_smoothing - 1)))
            if not counted.all():
                for part in parts:
                    part.masked_fill_(~counted.unsqueeze(1), 0)
            gradient[start:end], gradient[n + start : n + end] = parts
        ctx.save_for_backward(gradient)
        return total

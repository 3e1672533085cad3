"""The loss of a training step: smoothed cross-entropy, alone, with R-Drop, or with a teacher's distributions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from ...core.modeling_vaswani import IGNORED_LABEL
from ...fast.label_smoothing import (
    CACHED_LOGITS,
    CrossEntropy,
    LossesAndGradients,
    fused_loss,
    is_fused,
    sequence_loss,
    softmax_into,
)
from ...generation.output_scores import forced_output
from ...models.families import config_value, family_of

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
    own = getattr(model, "module", model)
    if not r_drop and teacher is None:
        if family_of(own.config) is None:
            return model(**batch, num_items_in_batch=target_tokens).loss
        logits, smoothing = model(**model_inputs(own, batch), use_cache=False).logits, label_smoothing(own)
        with torch.autocast(logits.device.type, enabled=False):
            return sequence_loss(logits, batch["labels"], smoothing, target_tokens)
    inputs = model_inputs(own, batch)
    if teacher:
        from .word_distillation import distillation_loss

        logits = model(**inputs, use_cache=False).logits
        expected = teacher.distributions(batch, logits.shape[-1])
        # Autocast would compute products of probabilities in 16 bits.
        with torch.autocast(logits.device.type, enabled=False):
            return distillation_loss(
                logits, expected, batch["labels"], label_smoothing(own), target_tokens, teacher.weight
            )
    doubled = {name: torch.cat([tensor, tensor]) for name, tensor in inputs.items()}
    logits = model(**doubled, use_cache=False).logits
    # Autocast would compute the divergence's products in 16 bits.
    with torch.autocast(logits.device.type, enabled=False):
        return r_drop_loss(logits, batch["labels"], label_smoothing(own), target_tokens, r_drop)


def label_smoothing(model: nn.Module) -> float:
    """The label smoothing that a model is trained with."""
    return config_value(model.config, "label_smoothing")


def model_inputs(model: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The arguments with which a model computes the logits of a batch's labels, its decoder's input among them."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
    shifted = forced_output(model, batch["labels"])[:, :-1]
    inputs["decoder_input_ids"] = shifted.masked_fill(shifted == IGNORED_LABEL, model.config.pad_token_id)
    return inputs


def likelihood(model: nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The negative log-likelihood of a batch's labels, summed, `()`, and the logits; without label smoothing.

    Args:
        model: in evaluation mode.
    """
    if family_of(model.config) is None:
        output = model(**batch, num_items_in_batch=1)
        return output.loss, output.logits
    logits = model(**model_inputs(model, batch), use_cache=False).logits
    return sequence_loss(logits, batch["labels"], num_items_in_batch=1), logits


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
    if is_fused(logits, "cpu"):
        divisor = float(target_tokens)
        loss = RDrop(label_smoothing, entropy_share=1 / (2 * divisor), divergence_share=alpha / (4 * divisor))
        return fused_loss(logits, labels, 1, loss)
    cross_entropies = sequence_loss(logits, torch.cat([labels, labels]), label_smoothing, 2 * target_tokens)
    first, second = (half.log_softmax(-1) for half in logits.float().chunk(2))
    # KL(p, q) + KL(q, p). If the labels that count were an index, a GPU would have to finish all its work first.
    divergences = ((first.exp() - second.exp()) * (first - second)).sum(-1).where(labels != IGNORED_LABEL, 0).sum()
    return cross_entropies + alpha / 4 / target_tokens * divergences


@dataclass(frozen=True)
class RDrop(CrossEntropy):
    """R-Drop's loss on a CPU, for [`fused_loss`].

    With log-probabilities l and m and probabilities p and q of the two passes, d = l - m and K = sum(p d), the
    gradient of both divergences with respect to the first pass's logits is p (d - K) + p - q; with respect to the
    second's, the same with p and q swapped and -d for d.

    Attributes:
        entropy_share, divergence_share: factors of the cross-entropies and of the divergences.
    """

    entropy_share: float = 0.5
    divergence_share: float = 0.25

    passes, logits_at_once = 2, CACHED_LOGITS // 2

    def __call__(
        self, passes: list[torch.Tensor], right: torch.Tensor, scale: torch.Tensor, rows: slice
    ) -> LossesAndGradients:
        parts, values = [torch.empty_like(logits) for logits in passes], []
        log_sums = [softmax_into(part, logits) for logits, part in zip(passes, parts)]
        log_ratio = (passes[0] - passes[1]).sub_(log_sums[0] - log_sums[1])
        difference = parts[0] - parts[1]
        every, more = self.shares(difference.shape[1], self.entropy_share)
        shares = self.divergence_share, -self.divergence_share
        for logits, part, log_sum, share in zip(passes, parts, log_sums, shares):
            divergence = share * torch.linalg.vecdot(part, log_ratio).unsqueeze(1)
            values.append(self.entropy_share * self.entropies(logits, log_sum, right) + divergence)
            factor = torch.add(self.entropy_share - divergence, log_ratio, alpha=share)
            torch.addcmul(torch.add(part.new_tensor(-every), difference, alpha=share), part, factor, out=part)
            part.scatter_add_(1, right, part.new_full(right.shape, -more)).mul_(scale)
        return values, parts

"""Splits a large batch on a CPU into several forward passes, which take a fraction of the memory.

Steps are the same up to rounding and dropout's random numbers, since the loss is a sum over tokens.
"""

import math

import torch
from accelerate import Accelerator, DistributedType

# Tokens on the longer side of a pass, including padding. With fewer, the matrices are too small to keep all cores
# busy; with more, activations no longer fit in the processor's caches, and memory grows in proportion.
CPU_PASS_TOKENS = 2048


def pass_tokens(accelerator: Accelerator, r_drop: float = 0.0) -> int | None:
    """The maximum number of tokens in a forward pass; `None` for no limit.

    Args:
        r_drop: weight of R-Drop; if it is not 0, a pass computes each pair twice.
    """
    # With FSDP, processes gather weights in each pass, so all must make the same number of passes.
    if accelerator.device.type != "cpu" or accelerator.distributed_type == DistributedType.FSDP:
        return None
    return CPU_PASS_TOKENS // 2 if r_drop else CPU_PASS_TOKENS


def passes(batch: dict[str, torch.Tensor], tokens: int | None) -> list[dict[str, torch.Tensor]]:
    """Split a batch into as few parts of nearly equal size as keep within a number of tokens.

    Args:
        batch: `input_ids` and `attention_mask`, `(pairs, source_length)`, and `labels`, `(pairs, target_length)`; soft
            labels, too, if it has some.
        tokens: the maximum on the longer side of a part, padding included, which only a part of a single pair may
            exceed; `None` leaves the batch whole.
    """
    pairs = len(batch["labels"])
    longest = max(tensor.shape[1] for tensor in batch.values())
    number = 1 if tokens is None else math.ceil(pairs / max(tokens // longest, 1))
    if number <= 1:
        return [batch]
    parts = {name: torch.tensor_split(tensor, number) for name, tensor in batch.items()}
    return [dict(zip(parts, part)) for part in zip(*parts.values())]

"""Forward passes of a batch: on a CPU one of many tokens is made as several, which take a fraction of the memory.

The steps are the same up to rounding and the dropout's draws, since a loss is a sum over tokens.
"""

import math

import torch
from accelerate import Accelerator, DistributedType

# Source or target tokens of a sentence times sentences, padding included. With fewer, the matrices are too small for
# all cores; with more, activations leave the processor's caches, and memory grows in proportion.
CPU_PASS_TOKENS = 2048


def pass_tokens(accelerator: Accelerator, r_drop: float = 0.0) -> int | None:
    """The most tokens of a forward pass; `None` for as many as a batch has.

    Args:
        r_drop: where it is not 0, a pass computes each pair twice.
    """
    # FSDP's processes gather weights in each pass, so that all must make as many.
    if accelerator.device.type != "cpu" or accelerator.distributed_type == DistributedType.FSDP:
        return None
    return CPU_PASS_TOKENS // 2 if r_drop else CPU_PASS_TOKENS


def passes(batch: dict[str, torch.Tensor], tokens: int | None) -> list[dict[str, torch.Tensor]]:
    """The batch in as few parts of nearly the same size as have at most so many tokens, or one pair.

    Args:
        batch: `input_ids` and `attention_mask`, `(pairs, source_length)`, and `labels`, `(pairs, target_length)`.
        tokens: of the longer side, padding included; `None` leaves the batch whole.
    """
    pairs = len(batch["labels"])
    longest = max(tensor.shape[1] for tensor in batch.values())
    number = 1 if tokens is None else math.ceil(pairs / max(tokens // longest, 1))
    if number <= 1:
        return [batch]
    parts = {name: torch.tensor_split(tensor, number) for name, tensor in batch.items()}
    return [dict(zip(parts, part)) for part in zip(*parts.values())]

"""Attention and dropout that compute the same as the model's own (equation 1, section 5.4), in less time.

On a CPU, torch's attention is slower than plain matrix products, often several times, with few queries or keys and in
the backward pass in 16 bits. On a GPU, it may choose cuDNN's.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from ..core import modeling_layers
from ..core.modeling_layers import masked_scores

# Up to these numbers, of queries in a search step and of keys in training, plain matrix products are faster on a CPU
# than torch's attention.
FEW_QUERIES = 8
FEW_KEYS = 24
# float32 numbers that AVX-512 computes with at once. torch's softmax takes rows with fewer one number at a time.
VECTOR_WIDTH = 16


def sdpa_attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, *args: object, **kwargs: object
) -> object:
    """Attend as transformers' "sdpa" does; takes and returns what [`scaled_dot_product_attention`] does."""
    attend = ALL_ATTENTION_FUNCTIONS["sdpa"]
    # A traced program must not depend on the length.
    if torch.compiler.is_compiling():
        return attend(module, query, key, *args, **kwargs)
    if query.device.type == "cuda":
        return without_cudnn(attend, module, query, key, *args, **kwargs)
    if query.device.type == "cpu" and _is_slow(query, key):
        attend = product_attention
    return attend(module, query, key, *args, **kwargs)


def _is_slow(query: torch.Tensor, key: torch.Tensor) -> bool:
    """Whether torch's attention is slower than products for queries and keys `(batch, heads, length, d_k)`."""
    if not query.requires_grad:
        return query.shape[2] <= FEW_QUERIES
    return key.shape[2] <= FEW_KEYS or query.dtype in (torch.bfloat16, torch.float16)


def product_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's own attention, [`scaled_dot_product_attention`], with a faster softmax of short rows."""
    scores = masked_scores(module, query, key, attention_mask, scaling)
    weights = F.dropout(attention_weights(scores).to(value.dtype), p=dropout, training=module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights


def attention_weights(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over the keys, the last dimension of scores `(…, keys)`, in float32.

    On a CPU, short rows are filled up with -inf, which makes their softmax several times as fast.
    """
    missing = VECTOR_WIDTH - scores.shape[-1]
    # A traced program must not depend on the length.
    is_traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if missing <= 0 or is_traced or scores.device.type != "cpu":
        return scores.softmax(dim=-1, dtype=torch.float32)
    return F.pad(scores.float(), (0, missing), value=-math.inf).softmax(dim=-1)[..., : scores.shape[-1]]


def without_cudnn(attend: Callable, *args: object, **kwargs: object) -> object:
    """Call torch's attention without cuDNN's kernels, which it prefers in 16 bits on GPUs since the H100.

    cuDNN prepares a kernel for each new shape, which takes several times as long as a training step, and batches of
    sentences have hundreds of shapes. It is left in place where the caller allows no kernel for any shape.
    """
    backends = torch.backends.cuda
    if not (backends.cudnn_sdp_enabled() and backends.mem_efficient_sdp_enabled()):
        return attend(*args, **kwargs)
    backends.enable_cudnn_sdp(False)
    try:
        return attend(*args, **kwargs)
    finally:
        backends.enable_cudnn_sdp(True)


class VaswaniAttention(modeling_layers.VaswaniAttention):
    """The model's attention by the functions above; other functions come from transformers."""

    functions = AttentionInterface()
    functions.update(eager=product_attention, sdpa=sdpa_attention)


class VaswaniDropout(modeling_layers.VaswaniDropout):
    """The model's dropout (section 5.4), for states of any shape, with fewer random numbers.

    On a CPU, PyTorch draws a random number for each state, which takes a tenth of the time of training a small model.
    Sixteen random bits do just as well, with p rounded to a multiple of 2^-16: one number serves four states.
    """

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        p, training = self.p, self.training
        dropped = round(p * 2**16)
        if not training or dropped in (0, 2**16) or states.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(states, p=p, training=training)
        drawn = torch.empty(math.ceil(states.numel() / 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        kept = drawn[: states.numel()].view(states.shape) >= dropped - 2**15
        return states * kept.to(states.dtype).mul_(1 / (1 - dropped / 2**16))

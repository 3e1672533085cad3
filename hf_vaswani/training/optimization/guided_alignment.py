"""Guided alignment: one head of the cross-attention learns to attend to the source token that the next target token is
a translation of (Chen et al. 2016; Garg et al. 2019, section 4.2, without full context).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedTokenizerBase

from ...core.configuration_vaswani import VaswaniConfig
from ...core.modeling_vaswani import IGNORED_LABEL, VaswaniForConditionalGeneration
from ...data.alignment import TokenAligner
from ...data.encoding import encode_in_slices
from ...data.epochs import TokenizedCorpus
from ...data.sources.text_files import Pair
from ...generation.alignment import alignment_layer
from ...text.markers import KEEP_TOKENS
from ...text.vocabularies import vocabularies
from .step_batches import Corpus

# The number of pairs, drawn at random, from which word translations are learned: as many as that can use.
ALIGNED_SAMPLE = 500_000


def choose_head(config: VaswaniConfig) -> None:
    """Set `alignment_heads` of a config, unless the model that training starts from has some."""
    if not config.alignment_heads:
        config.alignment_heads = [[alignment_layer(config.decoder_layers), 0]]


@contextmanager
def watch_head(model: VaswaniForConditionalGeneration) -> Iterator[dict[str, torch.Tensor]]:
    """Record the queries `(batch, target_length, d_k)` and keys `(batch, source_length, d_k)` of the head that aligns,
    from forward passes while the block runs; nothing is recorded if LayerDrop leaves out its layer.
    """
    [[layer, head], *_] = model.config.alignment_heads
    attention = model.model.decoder.layers[layer].encoder_attn
    part = slice(head * attention.d_k, (head + 1) * attention.d_k)
    recorded: dict[str, torch.Tensor] = {}

    def record(name: str, projection: nn.Module) -> RemovableHandle:
        def hook(_module: nn.Module, _args: tuple, output: torch.Tensor) -> None:
            recorded[name] = output[..., part]

        return projection.register_forward_hook(hook)

    handles = [record("query", attention.q_proj), record("key", attention.k_proj)]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def alignment_loss(
    query: torch.Tensor,
    key: torch.Tensor,
    batch: dict[str, torch.Tensor],
    target_tokens: float,
) -> torch.Tensor:
    """Cross-entropy of a head's attention against the aligned source positions, in float32.

    Args:
        query: `(n · batch, target_length, d_k)`, of n passes over the same batch; the mean over them is computed.
        key: `(n · batch, source_length, d_k)`.
        batch: with `attention_mask`, `labels` and `aligned_positions`; labels and positions of -100 do not count.
        target_tokens: divisor of the sum over all positions, as of the main loss: also those without a link.
    """
    passes = len(query) // len(batch["labels"])
    with torch.autocast(query.device.type, enabled=False):
        scores = query.float() @ key.float().transpose(1, 2) * query.shape[-1] ** -0.5
        is_token = batch["attention_mask"].bool().repeat(passes, 1).unsqueeze(1)
        scores = scores.masked_fill(~is_token, torch.finfo(scores.dtype).min)
        aligned = batch["aligned_positions"].masked_fill(batch["labels"] == IGNORED_LABEL, IGNORED_LABEL)
        loss = F.cross_entropy(
            scores.flatten(0, 1), aligned.repeat(passes, 1).flatten(), ignore_index=IGNORED_LABEL, reduction="sum"
        )
        return loss / (passes * target_tokens)


def random_rows(size: int) -> np.ndarray:
    """The pairs of a text, of a given number, from which word translations are learned, in their order."""
    return np.sort(np.random.default_rng(0).permutation(size)[:ALIGNED_SAMPLE])


def learn_aligner(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, sample: Callable[[], Iterable[Pair]]
) -> TokenAligner:
    """What aligns the tokens of the training pairs, learned from them; the same in every process.

    Args:
        sample: reads the pairs to learn from if each epoch is tokenized again, once as in an epoch.
    """
    if isinstance(corpus, TokenizedCorpus):
        columns = corpus.pairs.dataset[random_rows(len(corpus.pairs))]
        rows = columns["input_ids"], columns["labels"]
    else:
        sources, targets = map(list, zip(*sample()))
        rows = encode_in_slices(corpus.encode, sources, targets, np.random.default_rng(0))
    sides = [[np.array(row, np.int64) for row in side] for side in rows]
    tokens = [*tokenizer.all_special_tokens, *(getattr(tokenizer, "supported_language_codes", None) or ())]
    special = [
        [ids[token] for token in tokens if token in ids and token not in KEEP_TOKENS]
        for ids in vocabularies(tokenizer)
    ]
    return TokenAligner.learn(*sides, (special[0], special[1]))

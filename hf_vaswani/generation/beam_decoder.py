"""The decoder's side of a fast beam search: what it takes to score the next tokens of every hypothesis.

It feeds the hypotheses of a sentence as one sequence, whose keys and values are appended to a single pool. A mask says
which of them belong to a hypothesis's own past. All hypotheses thus attend to one encoder output, nothing is reordered
when the search switches hypotheses, and a finished sentence can leave the batch. Recorded attentions and scores, other
caches, and attention implementations without such a mask need one row of the batch per hypothesis, as in
[`BatchedDecoder`].
"""

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from ..core.modeling_base import check_length
from ..fast.decoder_step import DecoderStep, StepInput

MASKED_ATTENTION = ("eager", "sdpa")
FIRST_ROOM = 32


class PoolLayer(DynamicLayer):
    """Keys and values `(sentences, heads, entries, d_k)` of one layer, written into a pool that has spare room."""

    def __init__(self):
        super().__init__()
        self.entries = 0
        self._pools: list[torch.Tensor] = []

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        states = (key_states, value_states)
        if not self.is_initialized:
            self.lazy_initialization(*states)
            room = max(FIRST_ROOM, key_states.shape[2])
            self._pools = [tensor.new_empty(*tensor.shape[:2], room, tensor.shape[3]) for tensor in states]
        end = self.entries + key_states.shape[2]
        for pool, tensor in zip(self._pools, states):
            pool[:, :, self.entries : end] = tensor
        self.entries = end
        self._show()
        return self.keys, self.values

    def rearrange(self, order: torch.Tensor, room: int) -> None:
        """Keep the entries `order` `(sentences, n)` of each sentence, in a pool with room for `room` of them."""
        count = order.shape[1]
        rows = torch.arange(len(order), device=order.device).unsqueeze(1)
        for i, pool in enumerate(self._pools):
            kept = pool.transpose(1, 2)[rows, order].transpose(1, 2)
            if pool.shape[2] != room:
                self._pools[i] = pool = pool.new_empty(*pool.shape[:2], room, pool.shape[3])
            pool[:, :, :count] = kept
        self.entries = count
        self._show()

    def _show(self) -> None:
        self.keys, self.values = (pool[:, :, : self.entries] for pool in self._pools)

    def keep(self, places: torch.Tensor, sources: torch.Tensor, sentences: int) -> None:
        """Move sentences `sources` to `places`, and drop all but the first `sentences`."""
        self._pools = [move(pool, places, sources, sentences, self.entries) for pool in self._pools]
        self._show()


class SourceLayer(DynamicLayer):
    """Keys and values `(sentences, heads, source_length, d_k)` of the encoder's output, for one layer."""

    def keep(self, places: torch.Tensor, sources: torch.Tensor, sentences: int) -> None:
        """As in [`PoolLayer`]."""
        self.keys = move(self.keys, places, sources, sentences)
        self.values = move(self.values, places, sources, sentences)


def move(
    tensor: torch.Tensor, places: torch.Tensor, sources: torch.Tensor, count: int, entries: int | None = None
) -> torch.Tensor:
    """Copy rows `sources` over rows `places`, in place; return the first `count` rows.

    Args:
        entries: how many entries of dimension 2 to copy; all by default.
    """
    if len(places):
        part = tensor if entries is None else tensor[:, :, :entries]
        part[places] = part[sources]
    return tensor[:count]


class SharedSourceDecoder:
    """Feeds the hypotheses of a sentence side by side, so that they share all that they have in common.

    Args:
        step: computes states and logits, a [`DecoderStep`] or a [`ModuleStep`].
        config: the model's config.
        prompt: `(sentences, prompt_length)`, what all hypotheses of a sentence begin with.
        encoder_output: `(sentences, source_length, d_model)`.
        attention_mask: `(sentences, source_length)`, 1 for tokens and 0 for padding; or None.
        beams: number of hypotheses per sentence.
    """

    sentences_may_leave = True

    def __init__(
        self,
        step: "DecoderStep | ModuleStep",
        config: PreTrainedConfig,
        prompt: torch.Tensor,
        encoder_output: torch.Tensor,
        attention_mask: torch.Tensor | None,
        beams: int,
    ):
        layers = range(config.decoder_layers)
        self.step, self.config = step, config
        self.cache = EncoderDecoderCache(
            Cache(layers=[PoolLayer() for _ in layers]), Cache(layers=[SourceLayer() for _ in layers])
        )
        self.prompt = prompt
        self.encoder_output = encoder_output
        self.masked = torch.finfo(encoder_output.dtype).min
        self.source_mask = None
        if attention_mask is not None and not attention_mask.all():
            padding = attention_mask[:, None, None, :].eq(0)
            self.source_mask = padding.to(encoder_output.dtype) * self.masked
        self.length = prompt.shape[1]
        self.room = max(FIRST_ROOM, self.length)
        self.past = encoder_output.new_zeros(len(prompt), 1, beams, self.length)
        itself = torch.full((beams, beams), self.masked, dtype=self.past.dtype, device=self.past.device)
        self.itself = itself.fill_diagonal_(0)

    def first(self) -> torch.Tensor:
        """States `(sentences, 1, …)` after the prompt, the same for all hypotheses of a sentence."""
        positions = torch.arange(self.length, device=self.prompt.device).unsqueeze(0)
        self._check_length(0, self.length)
        return self._states(self.prompt, None, positions)[:, -1:]

    def next(self, sequences: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """States `(sentences, beams, …)` after `sequences` `(sentences, beams, length)`.

        Args:
            parents: `(sentences, beams)`, the hypothesis of the previous step that each one continues.
        """
        self._check_length(self.length, 1)
        tokens = sequences[:, :, -1]
        n, beams = tokens.shape
        self.past = self.past.take_along_dim(parents[:, None, :, None], dim=2)
        self._make_room(beams)
        self.past = torch.cat([self.past, self.itself.expand(n, 1, beams, beams)], dim=-1)
        states = self._states(tokens, self.past, parents.new_full((1, 1), self.length))
        self.length += 1
        return states

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """States of [`first`] or [`next`], of any sentences, → logits of the next tokens `(…, vocab_size)`."""
        return self.step.logits(states)

    def _make_room(self, beams: int) -> None:
        """If the pool is full, drop what no hypothesis attends to anymore: most of their past is soon shared."""
        if self.past.shape[-1] + beams <= self.room:
            return
        is_seen = (self.past == 0).any(dim=2).squeeze(1)
        count = int(is_seen.sum(-1).max())
        order = is_seen.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :count]
        if count + beams > 3 * self.room // 4:
            # Twice as much, since the memory of pools that grow in small steps cannot be reused.
            self.room = max(2 * self.room, count + beams)
        for layer in self.cache.self_attention_cache.layers:
            layer.rearrange(order, self.room)
        self.past = self.past.take_along_dim(order[:, None, None, :], dim=3)

    def keep(self, order: torch.Tensor) -> None:
        """Keep only the sentences `order`; each stays in its place or takes the place of one that leaves."""
        n = len(order)
        places = (order != torch.arange(n, device=order.device)).nonzero().squeeze(1)
        sources = order[places]
        for layer in [*self.cache.self_attention_cache.layers, *self.cache.cross_attention_cache.layers]:
            layer.keep(places, sources, n)
        # Not moved, as it may be the caller's own. Its keys and values are computed, so its content is not read again.
        self.encoder_output = self.encoder_output[:n]
        self.past = move(self.past, places, sources, n)
        if self.source_mask is not None:
            self.source_mask = move(self.source_mask, places, sources, n)

    def _check_length(self, past_length: int, length: int) -> None:
        # Checked here, as the model cannot tell from the pool how long the hypotheses are.
        if limit := self.config.longest_sequence:
            check_length(past_length, length, limit)

    def _states(self, tokens: torch.Tensor, mask: torch.Tensor | None, position_ids: torch.Tensor) -> torch.Tensor:
        step = StepInput(tokens, position_ids, self.cache, self.encoder_output, mask, self.source_mask)
        return self.step.states(step)


class ModuleStep:
    """A step of any model through its modules, for example of one with adapters.

    Args:
        model: has `decode`, a forward pass that takes `decoder_position_ids`, a four-dimensional mask and a cache and
            stops before the output projection; and `project`, which turns its result into logits.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.logits = model.project

    def states(self, step: StepInput) -> torch.Tensor:
        """As in [`DecoderStep`]."""
        return self.model.decode(
            encoder_outputs=BaseModelOutput(step.encoder_output),
            attention_mask=step.source_mask,
            decoder_input_ids=step.tokens,
            decoder_attention_mask=step.mask,
            decoder_position_ids=step.position_ids,
            cache=step.cache,
            use_cache=True,
        )


__all__ = ["ModuleStep", "SharedSourceDecoder"]

"""The decoder's side of beam search with ONNX Runtime.

As in `generation/beam_decoder.py`, all hypotheses of a sentence attend to the same source, which is never copied
or reordered, and finished sentences leave the batch. Only the states of the target have a row for each hypothesis.
"""

import torch

from ..core.modeling_token_ids import check_length
from .onnx_session import OnnxGraphs


class OnnxDecoder:
    """Runs the decoder for each step of a search; its states are logits.

    Args:
        graphs: the graphs to run.
        prompt: `(sentences, prompt_length)`, the tokens that all hypotheses of a sentence begin with.
        states: the encoder's output, `(sentences, source_length, d_model)`.
        mask: `(sentences, source_length)`, 1 for tokens and 0 for padding.
    """

    sentences_may_leave = True
    # The caches are of no use outside the search.
    cache = None

    def __init__(self, graphs: OnnxGraphs, prompt: torch.Tensor, states: torch.Tensor, mask: torch.Tensor):
        self.graphs, self.prompt, self.states, self.mask = graphs, prompt, states, mask
        self.past: list[torch.Tensor] = []
        self.source: list[torch.Tensor] = []
        self.width = 1  # rows per sentence in the caches
        self.places = torch.arange(len(prompt))  # the first of these rows for each sentence

    def first(self) -> torch.Tensor:
        """The logits `(sentences, 1, vocab_size)` after the prompt, the same for all hypotheses of a sentence."""
        return self._step(self.prompt)[:, -1:]

    def next(self, sequences: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """The logits `(sentences, beams, vocab_size)` after `sequences` `(sentences, beams, length)`.

        Args:
            parents: `(sentences, beams)`, the hypothesis of the previous step that each sequence continues.
        """
        n, beams = parents.shape
        rows = self.places.unsqueeze(1) + (parents if self.width > 1 else torch.zeros_like(parents))
        rows = rows.flatten()
        if len(rows) != len(self.past[0]) or not torch.equal(rows, torch.arange(len(rows))):
            self.past = [tensor.index_select(0, rows) for tensor in self.past]
        self.width, self.places = beams, torch.arange(n) * beams
        return self._step(sequences[:, :, -1].reshape(-1, 1)).view(n, beams, -1)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def keep(self, order: torch.Tensor) -> None:
        """Keep only the sentences in `order`, in that order."""
        self.places = self.places[order]
        self.states, self.mask, *self.source = (
            tensor.index_select(0, order) for tensor in (self.states, self.mask, *self.source)
        )

    def _step(self, tokens: torch.Tensor) -> torch.Tensor:
        if limit := self.graphs.config.longest_sequence:
            check_length(self.past[0].shape[2] if self.past else 0, tokens.shape[1], limit)
        logits, self.past, self.source = self.graphs.decode(tokens, self.states, self.mask, self.past, self.source)
        return logits


__all__ = ["OnnxDecoder"]

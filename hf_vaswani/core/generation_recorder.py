"""Records what `generate()` returns besides the hypotheses.

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

import torch
from transformers import GenerationConfig
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.utils import ModelOutput

from .generation_beam_decoder import BatchedDecoder, SharedSourceDecoder
from .generation_beam_search import BeamOutput
from .modeling_cache import CACHE_NAME


class Recorder:
    """Records what `generate()` returns besides the hypotheses with `return_dict_in_generate`."""

    def __init__(self, generation_config: GenerationConfig):
        self.kept = {
            name: []
            for name in ("scores", "logits", "attentions", "hidden_states")
            if generation_config.return_dict_in_generate and getattr(generation_config, f"output_{name}")
        }
        self.is_needed = bool(self.kept)

    @property
    def scores(self) -> tuple | None:
        return tuple(self.kept["scores"]) if "scores" in self.kept else None

    def __call__(self, logits: torch.Tensor, log_probs: torch.Tensor, decoder: BatchedDecoder) -> None:
        """Record a step: logits and processed log-probabilities `(n, beams, vocab_size)`, and the decoder's output."""
        values = {
            "scores": log_probs.flatten(0, 1),
            "logits": logits.flatten(0, 1),
            "attentions": (decoder.output.decoder_attentions, decoder.output.cross_attentions),
            "hidden_states": decoder.output.decoder_hidden_states,
        }
        for name, steps in self.kept.items():
            steps.append(values[name])

    def output(
        self, output: BeamOutput, encoder_outputs: ModelOutput, decoder: BatchedDecoder | SharedSourceDecoder
    ) -> GenerateBeamEncoderDecoderOutput:
        """Everything in transformers' form, where each recording is a tuple over steps."""
        kept = {name: tuple(steps) for name, steps in self.kept.items()}
        own, cross = zip(*kept["attentions"]) if "attentions" in kept else (None, None)
        return GenerateBeamEncoderDecoderOutput(
            sequences=output.sequences,
            sequences_scores=output.scores,
            scores=kept.get("scores"),
            logits=kept.get("logits"),
            beam_indices=output.rows,
            encoder_attentions=encoder_outputs.get("attentions") if "attentions" in kept else None,
            encoder_hidden_states=encoder_outputs.get("hidden_states") if "hidden_states" in kept else None,
            decoder_attentions=own,
            cross_attentions=cross,
            decoder_hidden_states=kept.get("hidden_states"),
            # A pool of hypotheses is of no use outside the search.
            **{CACHE_NAME: decoder.cache if isinstance(decoder, BatchedDecoder) else None},
        )


__all__ = ["Recorder"]

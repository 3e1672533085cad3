"""Several models that translate as one: the mean of their distributions over the next token (Sutskever et al. 2014).

An ensemble is a model like any other: it works with `generate()` and all its arguments, with the pipeline, and with
scores of given pairs. The search sees one decoder with the layers of all members; their encoder outputs are
concatenated.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_cache import CACHE_NAME, accepts_past_key_values
from ..fast.decoder_step import StepInput
from ..generation.beam_decoder import ModuleStep
from ..generation.fast_model import VaswaniForConditionalGeneration
from ..generation.mixin import FastGenerationMixin
from ..text.languages import LanguagePair, fits_pair, own_languages, pairs_in_words

SHARED_FIELDS = ("vocab_size", "decoder_vocab_size", "decoder_start_token_id", "eos_token_id", "pad_token_id")


class EnsembleEncoder(nn.Module):
    """The encoders of all members, with their outputs concatenated."""

    main_input_name = "input_ids"

    def __init__(self, members: Sequence[VaswaniForConditionalGeneration]):
        super().__init__()
        self.members = nn.ModuleList(member.get_encoder() for member in members)
        # Texts are cut to the smallest number of positions.
        self.embed_positions = min(self.members, key=positions).embed_positions

    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput:
        """Source ids and mask `(batch, source_length)` → `(batch, source_length, sum of all d_model)`."""
        states = [member(input_ids, attention_mask=attention_mask).last_hidden_state for member in self.members]
        return BaseModelOutput(torch.cat(states, dim=-1))


class Ensemble(PreTrainedModel, FastGenerationMixin):
    """Several models with the same vocabulary as one model, for translation only.

    Architectures, sizes and training may differ; tokens must not. Search settings come from the first member.

    Args:
        members: at least one model, all on the same device.

    Raises:
        ValueError: the members' vocabulary sizes, special tokens or languages differ, or one is not a Vaswani model.
    """

    config_class = VaswaniConfig
    _supports_sdpa = True
    main_input_name = "input_ids"

    def __init__(self, members: Sequence[VaswaniForConditionalGeneration]):
        check_members(members)
        configs = [member.config for member in members]
        config = copy.deepcopy(configs[0])
        config.encoder_layers = config.decoder_layers = sum(c.decoder_layers for c in configs)
        limits = [c.longest_sequence for c in configs if c.longest_sequence]
        if limits:
            config.position_type, config.max_position_embeddings = "learned", min(limits)
        for name in ("longest_training_source", "multi_sentence_share"):
            values = [getattr(c, name) for c in configs]
            setattr(config, name, None if None in values else min(values))
        super().__init__(config)
        self.members = nn.ModuleList(members)
        self.encoder = EnsembleEncoder(members)
        self.generation_config = copy.deepcopy(members[0].generation_config)
        self.eval()

    def get_encoder(self, *args, **kwargs) -> EnsembleEncoder:
        return self.encoder

    def get_decoder(self, *args, **kwargs) -> nn.Module:
        """The decoder with the fewest positions."""
        return min((member.get_decoder() for member in self.members), key=positions)

    def get_output_embeddings(self) -> nn.Module:
        return self.members[0].get_output_embeddings()

    @accepts_past_key_values
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.LongTensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        cache: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        decoder_position_ids: torch.Tensor | None = None,
        return_dict: bool | None = None,
        output_attentions: bool | None = None,
    ) -> Seq2SeqLMOutput:
        """Compute logits that are the logarithms of the members' mean probabilities.

        Takes the arguments of [`VaswaniForConditionalGeneration`].

        Raises:
            ValueError: attentions are requested.
        """
        if output_attentions:
            raise ValueError("An ensemble has no attention or alignments of its own. Use one of its models.")
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        log_probs = [
            member(
                attention_mask=attention_mask,
                decoder_input_ids=decoder_input_ids,
                decoder_attention_mask=decoder_attention_mask,
                encoder_outputs=BaseModelOutput(states),
                cache=part,
                use_cache=use_cache if part is not None else False,
                logits_to_keep=logits_to_keep,
                decoder_position_ids=decoder_position_ids,
            )
            .logits.float()
            .log_softmax(-1)
            for member, states, part in zip(
                self.members,
                encoder_outputs.last_hidden_state.split(self.widths(), dim=-1),
                self.caches(cache),
            )
        ]
        return Seq2SeqLMOutput(logits=mean_distribution(log_probs), **{CACHE_NAME: cache})

    def widths(self) -> list[int]:
        """The width of each member's part of the encoder output."""
        return [member.config.d_model for member in self.members]

    def decoder_step(self) -> "EnsembleStep":
        """The decoders of all members as one."""
        return EnsembleStep(self)

    def caches(self, cache: EncoderDecoderCache | None) -> Iterator[EncoderDecoderCache | None]:
        """The part of the cache that each member's layers fill."""
        start = 0
        for member in self.members:
            layers = slice(start, start := start + member.config.decoder_layers)
            if cache is None:
                yield None
            else:
                parts = cache.self_attention_cache, cache.cross_attention_cache
                yield EncoderDecoderCache(*(Cache(layers=part.layers[layers]) for part in parts))


class EnsembleStep:
    """A step of the decoders of all members, for a search.

    Args:
        ensemble: the ensemble to search with.
    """

    def __init__(self, ensemble: Ensemble):
        self.ensemble = ensemble
        self.steps = [member.decoder_step() or ModuleStep(member) for member in ensemble.members]

    def states(self, step: StepInput) -> torch.Tensor:
        """As in [`DecoderStep`], but returns the logits of the ensemble."""
        widths, caches = self.ensemble.widths(), self.ensemble.caches(step.cache)
        log_probs = [
            member.logits(member.states(replace(step, cache=cache, encoder_output=part))).float().log_softmax(-1)
            for member, cache, part in zip(self.steps, caches, step.encoder_output.split(widths, dim=-1))
        ]
        return mean_distribution(log_probs)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """The output of [`states`], which is already logits."""
        return states


def mean_distribution(log_probs: list[torch.Tensor]) -> torch.Tensor:
    """The logarithms of the mean probabilities."""
    # Four times as fast as `logsumexp` of all of them stacked, on a CPU.
    return reduce(torch.logaddexp, log_probs) - math.log(len(log_probs))


def positions(stack: nn.Module) -> float:
    """How many positions an encoder or a decoder has."""
    return stack.config.longest_sequence or math.inf


def check_members(members: Sequence[VaswaniForConditionalGeneration]) -> None:
    """Raise a `ValueError` unless all members are Vaswani models with the same tokens and languages."""
    if isinstance(members, str) or not isinstance(members, Sequence):
        raise ValueError(f"members must be a list of models, got {type(members).__name__}.")
    if not members:
        raise ValueError("An ensemble needs at least one model.")
    errors = [
        f"Model {number} is a {type(member).__name__}; an ensemble can have only Vaswani models. Import it first, or, "
        "if it was exported, use the original model."
        for number, member in enumerate(members, start=1)
        if not isinstance(member, VaswaniForConditionalGeneration)
    ]
    if not errors:
        first = members[0].config
        errors = [
            f"Model {number} of the ensemble has {field}={getattr(member.config, field)}, "
            f"the first {getattr(first, field)}."
            for number, member in enumerate(members, start=1)
            for field in SHARED_FIELDS
            if getattr(member.config, field) != getattr(first, field)
        ]
        own = _pairs(first)
        errors += [
            f"Model {number} of the ensemble translates {pairs_in_words(pairs)}, the first {pairs_in_words(own)}."
            for number, member in enumerate(members, start=1)
            if not (are_in(pairs := _pairs(member.config), own) and are_in(own, pairs))
        ]
    if errors:
        raise ValueError("\n".join(errors))


def are_in(pairs: Sequence[LanguagePair], others: Sequence[LanguagePair]) -> bool:
    """Whether each of some language pairs fits one of others."""
    return all(any(fits_pair(pair, other) for other in others) for pair in pairs)


def _pairs(config: VaswaniConfig) -> list[LanguagePair]:
    """The language pairs of a member; `None` stands for a language that is not known."""
    return [(source, target) for source, target in config.language_pairs or [own_languages(config)]]

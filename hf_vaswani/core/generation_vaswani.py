"""Generation as the paper does it, through transformers' `generate()`.

Two settings of `generation_config` are this model's own: `length_penalty_type="gnmt"` scores hypotheses as the paper
does, and `max_length_offset` limits each output by the length of its own source (section 6.1). Everything else means
what it means in transformers. Beam search is in `generation_beam_search.py`; greedy search, sampling, streaming and
assisted generation are transformers'.
"""

import copy
from typing import Any

import torch
from torch import nn
from transformers import (
    Cache,
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    MaxLengthCriteria,
    QuantizedCache,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import EosTokenCriteria, GenerateBeamEncoderDecoderOutput
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from .generation_beam_search import LENGTH_PENALTY_TYPES, BeamOutput, BeamSearch, Scoring
from .modeling_base import check_ids
from .modeling_cache import CACHE_NAME

MAX_TOKENS_OVER_SOURCE = 50
OWN_SETTINGS = ("length_penalty_type", "max_length_offset")
STATIC_CACHES = ("static", "offloaded_static", "sliding_window", "hybrid")


def own_max_length(config: GenerationConfig) -> int | None:
    """The `max_length` that was set on purpose in a model's generation config, or `None`.

    Seq2SeqTrainer writes all of transformers' defaults into it, including a length of 20.
    """
    defaults = GenerationConfig._get_default_generation_params()
    names = [name for name, default in defaults.items() if default is not None]
    are_written = all(getattr(config, name, None) is not None for name in names)
    return None if are_written and config.max_length == defaults["max_length"] else config.max_length


def length_offset(given: dict[str, Any], of_call: GenerationConfig | None, own: GenerationConfig) -> int | None:
    """The `max_length_offset` of a call; `None` if it has another length instead.

    A call's arguments come first, then its config, the model's config, and the paper. Where a length and an offset are
    both given, both apply; but a length that is set in a config overrides an offset that was in it.

    Args:
        given: the arguments of the call.
        of_call: the config that the call was given, which may be a changed copy of the model's.
        own: the model's config.
    """
    if given.get("max_length_offset") is not None:
        return given["max_length_offset"]
    if given.get("max_length") is not None or given.get("max_new_tokens") is not None:
        return None
    inherited = getattr(own, "max_length_offset", None)
    if of_call is not None:
        offset = getattr(of_call, "max_length_offset", None)
        max_length = own_max_length(of_call)
        is_set = of_call.max_new_tokens is not None or max_length not in (None, own_max_length(own))
        if offset is not None and (offset != inherited or not is_set):
            return offset
        if is_set or max_length is not None:
            return None
    if own.max_new_tokens is not None:
        return None
    if inherited is not None:
        return inherited
    return None if own_max_length(own) is not None else MAX_TOKENS_OVER_SOURCE


class VaswaniGenerationMixin(GenerationMixin):
    """transformers' `generate()` with the paper's search (section 6.1).

    `max_length_offset` limits each output to that many tokens more than its source has; it is 50 if nothing else
    limits the output. A `max_length` or `max_new_tokens` given to `generate()` overrides the checkpoint's offset.
    """

    def _prepare_generation_config(self, generation_config: GenerationConfig | None, *args, **kwargs):
        own = {name: kwargs.pop(name) for name in OWN_SETTINGS if name in kwargs}
        of_call = {**vars(generation_config or GenerationConfig()), **kwargs, **own}
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        prepared.length_penalty_type = own.get(
            "length_penalty_type", getattr(prepared, "length_penalty_type", None) or LENGTH_PENALTY_TYPES[0]
        )
        if prepared.length_penalty_type not in LENGTH_PENALTY_TYPES:
            raise ValueError(
                f"length_penalty_type must be one of {', '.join(LENGTH_PENALTY_TYPES)}, "
                f"got {prepared.length_penalty_type!r}."
            )
        prepared.max_length_offset = length_offset({**kwargs, **own}, generation_config, self.generation_config)
        lengths = (of_call.get("max_length"), own_max_length(self.generation_config), prepared.max_new_tokens)
        prepared._has_only_offset = all(length is None for length in lengths)
        return prepared, model_kwargs

    def _prepare_model_inputs(self, *args, **kwargs):
        inputs, name, model_kwargs = super()._prepare_model_inputs(*args, **kwargs)
        if isinstance(states := model_kwargs.get("encoder_outputs"), tuple | list):
            model_kwargs["encoder_outputs"] = BaseModelOutput(*states)
        if name == "input_ids":
            check_ids(name, inputs)
        mask = model_kwargs.get("attention_mask")
        if mask is not None and not isinstance(mask, torch.Tensor):
            raise ValueError(f"attention_mask must be a tensor, (batch, length), got {mask!r}.")
        if mask is not None and model_kwargs.get("encoder_outputs") is None and mask.shape[:2] != inputs.shape[:2]:
            raise ValueError(
                f"attention_mask must be of the shape of {name}, (batch, length): "
                f"got {tuple(mask.shape)} and {tuple(inputs.shape)}."
            )
        if model_kwargs.get("decoder_input_ids") is not None:
            check_ids("decoder_input_ids", model_kwargs["decoder_input_ids"])
        return inputs, name, model_kwargs

    def prepare_inputs_for_generation(self, *args, **kwargs):
        inputs = super().prepare_inputs_for_generation(*args, **kwargs)
        # Replaced in this model, it is called by what replaces it: PEFT, which knows the cache by its old name.
        if "prepare_inputs_for_generation" in vars(self) and "cache" in inputs:
            inputs["past_key_values"] = inputs.pop("cache")
        return inputs

    def _prepare_generated_length(
        self,
        generation_config,
        has_default_max_length,
        has_default_min_length,
        model_input_name,
        input_ids_length,
        inputs_tensor,
    ):
        has_default_max_length = has_default_max_length or generation_config._has_only_offset
        if has_default_max_length and generation_config.max_new_tokens is None:
            max_new_tokens = inputs_tensor.shape[1] + generation_config.max_length_offset
            if limit := self.config.longest_sequence:
                max_new_tokens = min(max_new_tokens, limit - input_ids_length)
            generation_config.max_new_tokens = max_new_tokens
        generation_config._prompt_length = input_ids_length
        return super()._prepare_generated_length(
            generation_config,
            has_default_max_length,
            has_default_min_length,
            model_input_name,
            input_ids_length,
            inputs_tensor,
        )

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        """Prepare the cache as in transformers, and quantize the target's if requested.

        transformers has no quantized cache for encoder–decoders.
        """
        if generation_config.max_length_offset is not None:
            # This is the first place where there is a source for each row of the search.
            generation_config._length_limits = (
                generation_config._prompt_length + source_lengths(model_kwargs) + generation_config.max_length_offset
            )
        kind = None if generation_config.use_cache is False else generation_config.cache_implementation
        if kind == "quantized" and model_kwargs.get(CACHE_NAME) is None:
            options = {"backend": "quanto", **(generation_config.cache_config or {})}
            config = self.config.get_text_config(decoder=True)
            model_kwargs[CACHE_NAME] = EncoderDecoderCache(
                QuantizedCache(config=config, **options), DynamicCache(config=config)
            )
            return
        limit, longest = self.config.longest_sequence, generation_config.max_length
        # With a static cache, lengths are tensors, which no step checks.
        if kind in STATIC_CACHES and limit and longest > limit:
            raise ValueError(
                f"A static cache for {longest} tokens was requested, but this model's learned positions end at "
                f"max_position_embeddings={limit}. Set max_length to that, or use another cache."
            )
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)

    def _get_stopping_criteria(self, generation_config, stopping_criteria, tokenizer=None, **kwargs):
        if hasattr(tokenizer, "plain_side"):  # stop strings are text of the target
            tokenizer = tokenizer.plain_side("target")
        criteria = super()._get_stopping_criteria(generation_config, stopping_criteria, tokenizer=tokenizer, **kwargs)
        if generation_config.max_length_offset is not None:
            criteria.append(SourceLengthCriteria(generation_config._length_limits))
        return criteria

    def _beam_search(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        tokenizer=None,  # only for stop strings, which are among the criteria
        **model_kwargs,
    ) -> GenerateBeamEncoderDecoderOutput | torch.LongTensor:
        """Beam search, with the arguments and the result of transformers' own."""
        recorder = Recorder(generation_config)
        decoder = BatchedDecoder(self, input_ids, model_kwargs, generation_config.num_beams)
        search = BeamSearch(
            decoder,
            **self._search_options(input_ids, logits_processor, stopping_criteria, generation_config, recorder),
        )
        search.continues = lambda is_done: self._has_unfinished_sequences(is_done, synced_gpus, input_ids.device)
        output = search.run()
        if not generation_config.return_dict_in_generate:
            return output.sequences
        return recorder.output(output, model_kwargs["encoder_outputs"], decoder.cache)

    @staticmethod
    def _search_options(
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        config: GenerationConfig,
        recorder: "Recorder",
    ) -> dict[str, Any]:
        """The arguments of [`BeamSearch`] besides its decoder."""
        beams, others = config.num_beams, other_criteria(stopping_criteria)
        return {
            "scoring": Scoring(config.length_penalty, config.length_penalty_type, config.early_stopping),
            "prompt": input_ids[::beams],
            "limits": length_limits(stopping_criteria, config, input_ids)[::beams],
            "beams": beams,
            "n_best": config.num_return_sequences,
            "eos_token_ids": end_token_ids(stopping_criteria, input_ids),
            "fill_token_id": fill_token_id(config),
            "processors": logits_processor or None,
            "criteria": (lambda sequences: others(sequences, recorder.scores)) if others else None,
            "do_sample": config.do_sample,
            "record": recorder if recorder.is_needed else None,
        }

    def _get_candidate_generator(self, *args, **kwargs):
        return GenerationMixin._get_candidate_generator(self._with_target_vocabulary(), *args, **kwargs)

    def _get_logits_processor(self, *args, **kwargs):
        return GenerationMixin._get_logits_processor(self._with_target_vocabulary(), *args, **kwargs)

    def compute_transition_scores(self, *args, **kwargs):
        return GenerationMixin.compute_transition_scores(self._with_target_vocabulary(), *args, **kwargs)

    def _with_target_vocabulary(self):
        """This model as transformers must see it, with the size of the target's vocabulary as `vocab_size`.

        Scores, prompt lookup and watermarks read `vocab_size` where they mean the target's. The result is a copy that
        shares all weights, so that no other thread sees the config change.
        """
        if self.config.vocab_size == self.config.decoder_vocab_size:
            return self
        model = copy.copy(self)
        model.config = copy.copy(self.config)
        model.config.vocab_size = self.config.decoder_vocab_size
        return model


class BatchedDecoder:
    """Scores next tokens with each hypothesis as a row of the batch, as transformers does.

    Args:
        model: any encoder–decoder in transformers.
        prompt: `(sentences * beams, prompt_length)`.
        model_kwargs: what `generate()` prepared for the forward pass, with as many rows.
        beams: number of hypotheses per sentence.
    """

    sentences_may_leave = False

    def __init__(self, model: nn.Module, prompt: torch.Tensor, model_kwargs: dict[str, Any], beams: int):
        self.model = model
        self.prompt = prompt
        self.model_kwargs = model_kwargs
        self.beams = beams
        self.output = None

    @property
    def cache(self) -> Cache | None:
        return self.model_kwargs.get(CACHE_NAME)

    def first(self) -> torch.Tensor:
        """Logits after the prompt, `(sentences, beams, vocab_size)`."""
        return self._logits(self.prompt, None, is_first_iteration=True)

    def next(self, sequences: torch.Tensor, parents: torch.Tensor) -> torch.Tensor:
        """Logits after `sequences` `(sentences, beams, length)`, `(sentences, beams, vocab_size)`.

        Args:
            parents: `(sentences, beams)`, the hypothesis of the previous step that each one continues.
        """
        if self.cache is not None:
            first_rows = torch.arange(len(parents), device=parents.device).unsqueeze(1) * self.beams
            self.cache.reorder_cache((parents + first_rows).flatten())
        return self._logits(sequences.flatten(0, 1), 1 if self.model_kwargs.get("use_cache") else None)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        return states

    def again(self) -> None:
        """Run a pass whose result is not used, while other processes still need this one's part of the weights."""
        self.model(**{**self.last_inputs, CACHE_NAME: None, "use_cache": False})

    def _logits(self, tokens: torch.Tensor, new_tokens: int | None, **kwargs) -> torch.Tensor:
        inputs = self.model.prepare_inputs_for_generation(
            tokens, next_sequence_length=new_tokens, **kwargs, **self.model_kwargs
        )
        self.last_inputs = inputs
        self.output = self.model(**inputs, return_dict=True)
        self.model_kwargs = self.model._update_model_kwargs_for_generation(
            self.output, self.model_kwargs, is_encoder_decoder=True
        )
        return self.output.logits[:, -1].unflatten(0, (-1, self.beams))


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
        self, output: BeamOutput, encoder_outputs: ModelOutput, cache: Cache | None
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
            **{CACHE_NAME: cache},
        )


class SourceLengthCriteria(StoppingCriteria):
    """Ends each row at a length of its own.

    Args:
        limits: `(rows,)`, maximum number of tokens in each output, prompt included.
    """

    def __init__(self, limits: torch.Tensor):
        self.limits = limits

    def __call__(self, input_ids: torch.LongTensor, scores, **kwargs) -> torch.BoolTensor:
        return self.limits.to(input_ids.device) <= input_ids.shape[1]


def length_limits(criteria: StoppingCriteriaList, generation_config: GenerationConfig, input_ids) -> torch.Tensor:
    """The maximum number of tokens in the output of each row, prompt included: `(rows,)`."""
    lengths = [criterion.max_length for criterion in criteria if type(criterion) is MaxLengthCriteria]
    longest = min(lengths, default=generation_config.max_length)
    for criterion in criteria:
        if isinstance(criterion, SourceLengthCriteria):
            return criterion.limits.to(input_ids.device).clamp(max=longest)
    return torch.full((len(input_ids),), longest, device=input_ids.device)


def end_token_ids(criteria: StoppingCriteriaList, input_ids: torch.Tensor) -> torch.Tensor | None:
    """The tokens that end an output, `(k,)`, from the config or a criterion of the caller; `None` without any."""
    ids = [criterion.eos_token_id.reshape(-1) for criterion in criteria if type(criterion) is EosTokenCriteria]
    return torch.cat(ids).to(input_ids.device) if ids else None


def other_criteria(criteria: StoppingCriteriaList) -> StoppingCriteriaList:
    """The criteria that a search must call: all but those that it handles itself."""
    handled = (MaxLengthCriteria, EosTokenCriteria, SourceLengthCriteria)
    return StoppingCriteriaList(
        criterion
        for criterion in criteria
        if type(criterion) not in handled and not getattr(criterion, "is_handled_by_search", False)
    )


def source_lengths(model_kwargs: dict[str, Any]) -> torch.Tensor:
    """The number of tokens in each source, `(rows,)`, according to the mask if there is one."""
    if model_kwargs.get("attention_mask") is not None:
        return model_kwargs["attention_mask"].sum(-1)
    states = model_kwargs["encoder_outputs"].last_hidden_state
    return torch.full((len(states),), states.shape[1], device=states.device)


def fill_token_id(generation_config: GenerationConfig) -> int:
    """The token that pads shorter outputs of a beam search: as in transformers, the end token if padding is 0.

    Without an end token, it is 0; transformers pads with -1, which no tokenizer decodes. If each output has its own
    length limit, it is 0, too: an output that reached its limit must not seem to have ended.
    """
    pad, eos = generation_config._pad_token_tensor, generation_config._eos_token_tensor
    pad = 0 if pad is None else int(pad)
    has_limits = generation_config.max_length_offset is not None
    return pad or (0 if eos is None or has_limits else int(eos[0]))


__all__ = ["VaswaniGenerationMixin"]

"""Generation as the paper does it, through transformers' `generate()`.

Two settings of `generation_config` are this package's own: `length_penalty_type="gnmt"` scores hypotheses as the paper
does, and `max_length_offset` limits each output by the length of its own source (section 6.1). Everything else means
what it means in transformers. Beam search, greedy search and sampling are those of `generation_beam_search.py`;
streaming and assisted generation are transformers'.

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

import copy
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    QuantizedCache,
    StoppingCriteriaList,
)
from transformers import generation as processors
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import GENERATION_CONFIG_NAME, cached_file, logging

from .generation_beam_decoder import MASKED_ATTENTION, BatchedDecoder, ModuleStep, SharedSourceDecoder
from .generation_beam_search import BeamSearch, GreedySearch, Sampling, Stragglers
from .generation_criteria import SourceLengthCriteria, end_token_ids, length_limits, only_one, other_criteria
from .generation_length_penalty import Scoring
from .generation_recorder import Recorder
from .generation_search_observer import SearchObserver
from .generation_settings import LARGEST_BEAM, LENGTH_PENALTY_TYPES, check_generation_file, setting_errors
from .modeling_cache import CACHE_NAME
from .modeling_decoder_step import DecoderStep, can_step
from .modeling_int8 import Int8Linear
from .modeling_token_ids import check_ids
from .pipeline_inputs import check_search

logger = logging.get_logger(__name__)

MAX_TOKENS_OVER_SOURCE = 50
OWN_SETTINGS = ("length_penalty_type", "max_length_offset")
STATIC_CACHES = ("static", "offloaded_static", "sliding_window", "hybrid")
RECORDING_MODULE = "transformers.utils.output_capturing"
CASTING_CLASS = "ConvertOutputsToFp32"
# Methods that a search with shared sources does not call, and those that stand for them.
BYPASSED, SHORTCUTS = ("forward", "decode", "project"), ("decoder_step", "_shared_source")
# Methods of transformers that it does not call, either. PEFT replaces the first of them to insert virtual tokens.
PREPARING = ("prepare_inputs_for_generation", "_update_model_kwargs_for_generation")
# Labels come from the Trainer and are ignored.
SHARED_INPUTS = ("attention_mask", "encoder_outputs", "labels", "logits_to_keep", CACHE_NAME, "use_cache")

# Processors that only rule out tokens: they act on logits just as on log-probabilities.
MASKING_PROCESSORS = (
    processors.ForcedBOSTokenLogitsProcessor,
    processors.ForcedEOSTokenLogitsProcessor,
    processors.MinLengthLogitsProcessor,
    processors.MinNewTokensLengthLogitsProcessor,
    processors.NoBadWordsLogitsProcessor,
    processors.NoRepeatNGramLogitsProcessor,
    processors.SuppressTokensAtBeginLogitsProcessor,
    processors.SuppressTokensLogitsProcessor,
)
# Processors that treat each row on its own, whatever its index. Any others may identify sentences by row.
ROW_PROCESSORS = (
    *MASKING_PROCESSORS,
    processors.EpsilonLogitsWarper,
    processors.EtaLogitsWarper,
    processors.ExponentialDecayLengthPenalty,
    processors.InfNanRemoveLogitsProcessor,
    processors.LogitNormalization,
    processors.MinPLogitsWarper,
    processors.RepetitionPenaltyLogitsProcessor,
    processors.SequenceBiasLogitsProcessor,
    processors.TemperatureLogitsWarper,
    processors.TopKLogitsWarper,
    processors.TopPLogitsWarper,
    processors.TypicalLogitsWarper,
)


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

    length_follows_source = True
    leaves_stragglers = True
    shows_its_search = True
    returns_sequence_scores = True

    def adjust_generation_fn(self, *args, **kwargs):
        """Load the generation config, as in transformers, but refuse a damaged `generation_config.json`.

        `from_pretrained` calls it.

        Raises:
            ValueError: the file is damaged. transformers would search greedily instead, or fail without naming it.
        """
        given = inspect.signature(GenerationMixin.adjust_generation_fn).bind(self, *args, **kwargs).arguments
        if given.get("generation_config") is None and given.get("pretrained_model_name_or_path") is not None:
            where = ("cache_dir", "proxies", "local_files_only", "token", "revision", "subfolder")
            path = cached_file(
                given["pretrained_model_name_or_path"],
                GENERATION_CONFIG_NAME,
                **{name: given[name] for name in where if given.get(name) is not None},
                _raise_exceptions_for_gated_repo=False,
                _raise_exceptions_for_missing_entries=False,
                _raise_exceptions_for_connection_errors=False,
            )
            if path is not None:
                check_generation_file(path, self.config.decoder_vocab_size)
            elif Path(given["pretrained_model_name_or_path"]).is_dir():
                logger.warning(
                    f"{given['pretrained_model_name_or_path']} has no {GENERATION_CONFIG_NAME}, so translations are "
                    "searched with default settings, greedily. Copy that file from where the model came from."
                )
        super().adjust_generation_fn(*args, **kwargs)

    def _prepare_generation_config(self, generation_config: GenerationConfig | None, *args, **kwargs):
        own = {name: kwargs.pop(name) for name in OWN_SETTINGS if name in kwargs}
        of_call = {**vars(generation_config or GenerationConfig()), **kwargs, **own}
        check_search(of_call.get)
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        prepared.length_penalty_type = own.get(
            "length_penalty_type", getattr(prepared, "length_penalty_type", None) or LENGTH_PENALTY_TYPES[0]
        )
        prepared.max_length_offset = length_offset({**kwargs, **own}, generation_config, self.generation_config)
        check_own_settings(prepared)
        lengths = (of_call.get("max_length"), own_max_length(self.generation_config), prepared.max_new_tokens)
        prepared._has_only_offset = all(length is None for length in lengths)
        return prepared, model_kwargs

    @property
    def longest_output_offset(self) -> int | None:
        """How many more tokens than its source an output may have if a call sets no length; `None` for any number."""
        return length_offset({}, None, self.generation_config)

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
        config, beams = generation_config, generation_config.num_beams
        recorder = Recorder(config)
        if not recorder.is_needed and not synced_gpus and self._can_share_source(config, model_kwargs):
            decoder = self._shared_source(input_ids, model_kwargs, beams)
        else:
            decoder = BatchedDecoder(self, input_ids, model_kwargs, beams)
        others = other_criteria(stopping_criteria)
        search = BeamSearch(
            decoder,
            Scoring(config.length_penalty, config.length_penalty_type, config.early_stopping),
            input_ids[::beams],
            length_limits(stopping_criteria, config, input_ids)[::beams],
            beams,
            n_best=config.num_return_sequences,
            eos_token_ids=end_token_ids(stopping_criteria, input_ids),
            fill_token_id=fill_token_id(config),
            processors=logits_processor or None,
            criteria=(lambda sequences: others(sequences, recorder.scores)) if others else None,
            do_sample=config.do_sample,
            log_probs_fall=not config.do_sample and only(MASKING_PROCESSORS, logits_processor),
            sentences_may_leave=not (others or config.do_sample) and only(ROW_PROCESSORS, logits_processor),
            stragglers=only_one(Stragglers, stopping_criteria),
            record=recorder if recorder.is_needed else None,
            observer=only_one(SearchObserver, stopping_criteria),
            continues=lambda is_done: self._has_unfinished_sequences(is_done, synced_gpus, input_ids.device),
        )
        output = search.run()
        if not config.return_dict_in_generate:
            return output.sequences
        return recorder.output(output, model_kwargs["encoder_outputs"], decoder)

    def _sample(
        self,
        input_ids: torch.LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer=None,
        tokenizer=None,  # only for stop strings, which are among the criteria
        **model_kwargs,
    ):
        """Sampling and greedy search, with the arguments and the result of transformers' own.

        Both are beam search with one beam that ends with its first hypothesis, and are run as such if nothing but
        their tokens is requested. Samples then follow the same distribution as transformers', but with the same seed,
        they are other samples.
        """
        config = generation_config
        is_plain = (
            not (config.return_dict_in_generate or synced_gpus or streamer is not None)
            and not other_criteria(stopping_criteria)
            and only(ROW_PROCESSORS if config.do_sample else MASKING_PROCESSORS, logits_processor)
            and self._can_share_source(config, model_kwargs)
        )
        if not is_plain:
            return super()._sample(
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                generation_config=config,
                synced_gpus=synced_gpus,
                streamer=streamer,
                **model_kwargs,
            )
        search = (Sampling if config.do_sample else GreedySearch)(
            self._shared_source(input_ids, model_kwargs, beams=1),
            input_ids,
            length_limits(stopping_criteria, config, input_ids),
            eos_token_ids=end_token_ids(stopping_criteria, input_ids),
            fill_token_id=0 if config._pad_token_tensor is None else int(config._pad_token_tensor),
            processors=logits_processor or None,
            # Rows that end early cannot be drawn again.
            stragglers=None if config.do_sample else only_one(Stragglers, stopping_criteria),
            observer=only_one(SearchObserver, stopping_criteria),
        )
        return search.run().sequences

    def _can_share_source(self, generation_config: GenerationConfig, model_kwargs: dict[str, Any]) -> bool:
        """Whether the hypotheses of a sentence can be fed side by side: with a plain cache and nothing unusual."""
        cache = model_kwargs.get(CACHE_NAME)
        bypassed = set(self.modules()) - set(self.get_encoder().modules())
        return (
            self.config._attn_implementation in MASKED_ATTENTION
            and generation_config.use_cache is not False
            and generation_config.cache_implementation in (None, "dynamic")
            # The caller's own cache is to be filled.
            and (cache is None or (cache.get_seq_length() == 0 and not getattr(cache, "_is_user_defined", False)))
            and len(set(getattr(self, "hf_device_map", {}).values())) < 2
            and all(value is None or name in SHARED_INPUTS for name, value in model_kwargs.items())
            and all(
                getattr(getattr(self, name), "__func__", None) is getattr(VaswaniGenerationMixin, name)
                for name in PREPARING
            )
            and not any(map(is_watched, bypassed))
            and not any(map(is_overridden, set(map(type, bypassed))))
        )

    def _shared_source(self, input_ids: torch.Tensor, model_kwargs: dict[str, Any], beams: int) -> SharedSourceDecoder:
        mask = model_kwargs.get("attention_mask")
        return SharedSourceDecoder(
            self.decoder_step() or ModuleStep(self),
            self.config,
            input_ids[::beams],
            model_kwargs["encoder_outputs"].last_hidden_state[::beams],
            None if mask is None else mask[::beams],
            beams,
        )

    def decoder_step(self) -> DecoderStep | None:
        """A faster decoder that bypasses the modules; `None` if those may do more than the plain computation."""
        decoder, lm_head = self.get_decoder(), self.get_output_embeddings()
        if not can_step(decoder, lm_head):
            return None
        if not isinstance(lm_head, Int8Linear):
            return DecoderStep(decoder, lm_head)
        # 8-bit weights never change, so the step can be kept.
        if "_int8_step" not in vars(self):
            self._int8_step = DecoderStep(decoder, lm_head)
        return self._int8_step

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


def is_watched(module: nn.Module) -> bool:
    """Whether a module's forward pass has hooks or has been replaced.

    Such code expects calls of the model itself with one row per hypothesis, and the search makes neither. Two
    exceptions do no harm: transformers' own recording, whose hooks stay once attentions have been requested, and
    Accelerate's mixed precision, which only casts.
    """
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    if any(getattr(hook, "__module__", None) != RECORDING_MODULE for hook in hooks):
        return True
    replacement = vars(module).get("forward")
    if replacement is None:
        return False
    if getattr(replacement, "__func__", None) is inspect.unwrap(type(module).forward):
        return False  # the class's own, without decorators: Accelerate leaves it behind when it unwraps a model
    return type(getattr(replacement, "__wrapped__", None)).__name__ != CASTING_CLASS


def is_overridden(cls: type[nn.Module]) -> bool:
    """Whether a subclass replaces what the search bypasses in a class of this package, without its own shortcut."""
    for number, base in enumerate(cls.__mro__):
        if is_own_class(base) or any(name in vars(base) for name in SHORTCUTS):
            return False
        if any(name in vars(base) for name in BYPASSED):
            return any(map(is_own_class, cls.__mro__[number:]))
    return False


def is_own_class(cls: type) -> bool:
    """Whether a class is defined in a sibling of this file."""
    return cls.__module__.rpartition(".")[0] == __name__.rpartition(".")[0]


def check_own_settings(generation_config: GenerationConfig) -> None:
    """Refuse invalid values of this package's own settings, and beams that are too large to be useful."""
    errors = setting_errors({name: getattr(generation_config, name) for name in OWN_SETTINGS})
    beams = generation_config.num_beams or 1
    if beams > LARGEST_BEAM:
        errors.append(f"num_beams must be at most {LARGEST_BEAM:,}, got {beams}")
    if errors:
        raise ValueError("; ".join(errors))


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


def only(kinds: tuple[type, ...], logits_processor: LogitsProcessorList) -> bool:
    """Whether all processors are of exactly these kinds; subclasses might do anything."""
    return all(type(processor) in kinds for processor in logits_processor)


__all__ = ["VaswaniGenerationMixin"]

"""The model's generation, faster where nothing but the hypotheses is requested, with its settings checked.

Beam search, greedy search and sampling run in `fast_beam_search.py`, with the hypotheses of a sentence side by
side; whatever needs one row of the batch for each hypothesis is left to the model's own search or to transformers.
"""

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers import generation as processors
from transformers.generation import GenerateBeamEncoderDecoderOutput
from transformers.utils import GENERATION_CONFIG_NAME, cached_file, logging

from ..core.generation_vaswani import (
    OWN_SETTINGS,
    BatchedDecoder,
    Recorder,
    VaswaniGenerationMixin,
    end_token_ids,
    length_limits,
    length_offset,
    other_criteria,
)
from ..core.modeling_cache import CACHE_NAME
from ..fast.decoder_step import DecoderStep, can_step, is_own_class
from .beam_decoder import MASKED_ATTENTION, ModuleStep, SharedSourceDecoder
from .fast_beam_search import FastBeamSearch, GreedySearch, Sampling, SearchObserver, UnfinishedSentences
from .settings import LARGEST_BEAM, check_generation_file, check_search, generation_config_in, setting_errors

logger = logging.get_logger(__name__)

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


class FastGenerationMixin(VaswaniGenerationMixin):
    """What [`VaswaniGenerationMixin`] does, faster, and with errors before a search rather than in it."""

    length_follows_source = True
    leaves_unfinished = True
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

    def load_adapter(self, peft_model_id: str | None = None, *args, **kwargs):
        """Load as in transformers, along with the adapter's own search settings if its folder has them.

        Warns of an adapter that was trained on another base model.
        """
        from .adapters import base_error

        is_first = peft_model_id is not None and self.can_generate() and not self._hf_peft_config_loaded
        if is_first and (error := base_error(self, peft_model_id)):
            logger.warning(error)
        report = super().load_adapter(peft_model_id, *args, **kwargs)
        if peft_model_id is not None and self.can_generate():
            self.generation_config = generation_config_in(peft_model_id) or self.generation_config
        return report

    def _prepare_generation_config(self, generation_config: GenerationConfig | None, *args, **kwargs):
        check_search({**vars(generation_config or GenerationConfig()), **kwargs}.get)
        prepared, model_kwargs = super()._prepare_generation_config(generation_config, *args, **kwargs)
        check_own_settings(prepared)
        return prepared, model_kwargs

    @property
    def longest_output_offset(self) -> int | None:
        """How many more tokens than its source an output may have if a call sets no length; `None` for any number."""
        return length_offset({}, None, self.generation_config)

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
        search = FastBeamSearch(
            decoder,
            **self._search_options(input_ids, logits_processor, stopping_criteria, config, recorder),
            log_probs_fall=not config.do_sample and only(MASKING_PROCESSORS, logits_processor),
            sentences_may_leave=not (others or config.do_sample) and only(ROW_PROCESSORS, logits_processor),
            unfinished=only_one(UnfinishedSentences, stopping_criteria),
            observer=only_one(SearchObserver, stopping_criteria),
            continues=lambda is_done: self._has_unfinished_sequences(is_done, synced_gpus, input_ids.device),
        )
        output = search.run()
        if not config.return_dict_in_generate:
            return output.sequences
        # A pool of hypotheses is of no use outside the search.
        cache = decoder.cache if isinstance(decoder, BatchedDecoder) else None
        return recorder.output(output, model_kwargs["encoder_outputs"], cache)

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
        their tokens is requested. Samples then follow the same distribution as transformers', but the same seed gives
        different ones.
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
            prompt=input_ids,
            limits=length_limits(stopping_criteria, config, input_ids),
            eos_token_ids=end_token_ids(stopping_criteria, input_ids),
            fill_token_id=0 if config._pad_token_tensor is None else int(config._pad_token_tensor),
            processors=logits_processor or None,
            # Rows that end early cannot be drawn again.
            unfinished=None if config.do_sample else only_one(UnfinishedSentences, stopping_criteria),
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
            and not any(map(has_hooks, bypassed))
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
        return DecoderStep(decoder, lm_head) if can_step(decoder, lm_head) else None


def has_hooks(module: nn.Module) -> bool:
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


def check_own_settings(generation_config: GenerationConfig) -> None:
    """Refuse invalid values of this package's own settings, and beams that are too large to be useful."""
    errors = setting_errors({name: getattr(generation_config, name) for name in OWN_SETTINGS})
    beams = generation_config.num_beams or 1
    if beams > LARGEST_BEAM:
        errors.append(f"num_beams must be at most {LARGEST_BEAM:,}, got {beams}")
    if errors:
        raise ValueError("; ".join(errors))


def only_one(kind: type[StoppingCriteria], criteria: StoppingCriteriaList) -> StoppingCriteria | None:
    """The first criterion of that kind, or `None`."""
    return next((criterion for criterion in criteria if type(criterion) is kind), None)


def only(kinds: tuple[type, ...], logits_processor: LogitsProcessorList) -> bool:
    """Whether all processors are of exactly these kinds; subclasses might do anything."""
    return all(type(processor) in kinds for processor in logits_processor)


__all__ = ["FastGenerationMixin"]

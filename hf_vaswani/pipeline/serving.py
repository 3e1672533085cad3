"""Decides for each call of the pipeline what computes it: PyTorch, or another engine with the same weights.

CTranslate2 searches several times as fast on a CPU. With `engine="auto"`, it takes over once there is enough text to
pay for converting the model, where it gives the same results; whatever it cannot do stays with PyTorch. ONNX Runtime
computes only where it is asked for.
"""

import logging
import threading
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

from ..engines.converters import CONVERTERS
from ..engines.ctranslate2_model import CTranslate2Model
from ..engines.engine_cache import EngineDiffers, find_converted, find_key, note_key, open_converted, weights_key
from ..engines.engine_model import EngineModel
from ..errors import InputError
from ..generation.fast_model import VaswaniForConditionalGeneration
from ..generation.mixin import is_watched
from .arguments import GenerateArguments

logger = logging.getLogger(__name__)

AUTO, TORCH = "auto", "torch"
ENGINES = (AUTO, TORCH, *CONVERTERS)
# Source tokens times hypotheses that PyTorch searches in about the time that it takes to convert a model, and to open
# a converted one. Both grow with the model as the search does.
WORTH_CONVERTING, WORTH_OPENING = 20_000, 1_000
# Settings that forbid tokens.
ON_LOGITS = ("suppress_tokens", "no_repeat_ngram_size", "min_length", "min_new_tokens")
Signature = list[tuple[int, int]]
# Model → the weights that it had, by their signature, and their key.
_keys: "WeakKeyDictionary[PreTrainedModel, tuple[Signature, str]]" = WeakKeyDictionary()
# Model → the weights that it had when it was loaded, and the digest of its files.
_files: "WeakKeyDictionary[PreTrainedModel, tuple[Signature, str]]" = WeakKeyDictionary()
# Model → the weights that it had, and their conversions by engine and quantization.
_converted: "WeakKeyDictionary[PreTrainedModel, tuple[Signature, dict[tuple[str, str | None], EngineModel]]]"
_converted = WeakKeyDictionary()
_lock = threading.Lock()


class Serving:
    """What computes the calls of a pipeline.

    Args:
        engine: `"auto"`, `"torch"`, `"ctranslate2"` or `"onnx"`.
        quantize: `"int8"` for 8-bit weights, which PyTorch does not have; or None.

    Attributes:
        used: the engines that have computed something.
        opened: the engine that took the model's place last, if any.

    Raises:
        ValueError: there is no such engine, it is not installed, or it has no such weights.
    """

    def __init__(self, engine: str = AUTO, quantize: str | None = None):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}.")
        if quantize not in (None, "int8"):
            raise ValueError(f'quantize must be "int8" or None, got {quantize!r}.')
        if quantize and engine == TORCH:
            raise ValueError('quantize="int8" is computed by other engines than PyTorch: leave out engine="torch".')
        self.engine, self.quantize = engine, quantize
        self.converter = CONVERTERS.get(engine, CONVERTERS["ctranslate2"])
        self.is_asked_for = engine in CONVERTERS or quantize is not None
        error = self.converter.installation_error()
        if self.is_asked_for and error:
            raise ValueError(error)
        self.is_possible = engine != TORCH and error is None
        self.work = 0  # source tokens times hypotheses that PyTorch has searched
        self.used: set[str] = set()
        self.opened: EngineModel | None = None

    def check(self, model: PreTrainedModel) -> None:
        """Raise a `ValueError` if the engine that was asked for cannot compute a model."""
        if isinstance(model, EngineModel):
            if self.quantize:
                raise ValueError(
                    f'quantize="int8" is not for {model.engine_name}. Export the model with --quantization int8.'
                )
            if self.engine not in (AUTO, model.engine_key):
                raise ValueError(
                    f'The model was exported for {model.engine_name}. Leave out engine="{self.engine}", or use the '
                    "original model."
                )
        elif self.is_asked_for:
            if reason := model_obstacle(model) or ", ".join(self.converter.unsupported_features(model)):
                raise self._error(reason)
            if self.converter.is_for_cpu and model.device.type != "cpu":
                logger.warning("%s computes on the CPU, not on %s.", self.converter.name, model.device)

    def engine_for(
        self, model: PreTrainedModel, arguments: GenerateArguments, forward: dict[str, Any], lengths: list[int]
    ) -> EngineModel | None:
        """The engine for a call, or `None` if the model itself computes it.

        Args:
            model: the pipeline's model.
            arguments, forward: those of the call.
            lengths: number of tokens of each source.

        Raises:
            ValueError: the engine was asked for, but cannot do this.
        """
        if not lengths or not self._may_replace(model):
            return None
        engine, reason = None, model_obstacle(model) or self._call_obstacle(model, arguments, forward)
        if reason is None:
            with _lock:
                engine, reason = self._open(model, sum(lengths) * arguments.rows())
        if engine is not None:
            self.opened = engine
            # Those that the model has now: they may have been changed since the engine was opened.
            engine.config, engine.generation_config = model.config, model.generation_config
            reason = refusal(engine, arguments, max(lengths))
            if reason is None and not (self.is_asked_for or computes_the_same(engine, arguments, forward)):
                return None
        if reason and self.is_asked_for:
            raise self._error(reason)
        return None if reason else engine

    def scorer_for(self, model: PreTrainedModel, obstacle: str | None, work: int) -> EngineModel | None:
        """The engine that computes the log-probabilities of given targets, or `None` if the model itself does.

        Args:
            obstacle: why the engine's log-probabilities would not be the model's, if so.
            work: number of tokens.

        Raises:
            ValueError: the engine was asked for, but cannot do this.
        """
        if not self._may_replace(model):
            return None
        engine, reason = None, model_obstacle(model) or obstacle
        if reason is None and (model.training or any(map(is_watched, model.modules()))):
            reason = "the model is in training mode, or has hooks"
        if reason is None:
            with _lock:
                engine, reason = self._open(model, work)
        if reason and self.is_asked_for:
            raise self._error(reason)
        return engine

    def find(self, files: str, config: PreTrainedConfig, generation_config: GenerationConfig) -> EngineModel | None:
        """The conversion of a model that is not loaded, if the cache has one and knows that it is that of its files.

        Args:
            files: digest of the model's files, as [`note_files`] gets it.
        """
        key = find_key(files) if self.is_possible else None
        return find_converted(self.converter, key, config, generation_config, self.quantize) if key else None

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"{self.converter.name} cannot compute this: {reason}.")

    def _may_replace(self, model: PreTrainedModel) -> bool:
        """Whether the engine may take the place of a model: by itself, only in float32 on a CPU."""
        is_plain = model.device.type == "cpu" and model.dtype == torch.float32
        return self.is_possible and not isinstance(model, EngineModel) and (self.is_asked_for or is_plain)

    def _call_obstacle(
        self, model: PreTrainedModel, arguments: GenerateArguments, forward: dict[str, Any]
    ) -> str | None:
        """Why the engine would not compute what the model does in this call, if so."""
        if model.training:
            return "the model is in training mode"
        if "generate" in vars(model) or any(map(is_watched, model.modules())):
            return "the model has hooks, or methods of its own"
        if forward.get("return_alignments"):
            return "alignments need the attention of the model"
        if self.converter.searches and arguments.depends_on_order():
            return "some arguments are objects that must see all batches"
        if self.converter.searches and arguments.get("do_sample"):
            return "its samples would not follow the seed"
        return None

    def _open(self, model: PreTrainedModel, work: int) -> tuple[EngineModel | None, str | None]:
        """The engine if it is worth opening, or else `None`; and why that is impossible, if it is."""
        weights = signature(model)
        before, engines = _converted.get(model, ([], {}))
        if weights != before:
            engines = {}
            _converted[model] = weights, engines
        place = self.converter.key, self.quantize
        if place in engines:
            return engines[place], None
        self.work += work
        if not self.is_asked_for and self.work < WORTH_OPENING:
            return None, None
        if features := self.converter.unsupported_features(model):
            self.is_possible = self.is_asked_for
            return None, ", ".join(features)
        known, key = _keys.get(model, (None, ""))
        if weights != known:
            key = weights_key(model)
            _keys[model] = weights, key
        settings = model.config, model.generation_config, self.quantize, str(model.device)
        engine = find_converted(self.converter, key, *settings)
        if engine is None and (self.is_asked_for or self.work >= WORTH_CONVERTING):
            try:
                engine = open_converted(self.converter, model, key, self.quantize)
            except (EngineDiffers, InputError, RuntimeError, MemoryError) as error:
                self.is_possible = self.is_asked_for
                if isinstance(error, InputError) and not self.is_asked_for:
                    logger.warning("PyTorch translates: %s", error)
                return None, str(error).rstrip(".")
        if engine is not None:
            engines[place] = engine
            loaded, files = _files.get(model, (None, ""))
            if weights == loaded:
                note_key(files, key)
        return engine, None


def refusal(engine: EngineModel, arguments: GenerateArguments, longest: int) -> str | None:
    """Why an engine cannot search with these arguments, if it cannot."""
    if not isinstance(engine, CTranslate2Model):  # those with this package's search
        return None
    limit = engine.stored.max_position_embeddings
    if limit and longest > limit:
        return f"a text has {longest} tokens, more than its {limit} positions"
    given = dict(arguments.generate_kwargs)
    try:
        engine.search_settings(given.pop("generation_config", None), given)
    except ValueError as error:
        return str(error).rstrip(".")
    return None


def computes_the_same(engine: EngineModel, arguments: GenerateArguments, forward: dict[str, Any]) -> bool:
    """Whether the engine's translations and scores are those of PyTorch with the same arguments.

    Samples are not, nor are scores if tokens are forbidden or penalized: the engine changes logits and normalizes them
    then; transformers' beam search changes log-probabilities. The most probable token is the same. That padding is
    forbidden, as Marian's settings have it, makes no difference.
    """
    if arguments.get("do_sample") or forward.get("return_alignments"):
        return False
    padding = [[engine.stored.pad_token_id]]
    is_set = any(arguments.get(name) for name in ON_LOGITS) or arguments.get("bad_words_ids", padding) != padding
    is_set |= (arguments.get("repetition_penalty") or 1) != 1
    return not (is_set and (arguments.rows() > 1 or forward.get("return_scores") or forward.get("n_best")))


def note_files(model: PreTrainedModel, files: str) -> None:
    """Note the digest of the files that a model has just been loaded from, by which its conversion can be found."""
    _files[model] = signature(model), files


def model_obstacle(model: PreTrainedModel) -> str | None:
    """Why another engine would not compute what a model does, if so."""
    if getattr(model, "hf_device_map", None):
        return "the model is spread over several devices"
    if any(type(module).__module__.startswith("peft") for module in model.modules()):
        return "the model has an adapter that is not merged"
    if not (type(model) is VaswaniForConditionalGeneration or type(model).__module__.startswith("transformers.")):
        return f"{type(model).__name__} is not a model of transformers or of this package"
    if getattr(model, "hf_quantizer", None) is not None:
        return "the model is quantized"
    return None


def signature(model: PreTrainedModel) -> Signature:
    """What changes when weights do: where they are, and how often they were written."""
    return [
        (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)
        for tensor in (*model.parameters(), *model.buffers())
    ]


__all__ = ["ENGINES", "Serving", "computes_the_same", "note_files"]

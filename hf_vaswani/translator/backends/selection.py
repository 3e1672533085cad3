"""Chooses for each call what computes it: PyTorch, or another engine with the same weights.

CTranslate2 searches several times as fast on a CPU. With `engine="auto"`, it takes over once there is enough text to
pay for converting the model, where it gives the same results; whatever it cannot do stays with PyTorch. ONNX Runtime
computes only where it is requested.
"""

import logging
import os
import threading
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ...backends import BACKENDS
from ...engines.engine_model import EngineModel
from ...errors import InputError
from ...generation.fast_model import VaswaniForConditionalGeneration
from ...generation.mixin import has_hooks
from ..segments import SearchBackend, SearchRequest
from .conversions import EngineDiffers, find_converted, find_key, note_key, open_converted, weights_key
from .torch_backend import TorchBackend

logger = logging.getLogger(__name__)

AUTO, TORCH = "auto", "torch"
# Source tokens times hypotheses that PyTorch searches in about the time that it takes to convert a model, and to open
# a converted one. Both grow with the model as the search does.
WORTH_CONVERTING, WORTH_OPENING = 20_000, 1_000
# More work than any model takes to convert.
CONVERT_NOW = 10**12
Signature = list[tuple[int, int]]
_lock = threading.Lock()


@dataclass
class Conversions:
    """What is known of a model's weights, as long as they have the same signature.

    Attributes:
        files: digest of the files that they were loaded from, if known.
        key: what their conversions are found by, once it is needed.
        opened: engines with these weights, by name and quantization.
    """

    signature: Signature
    files: str = ""
    key: str = ""
    opened: dict[tuple[str, str | None], EngineModel] = field(default_factory=dict)


_conversions: "WeakKeyDictionary[PreTrainedModel, Conversions]" = WeakKeyDictionary()


def _unlock() -> None:
    """Take a new lock in a forked process, where no thread may release the old one."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


class BackendSelection:
    """Chooses what computes the calls of a pipeline.

    Args:
        engine: `"auto"`, `"torch"`, `"ctranslate2"` or `"onnx"`.
        quantize: `"int8"` for 8-bit weights, which PyTorch does not have; or None.

    Attributes:
        used: the names of the engines that have computed something.
        opened: the engine that has taken the model's place, if any.

    Raises:
        ValueError: there is no such engine, it is not installed, or it has no such weights.
    """

    def __init__(self, engine: str = AUTO, quantize: str | None = None):
        if engine not in (AUTO, TORCH, *BACKENDS):
            raise ValueError(f"engine must be one of {', '.join((AUTO, TORCH, *BACKENDS))}, got {engine!r}.")
        if quantize not in (None, "int8"):
            raise ValueError(f'quantize must be "int8" or None, got {quantize!r}.')
        if quantize and engine == TORCH:
            raise ValueError('quantize="int8" is computed by other engines than PyTorch: leave out engine="torch".')
        self.engine, self.quantize = engine, quantize
        self.record = BACKENDS.get(engine, BACKENDS["ctranslate2"])
        self.is_requested = engine in BACKENDS or quantize is not None
        error = self.record.installation_error()
        if self.is_requested and error:
            raise ValueError(error)
        self.is_possible = engine != TORCH and error is None
        self.work = 0  # source tokens times hypotheses that PyTorch has searched
        self.used: set[str] = set()
        self.opened: EngineModel | None = None

    def check(self, model: PreTrainedModel) -> None:
        """Raise a `ValueError` if the engine that was requested cannot compute a model."""
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
        elif self.is_requested:
            if reason := model_obstacle(model) or ", ".join(self.record.load("unsupported_features")(model)):
                raise self._error(reason)
            if self.record.is_for_cpu and model.device.type != "cpu":
                logger.warning("%s computes on the CPU, not on %s.", self.record.title, model.device)

    def select(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, request: SearchRequest, lengths: list[int]
    ) -> SearchBackend | None:
        """The engine that searches in a call, or `None` if the model itself does.

        Args:
            model: the pipeline's model.
            lengths: number of tokens of each source.

        Raises:
            ValueError: an engine was requested, but cannot do this.
        """
        if not lengths or not self._may_replace(model):
            return None
        if not self.is_requested and not self.record.load("backend").computes_the_same(request):
            return None
        engine, reason = None, model_obstacle(model) or self._call_obstacle(model, request)
        if reason is None:
            with _lock:
                engine, reason = self._open(model, sum(lengths) * request.arguments.rows())
        if engine is not None:
            # The model's configs may have been changed since the engine was opened.
            engine.config, engine.generation_config = model.config, model.generation_config
            backend = backend_of(engine, tokenizer)
            reason = backend.obstacle(request, max(lengths))
            if reason is None:
                self.opened = engine
                return backend
        if reason and self.is_requested:
            raise self._error(reason)
        return None

    def scorer_for(self, model: PreTrainedModel, obstacle: str | None, work: int) -> EngineModel | None:
        """The engine that computes the log-probabilities of given targets, or `None` if the model itself does.

        Args:
            obstacle: why the engine's log-probabilities would not be the model's, if so.
            work: number of tokens.

        Raises:
            ValueError: the engine was requested, but cannot do this.
        """
        if not self._may_replace(model):
            return None
        engine, reason = None, model_obstacle(model) or obstacle
        if reason is None and (model.training or any(map(has_hooks, model.modules()))):
            reason = "the model is in training mode, or has hooks"
        if reason is None:
            with _lock:
                engine, reason = self._open(model, work)
        if reason and self.is_requested:
            raise self._error(reason)
        return engine

    def find(self, files: str, config: PreTrainedConfig, generation_config: GenerationConfig) -> EngineModel | None:
        """The conversion of a model that is not loaded, if the cache has one and knows that it fits the model's files.

        Args:
            files: digest of the model's files, as [`note_files`] gets it.
        """
        key = find_key(files) if self.is_possible else None
        return find_converted(self.record, key, config, generation_config, self.quantize) if key else None

    def _error(self, reason: str) -> ValueError:
        return ValueError(f"{self.record.title} cannot compute this: {reason}.")

    def _may_replace(self, model: PreTrainedModel) -> bool:
        """Whether the engine may take the place of a model: by itself, only in float32 on a CPU."""
        is_plain = model.device.type == "cpu" and model.dtype == torch.float32
        return self.is_possible and not isinstance(model, EngineModel) and (self.is_requested or is_plain)

    def _call_obstacle(self, model: PreTrainedModel, request: SearchRequest) -> str | None:
        """Why the engine would not compute what the model does in this call, if so."""
        if model.training:
            return "the model is in training mode"
        if "generate" in vars(model) or any(map(has_hooks, model.modules())):
            return "the model has hooks, or methods of its own"
        if request.return_alignments:
            return "alignments need the attention of the model"
        if self.record.searches and request.arguments.depends_on_order():
            return "some arguments are objects that must see all batches"
        if self.record.searches and request.arguments.get("do_sample"):
            return "its samples would not follow the seed"
        return None

    def _open(self, model: PreTrainedModel, work: int) -> tuple[EngineModel | None, str | None]:
        """The engine if it is worth opening, or else `None`; and why that is impossible, if it is."""
        known, place = known_conversions(model), (self.record.name, self.quantize)
        if place in known.opened:
            return known.opened[place], None
        self.work += work
        if not self.is_requested and self.work < WORTH_OPENING:
            return None, None
        if features := self.record.load("unsupported_features")(model):
            self.is_possible = self.is_requested
            return None, ", ".join(features)
        key = known.key = known.key or weights_key(model)
        settings = model.config, model.generation_config, self.quantize, str(model.device)
        engine = find_converted(self.record, key, *settings)
        if engine is None and (self.is_requested or self.work >= WORTH_CONVERTING):
            try:
                engine = open_converted(self.record, model, key, self.quantize)
            except (EngineDiffers, InputError, RuntimeError, MemoryError) as error:
                self.is_possible = self.is_requested
                if isinstance(error, InputError) and not self.is_requested:
                    logger.warning("PyTorch translates: %s", error)
                return None, str(error).rstrip(".")
        if engine is not None:
            known.opened[place] = engine
            if known.files:
                note_key(known.files, key)
        return engine, None


def note_files(model: PreTrainedModel, files: str) -> None:
    """Note the digest of the files that a model has just been loaded from, by which its conversion can be found."""
    known_conversions(model).files = files


def known_conversions(model: PreTrainedModel) -> Conversions:
    """What is known of a model's weights: nothing if they have changed."""
    now, known = signature(model), _conversions.get(model)
    if known is None or known.signature != now:
        known = _conversions[model] = Conversions(now)
    return known


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


def backend_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> SearchBackend:
    """The search backend for a model, whether it is PyTorch's or was exported for an engine."""
    key = getattr(model, "engine_key", None)
    return BACKENDS[key].load("backend")(model, tokenizer) if key else TorchBackend(model, tokenizer)


__all__ = ["CONVERT_NOW", "BackendSelection", "backend_of", "note_files"]

"""Decides for each call of the pipeline what computes it: PyTorch, or CTranslate2 with the same weights.

CTranslate2 searches several times as fast on a CPU. With `engine="auto"`, it takes over once there is enough text to
pay for converting the model, where it gives the same results; whatever it cannot do stays with PyTorch.
"""

import logging
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedModel

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..engines.engine_model import EngineModel
from ..errors import InputError
from ..generation.mixin import is_watched
from .arguments import GenerateArguments

if TYPE_CHECKING:
    from ..engines.ctranslate2_model import CTranslate2Model

logger = logging.getLogger(__name__)

ENGINES = ("auto", "torch", "ctranslate2")
NOT_INSTALLED = 'CTranslate2 is not installed. Install it with: pip install "hf-vaswani[ctranslate2]"'
# Source tokens times hypotheses that PyTorch searches in about the time that it takes to convert a model, and to open
# a converted one. Both grow with the model as the search does.
WORTH_CONVERTING, WORTH_OPENING = 20_000, 1_000
# Settings that forbid tokens.
ON_LOGITS = ("suppress_tokens", "no_repeat_ngram_size", "min_length", "min_new_tokens")
# Model → the weights that it had, by their signature, and the key of their conversion.
_keys: "WeakKeyDictionary[PreTrainedModel, tuple[list[tuple], str]]" = WeakKeyDictionary()
# Model → the weights that it had, and their conversions by quantization.
_converted: "WeakKeyDictionary[PreTrainedModel, tuple[list[tuple], dict[str | None, CTranslate2Model]]]"
_converted = WeakKeyDictionary()
_lock = threading.Lock()


def is_installed() -> bool:
    return find_spec("ctranslate2") is not None


class Serving:
    """What computes the calls of a pipeline.

    Args:
        engine: `"auto"`, `"torch"` or `"ctranslate2"`.
        quantize: `"int8"` for 8-bit weights, which only CTranslate2 has; or None.

    Raises:
        ValueError: there is no such engine, it is not installed, or it has no such weights.
    """

    def __init__(self, engine: str = "auto", quantize: str | None = None):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}.")
        if quantize not in (None, "int8"):
            raise ValueError(f'quantize must be "int8" or None, got {quantize!r}.')
        if quantize and engine == "torch":
            raise ValueError('quantize="int8" is computed by CTranslate2: leave out engine="torch".')
        self.is_asked_for = engine == "ctranslate2" or quantize is not None
        if self.is_asked_for and not is_installed():
            raise ValueError(NOT_INSTALLED)
        self.is_possible = engine != "torch" and is_installed()
        self.quantize = quantize
        self.work = 0  # source tokens times hypotheses that PyTorch has searched

    def engine_for(
        self, model: PreTrainedModel, arguments: GenerateArguments, forward: dict[str, Any], lengths: list[int]
    ) -> "CTranslate2Model | None":
        """The engine for a call, or `None` if the model itself computes it.

        Args:
            model: the pipeline's model.
            arguments, forward: those of the call.
            lengths: number of tokens of each source.

        Raises:
            ValueError: the engine was asked for, but cannot do this.
        """
        if not self.is_possible or not lengths or isinstance(model, EngineModel):
            return None
        if not self.is_asked_for and (model.device.type != "cpu" or model.dtype != torch.float32):
            return None
        engine, reason = None, obstacle(model, arguments, forward)
        if reason is None:
            with _lock:
                engine, reason = self._open(model, sum(lengths) * arguments.rows())
        if engine is not None:
            # Those that the model has now: they may have been changed since the engine was opened.
            engine.config, engine.generation_config = model.config, model.generation_config
            reason = refusal(engine, arguments, max(lengths))
            if reason is None and not (self.is_asked_for or computes_the_same(engine, arguments, forward)):
                return None
        if reason and self.is_asked_for:
            raise ValueError(f"CTranslate2 cannot compute this: {reason}.")
        return None if reason else engine

    def _open(self, model: PreTrainedModel, work: int) -> "tuple[CTranslate2Model | None, str | None]":
        """The engine if it is worth opening, or else `None`; and why that is impossible, if it is."""
        from ..engines.ctranslate2_spec import unsupported_features
        from ..engines.engine_cache import EngineDiffers, find_converted, open_converted, weights_key

        weights = signature(model)
        before, engines = _converted.get(model, ([], {}))
        if weights != before:
            engines = {}
            _converted[model] = weights, engines
        if self.quantize in engines:
            return engines[self.quantize], None
        self.work += work
        if not self.is_asked_for and self.work < WORTH_OPENING:
            return None, None
        if features := unsupported_features(model):
            self.is_possible = self.is_asked_for
            return None, ", ".join(features)
        known, key = _keys.get(model, (None, ""))
        if weights != known:
            key = weights_key(model)
            note_key(model, key)
        device = str(model.device)
        engine = find_converted(key, model.config, model.generation_config, self.quantize, device)
        if engine is None and (self.is_asked_for or self.work >= WORTH_CONVERTING):
            try:
                engine = open_converted(model, key, self.quantize)
            except (EngineDiffers, InputError, RuntimeError, MemoryError) as error:
                self.is_possible = self.is_asked_for
                if isinstance(error, InputError):
                    logger.warning("PyTorch translates: %s", error)
                return None, str(error).rstrip(".")
        if engine is not None:
            engines[self.quantize] = engine
        return engine, None


def refusal(engine: "CTranslate2Model", arguments: GenerateArguments, longest: int) -> str | None:
    """Why an engine cannot search with these arguments, if it cannot."""
    limit = engine.stored.max_position_embeddings
    if limit and longest > limit:
        return f"a text has {longest} tokens, more than its {limit} positions"
    given = dict(arguments.generate_kwargs)
    try:
        engine.search_settings(given.pop("generation_config", None), given)
    except ValueError as error:
        return str(error).rstrip(".")
    return None


def computes_the_same(engine: "CTranslate2Model", arguments: GenerateArguments, forward: dict[str, Any]) -> bool:
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


def note_key(model: PreTrainedModel, key: str) -> None:
    """Note the key of the conversion of a model's weights as they are now, which need not be computed then."""
    _keys[model] = signature(model), key


def obstacle(model: PreTrainedModel, arguments: GenerateArguments, forward: dict[str, Any]) -> str | None:
    """Why another engine would not compute what the model does, if so."""
    if model.training:
        return "the model is in training mode"
    if forward.get("return_alignments"):
        return "alignments need the attention of the model"
    if arguments.depends_on_order():
        return "some arguments are objects that must see all batches"
    if arguments.get("do_sample"):
        return "its samples would not follow the seed"
    if getattr(model, "hf_device_map", None):
        return "the model is spread over several devices"
    if "generate" in vars(model) or any(map(is_watched, model.modules())):
        return "the model has hooks, or methods of its own"
    if any(type(module).__module__.startswith("peft") for module in model.modules()):
        return "the model has an adapter that is not merged"
    if not (type(model) is VaswaniForConditionalGeneration or type(model).__module__.startswith("transformers.")):
        return f"{type(model).__name__} is not a model of transformers or of this package"
    if getattr(model, "hf_quantizer", None) is not None:
        return "the model is quantized"
    return None


def signature(model: PreTrainedModel) -> list[tuple]:
    """What changes when weights do: where they are, and how often they were written."""
    return [
        (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)
        for tensor in (*model.parameters(), *model.buffers())
    ]


__all__ = ["ENGINES", "Serving", "computes_the_same", "note_key"]

"""The engines that can compute a model in PyTorch's place: each registers itself with one record."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ...engines import ctranslate2_export, ctranslate2_spec
from ...engines.ctranslate2_config import CTranslate2Config
from ...engines.ctranslate2_model import CTranslate2Model
from ...engines.engine_model import EngineModel
from ...engines.onnx import onnx_export
from ...engines.onnx.onnx_config import OnnxConfig
from ...engines.onnx.onnx_model import OnnxModel
from ...generation.fast_model import VaswaniForConditionalGeneration
from .ctranslate2_backend import CTranslate2Backend
from .torch_backend import SearchBackend, TorchBackend


@dataclass(frozen=True)
class BackendRecord:
    """An engine that can compute a model of transformers or of this package in its place.

    Attributes:
        name: what options, the extra that installs it, and the folder of its conversions are called.
        model: the class of its models.
        libraries: what must be installed; the version of the last one decides which conversions can be opened.
        unsupported_features: lists the features of a model that it does not support.
        write: writes a model's weights into an empty folder, with the type of the weights or `None` for float32.
        open: opens such a folder, with the config and the generation config of the model, on a device.
        backend: makes what searches with such a model and its tokenizer.
        searches: whether the search is the engine's own, rather than this package's.
        is_for_cpu: whether it computes on the CPU, regardless of the model's device.
    """

    name: str
    model: type[EngineModel]
    libraries: tuple[str, ...]
    unsupported_features: Callable[[PreTrainedModel], list[str]]
    write: Callable[[PreTrainedModel, Path, str | None], None]
    open: Callable[[Path, PreTrainedConfig, GenerationConfig, str], EngineModel]
    backend: Callable[[EngineModel, PreTrainedTokenizerBase], SearchBackend]
    searches: bool
    is_for_cpu: bool

    @property
    def title(self) -> str:
        """The engine's name, for messages."""
        return self.model.engine_name

    def installation_error(self) -> str | None:
        """The error if the engine is not installed."""
        if all(map(find_spec, self.libraries)):
            return None
        return f'{self.title} is not installed. Install it with: pip install "hf-vaswani[{self.name}]"'


def _open_ctranslate2(
    folder: Path, config: PreTrainedConfig, generation_config: GenerationConfig, device: str
) -> CTranslate2Model:
    stored = CTranslate2Config.from_pretrained(folder)
    return CTranslate2Model(stored, folder, device=device, original=config, generation_config=generation_config)


def _open_onnx(folder: Path, config: PreTrainedConfig, generation_config: GenerationConfig, device: str) -> OnnxModel:
    engine = OnnxModel(OnnxConfig.from_pretrained(folder), folder)
    engine.config, engine.generation_config = config, generation_config
    return engine


def _unsupported_by_onnx(model: PreTrainedModel) -> list[str]:
    if isinstance(model, VaswaniForConditionalGeneration):
        return onnx_export.unsupported_features(model)
    return [f"models of type {model.config.model_type}, only those of this package"]


BACKENDS = {
    record.name: record
    for record in (
        BackendRecord(
            "ctranslate2",
            CTranslate2Model,
            ("ctranslate2",),
            ctranslate2_spec.unsupported_features,
            ctranslate2_export.write_without_tokenizer,
            _open_ctranslate2,
            lambda model, tokenizer: CTranslate2Backend(model),
            searches=True,
            is_for_cpu=False,
        ),
        BackendRecord(
            "onnx",
            OnnxModel,
            ("onnx", "onnxruntime"),
            _unsupported_by_onnx,
            onnx_export.write_without_tokenizer,
            _open_onnx,
            TorchBackend,
            searches=False,
            is_for_cpu=True,
        ),
    )
}


def backend_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> SearchBackend:
    """What searches with a model, whether it is PyTorch's or was exported for an engine."""
    record = next((record for record in BACKENDS.values() if isinstance(model, record.model)), None)
    return record.backend(model, tokenizer) if record else TorchBackend(model, tokenizer)


__all__ = ["BACKENDS", "BackendRecord", "backend_of"]

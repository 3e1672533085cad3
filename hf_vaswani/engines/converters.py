"""The engines that models are converted for behind the pipeline: what each supports, how it is written and opened."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from . import ctranslate2_export, ctranslate2_spec
from .ctranslate2_config import CTranslate2Config
from .ctranslate2_model import CTranslate2Model
from .engine_model import EngineModel
from .onnx import onnx_export
from .onnx.onnx_config import OnnxConfig
from .onnx.onnx_model import OnnxModel


@dataclass(frozen=True)
class Converter:
    """An engine that can compute a model of transformers or of this package in its place.

    Attributes:
        key: what options, the extra that installs it, and the folder of its conversions are called.
        model: the class of its models.
        libraries: what must be installed; the version of the last one decides which conversions can be opened.
        unsupported_features: lists the features of a model that it does not support.
        write: writes a model's weights into an empty folder, with the type of the weights or `None` for float32.
        open: opens such a folder, with the config and the generation config of the model, on a device.
        searches: whether the search is the engine's own, rather than this package's.
        is_for_cpu: whether it computes on the CPU, regardless of the model's device.
    """

    key: str
    model: type[EngineModel]
    libraries: tuple[str, ...]
    unsupported_features: Callable[[PreTrainedModel], list[str]]
    write: Callable[[PreTrainedModel, Path, str | None], None]
    open: Callable[[Path, PreTrainedConfig, GenerationConfig, str], EngineModel]
    searches: bool
    is_for_cpu: bool

    @property
    def name(self) -> str:
        """The engine's name, for messages."""
        return self.model.engine_name

    def installation_error(self) -> str | None:
        """The error if the engine is not installed."""
        if all(map(find_spec, self.libraries)):
            return None
        return f'{self.name} is not installed. Install it with: pip install "hf-vaswani[{self.key}]"'


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


CONVERTERS = {
    converter.key: converter
    for converter in (
        Converter(
            "ctranslate2",
            CTranslate2Model,
            ("ctranslate2",),
            ctranslate2_spec.unsupported_features,
            ctranslate2_export.write_without_tokenizer,
            _open_ctranslate2,
            searches=True,
            is_for_cpu=False,
        ),
        Converter(
            "onnx",
            OnnxModel,
            ("onnx", "onnxruntime"),
            _unsupported_by_onnx,
            onnx_export.write_without_tokenizer,
            _open_onnx,
            searches=False,
            is_for_cpu=True,
        ),
    )
}

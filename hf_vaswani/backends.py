"""The engines that can compute a model in PyTorch's place: what each is called and can do, and where its code is.

An engine is one record (`registration.register_backend`): the options of pipeline and commands, exports, folders that
are loaded as models, cards and messages follow from it. Importing this module imports neither torch nor the engines.
"""

import importlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True, eq=False)
class BackendRecord:
    """An engine that can compute a model of transformers or of this package.

    Code is named as `"module:name"`, a module of this package if it begins with a period, and imported when it is
    needed.

    Attributes:
        name: what options, exports, the extra that installs it, and the folder of its conversions are called.
        title: its name, for messages.
        url: its home page.
        libraries: what must be installed; the version of the last one decides which conversions can be opened.
        backend: makes what searches, from an opened model and its tokenizer: a `SearchBackend`.
        model: the class of opened models, an `EngineModel`.
        config: the class of the config in its folders.
        model_type: the `model_type` of this config.
        open: opens a conversion: `(folder, config, generation_config, device) -> model`.
        convert: writes a model's weights into an empty folder: `(model, folder, quantization)`; `None` is float32.
        export: also writes what the folder needs to be loaded: `(model, tokenizer, folder, quantization)`.
        unsupported_features: lists the features of a model that it does not support.
        quantizations: the types of weights that it can have.
        files: patterns, each of which matches something in a folder of its own.
        files_in_words: what a folder needs, for messages.
        weights: patterns of the files with weights.
        searches: whether the search is the engine's own, rather than this package's.
        has_logits: whether opened models have a forward pass.
        has_position_table: whether texts are limited to `max_position_embeddings` tokens, whatever the positions.
        is_for_cpu: whether it computes on the CPU, regardless of the model's device.
    """

    name: str
    title: str
    url: str
    libraries: tuple[str, ...]
    backend: str
    model: str
    config: str
    model_type: str
    open: str
    convert: str
    export: str
    unsupported_features: str
    quantizations: tuple[str, ...]
    files: tuple[str, ...]
    files_in_words: str
    weights: tuple[str, ...]
    searches: bool
    has_logits: bool
    has_position_table: bool
    is_for_cpu: bool

    def load(self, what: str) -> Any:
        """Import the code of a field: `record.load("open")`."""
        module, name = getattr(self, what).split(":")
        return getattr(importlib.import_module(module, __package__), name)

    def installation_error(self) -> str | None:
        """The error if the engine is not installed."""
        if all(map(find_spec, self.libraries)):
            return None
        return f"{self.title} is not installed. Install it with: {self.installation}"

    @property
    def installation(self) -> str:
        """The command that installs it."""
        return f'pip install "hf-vaswani[{self.name}]"'

    def is_folder(self, folder: Path) -> bool:
        """Whether a folder holds weights for the engine, by its files."""
        return all(any(folder.glob(pattern)) for pattern in self.files)


def backend_title(name: str) -> str:
    """The name of an engine for messages, by what options call it."""
    return BACKENDS[name].title if name in BACKENDS else {"torch": "PyTorch"}.get(name, name)


CTRANSLATE2 = BackendRecord(
    name="ctranslate2",
    title="CTranslate2",
    url="https://github.com/OpenNMT/CTranslate2",
    libraries=("ctranslate2",),
    backend=".translator.backends.ctranslate2_backend:CTranslate2Backend",
    model=".engines.ctranslate2_model:CTranslate2Model",
    config=".engines.ctranslate2_config:CTranslate2Config",
    model_type="vaswani_ctranslate2",
    open=".engines.ctranslate2_model:open_conversion",
    convert=".engines.ctranslate2_export:convert",
    export=".engines.ctranslate2_export:export",
    unsupported_features=".engines.ctranslate2_spec:unsupported_features",
    quantizations=(
        "int8",
        "int8_float32",
        "int8_float16",
        "int8_bfloat16",
        "int16",
        "float16",
        "bfloat16",
        "float32",
    ),  # fmt: skip
    files=("model.bin", "*_vocabulary.json"),
    files_in_words="model.bin and shared_vocabulary.json (or source_… and target_vocabulary.json)",
    weights=("model.bin",),
    searches=True,
    has_logits=False,
    has_position_table=True,
    is_for_cpu=False,
)
ONNX = BackendRecord(
    name="onnx",
    title="ONNX Runtime",
    url="https://onnxruntime.ai",
    libraries=("onnx", "onnxruntime"),
    backend=".translator.backends.torch_backend:TorchBackend",
    model=".engines.onnx.onnx_model:OnnxModel",
    config=".engines.onnx.onnx_config:OnnxConfig",
    model_type="vaswani_onnx",
    open=".engines.onnx.onnx_model:open_conversion",
    convert=".engines.onnx.onnx_export:convert",
    export=".engines.onnx.onnx_export:export",
    unsupported_features=".engines.onnx.onnx_export:unsupported_features",
    quantizations=("int8", "float32"),
    files=("onnx/encoder_model*.onnx", "onnx/decoder_model_merged*.onnx"),
    files_in_words="encoder_model.onnx and decoder_model_merged.onnx in the subfolder onnx",
    weights=("onnx/*.onnx", "onnx/*.onnx_data"),
    searches=False,
    has_logits=True,
    has_position_table=False,
    is_for_cpu=True,
)
# By name.
BACKENDS = {record.name: record for record in (CTRANSLATE2, ONNX)}

__all__ = ["BACKENDS", "BackendRecord", "backend_title"]

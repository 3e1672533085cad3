"""Recognizes folders with models for other engines or with web pages, and measures their weights."""

from pathlib import Path

from ..models.model_files import model_kind
from . import ctranslate2_config
from .onnx import onnx_config

# The files of a web page that its script and browsers read first.
PAGE_FILE, INDEX_FILE = "page.json", "index.html"
# The weight files of transformers, CTranslate2, ONNX, and web pages.
WEIGHT_FILES = (
    "*.safetensors", "pytorch_model*.bin", "model.bin", "onnx/*.onnx", "onnx/*.onnx_data", "model/onnx/*.onnx",
)  # fmt: skip


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds the weights of an engine whose models this package can open.

    Raises:
        InputError: the folder has ONNX graphs, but its config is damaged.
    """
    if onnx_config.stored_quantization(folder) is not None:
        # transformers.js folders have graphs with the same names.
        return model_kind(folder) == onnx_config.MODEL_TYPE
    return ctranslate2_config.is_engine_folder(folder)


def is_exported(folder: Path) -> bool:
    """Whether a folder holds the weights of any engine, including transformers.js."""
    return onnx_config.stored_quantization(folder) is not None or ctranslate2_config.is_engine_folder(folder)


def is_page(folder: Path) -> bool:
    """Whether a folder holds a web page with a model."""
    return (folder / PAGE_FILE).is_file() and (folder / INDEX_FILE).is_file()


def weights_size(folder: Path) -> int:
    """The total size in bytes of a folder's weight files, regardless of the engine."""
    return sum(path.stat().st_size for pattern in WEIGHT_FILES for path in folder.glob(pattern))

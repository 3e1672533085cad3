"""Which folders hold models for other engines or web pages, and how large their weights are."""

from pathlib import Path

from ..interop.model_files import model_kind
from . import ctranslate2_config, onnx_config

# Of a web page: what its script reads first, and what browsers do.
PAGE_FILE, INDEX_FILE = "page.json", "index.html"
# Of transformers, CTranslate2, ONNX, and web pages.
WEIGHT_FILES = (
    "*.safetensors",
    "pytorch_model*.bin",
    "model.bin",
    "onnx/*.onnx",
    "onnx/*.onnx_data",
    "model/onnx/*.onnx",
)


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds weights of an engine whose models this package opens.

    Raises:
        InputError: where it has graphs of ONNX, but its config is damaged.
    """
    if onnx_config.stored_quantization(folder) is not None:
        # Folders of transformers.js have graphs of the same names.
        return model_kind(folder) == onnx_config.MODEL_TYPE
    return ctranslate2_config.is_engine_folder(folder)


def is_exported(folder: Path) -> bool:
    """Whether a folder holds weights of any engine, transformers.js included."""
    return onnx_config.stored_quantization(folder) is not None or ctranslate2_config.is_engine_folder(folder)


def is_page(folder: Path) -> bool:
    """Whether a folder holds a web page with a model."""
    return (folder / PAGE_FILE).is_file() and (folder / INDEX_FILE).is_file()


def weights_size(folder: Path) -> int:
    """Bytes of the files with the weights of a folder's model, whatever computes it."""
    return sum(path.stat().st_size for pattern in WEIGHT_FILES for path in folder.glob(pattern))


__all__ = ["is_engine_folder", "is_exported", "is_page", "weights_size"]

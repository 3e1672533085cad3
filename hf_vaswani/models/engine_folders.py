"""Recognizes folders with models for other engines or with web pages, and measures their weights."""

from pathlib import Path

from ..backends import BACKENDS
from .model_files import model_kind

# The files of a web page that its script and browsers read first.
PAGE_FILE, INDEX_FILE = "page.json", "index.html"


def weight_patterns() -> list[str]:
    """Patterns of the weight files of transformers, of all engines, and of web pages."""
    engines = [pattern for record in BACKENDS.values() for pattern in record.weights]
    return ["*.safetensors", "pytorch_model*.bin", *engines, "model/onnx/*.onnx"]


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds the weights of an engine whose models this package can open.

    Raises:
        InputError: the folder has such weights, but its config is damaged.
    """
    # transformers.js has graphs with the same names as ONNX Runtime.
    return any(record.is_folder(folder) and model_kind(folder) == record.model_type for record in BACKENDS.values())


def is_exported(folder: Path) -> bool:
    """Whether a folder holds the weights of any engine, including transformers.js."""
    return any(record.is_folder(folder) for record in BACKENDS.values())


def is_page(folder: Path) -> bool:
    """Whether a folder holds a web page with a model."""
    return (folder / PAGE_FILE).is_file() and (folder / INDEX_FILE).is_file()


def weights_size(folder: Path) -> int:
    """The total size in bytes of a folder's weight files, regardless of the engine."""
    return sum(path.stat().st_size for pattern in weight_patterns() for path in folder.glob(pattern))

"""Which folders hold models for other engines."""

from pathlib import Path

from ..interop.model_files import model_kind
from . import ctranslate2_config, onnx_config


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds weights of an engine whose models this package opens.

    Raises:
        InputError: where it has graphs of ONNX, but its config is damaged.
    """
    if onnx_config.stored_quantization(folder) is not None:
        # Folders of transformers.js have graphs of the same names.
        return model_kind(folder) == onnx_config.MODEL_TYPE
    return ctranslate2_config.is_engine_folder(folder)


__all__ = ["is_engine_folder"]

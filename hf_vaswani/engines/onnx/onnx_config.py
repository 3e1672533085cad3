"""The config of an ONNX model, as transformers reads it from the folder's `config.json`, and the folder's files."""

from pathlib import Path

from ...backends import ONNX
from ...core.configuration_vaswani import VaswaniConfig
from ...errors import InputError

MODEL_TYPE = ONNX.model_type
GRAPH_FOLDER = "onnx"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
# Suffixes of the file names by weight type, as in Optimum and transformers.js.
SUFFIXES = {"float32": "", "int8": "_quantized"}


class OnnxConfig(VaswaniConfig):
    """The architecture of the exported model.

    `weights_digest` is the SHA-256 of its weights, and `num_weights` is their number.
    """

    model_type = MODEL_TYPE

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        # The folder contains no code.
        del self.auto_map

    def to_dict(self) -> dict:
        return {name: value for name, value in super().to_dict().items() if name != "custom_pipelines"}


def checked_quantization(quantization: str | None) -> str:
    """The weight type of a graph, by default float32; raises an `InputError` for an unknown one."""
    if quantization not in (None, *SUFFIXES):
        raise InputError(f"quantization must be one of {', '.join(SUFFIXES)}, got {quantization!r}.")
    return quantization or "float32"


def graph_file(folder: Path, name: str, quantization: str) -> Path:
    """The path of the encoder's or decoder's graph in a folder."""
    return folder / GRAPH_FOLDER / f"{name}{SUFFIXES[quantization]}.onnx"


def stored_quantization(folder: Path) -> str | None:
    """The weight type for which a folder has both graphs; `None` if it has no such pair."""
    pairs = {kind: [graph_file(folder, name, kind) for name in (ENCODER, DECODER)] for kind in SUFFIXES}
    return next((kind for kind, pair in pairs.items() if all(path.exists() for path in pair)), None)

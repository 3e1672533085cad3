"""The config of a model in ONNX, as transformers reads it from the folder's `config.json`, and the folder's files."""

from pathlib import Path

from ..core.configuration_vaswani import VaswaniConfig

MODEL_TYPE = "vaswani_onnx"
GRAPH_FOLDER = "onnx"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
# What the names of files end with, as in Optimum and transformers.js, by the type of their weights.
SUFFIXES = {"float32": "", "int8": "_quantized"}


class OnnxConfig(VaswaniConfig):
    """The architecture of the model that was exported.

    `weights_digest` is the SHA-256 of its weights, `num_weights` their number.
    """

    model_type = MODEL_TYPE

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        # No code travels with the folder.
        del self.auto_map

    def to_dict(self) -> dict:
        return {name: value for name, value in super().to_dict().items() if name != "custom_pipelines"}


def graph_file(folder: Path, name: str, quantization: str) -> Path:
    """Where encoder or decoder are in a folder."""
    return folder / GRAPH_FOLDER / f"{name}{SUFFIXES[quantization]}.onnx"


def stored_quantization(folder: Path) -> str | None:
    """The type of weights of which a folder has both graphs; `None` where it has not."""
    for quantization in SUFFIXES:
        if all(graph_file(folder, name, quantization).exists() for name in (ENCODER, DECODER)):
            return quantization
    return None


__all__ = ["OnnxConfig"]

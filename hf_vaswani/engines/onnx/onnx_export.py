"""Exports models to ONNX, to be run by ONNX Runtime on any of its platforms.

The folder has Optimum's layout, with one exception: large weights are in a file next to the graphs, so that weights
that encoder and decoder share are stored once. It also holds the tokenizer, the generation config, and the config that
`onnx_model.py` needs to read it.
"""

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...core.modeling_vaswani import VaswaniForConditionalGeneration
from ...data.tokenizers.tokenizer import save_tokenizer
from ...errors import InputError
from ...interop.conversion import unexportable_features
from ...runtime.imports import import_extra
from ..engine_model import weights_digest
from .graph_layers import ACTIVATIONS, make_decoder, make_encoder
from .onnx_config import DECODER, ENCODER, SUFFIXES, OnnxConfig, checked_quantization, graph_file

# The size in bytes from which a weight is stored next to the graphs.
LARGE = 1024
ALIGNMENT = 64
CODE_FIELDS = ("auto_map", "architectures", "model_type", "transformers_version")


def export(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write a folder that this package can open.

    Args:
        model: a model without any [`unsupported_features`] features; it is not modified.
        folder: an empty folder.
        quantization: `"int8"`, or `None` for float32.

    Raises:
        InputError: `onnx` is not installed, the model cannot be expressed in it, or `quantization` is unknown.
    """
    if features := unsupported_features(model):
        raise InputError.of([f"ONNX cannot represent {feature}." for feature in features])
    convert(model, folder, quantization)
    model.generation_config.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def convert(model: VaswaniForConditionalGeneration, folder: Path, quantization: str | None = None) -> None:
    """Write the graphs and the config; arguments as in [`export`]."""
    quantization = checked_quantization(quantization)
    write_together(
        {
            graph_file(folder, ENCODER, quantization): make_encoder(model, quantization),
            graph_file(folder, DECODER, quantization): make_decoder(model, quantization),
        },
        f"model{SUFFIXES[quantization]}.onnx_data",
    )
    fields = {name: value for name, value in model.config.to_dict().items() if name not in CODE_FIELDS}
    fields |= {"weights_digest": weights_digest(model), "num_weights": model.num_parameters()}
    OnnxConfig.from_dict({**fields, "architectures": ["OnnxModel"]}).save_pretrained(folder)


def missing_operators(model: VaswaniForConditionalGeneration) -> list[str]:
    """List the features of a model that cannot be written as a graph."""
    config = model.config
    checks = {
        **unexportable_features(model),
        f'activation_function="{config.activation_function}"': config.activation_function not in ACTIVATIONS,
        "no eos_token_id": config.eos_token_id is None,
    }
    return [feature for feature, applies in checks.items() if applies]


def unsupported_features(model: PreTrainedModel) -> list[str]:
    """The same for a model of any family."""
    if isinstance(model, VaswaniForConditionalGeneration):
        return missing_operators(model)
    return [f"models of type {model.config.model_type}, only models of this package"]


def write_together(models: dict[Path, Any], data_name: str) -> None:
    """Write models to their paths in one folder, with their large weights in a single shared file."""
    import_extra("onnx")
    from onnx.external_data_helper import set_external_data

    offsets: dict[bytes, int] = {}
    folder = next(iter(models)).parent
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / data_name, "wb") as file:
        for tensor in (tensor for model in models.values() for tensor in model.graph.initializer):
            content = tensor.raw_data
            if len(content) < LARGE:
                continue
            if content not in offsets:
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                offsets[content] = file.tell()
                file.write(content)
            set_external_data(tensor, data_name, offsets[content], len(content))
            tensor.ClearField("raw_data")
    for path, model in models.items():
        path.write_bytes(model.SerializeToString())

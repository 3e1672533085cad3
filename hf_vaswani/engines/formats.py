"""The formats that models can be exported to, and how each is written and opened."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import MarianMTModel, PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from ..backends import BACKENDS, BackendRecord
from ..core.modeling_vaswani import VaswaniForConditionalGeneration as Model
from ..errors import InputError
from ..interop.marian import write_marian
from . import transformers_js_export, web_page
from .differences import BEAMS
from .onnx.onnx_model import OnnxModel


@dataclass(frozen=True)
class Format:
    """An export format.

    Attributes:
        engine: the engine that reads it, for messages.
        write: takes a model, its tokenizer, an empty folder, and the weight type or `None` for float32.
        open: takes a folder that was written and the original model, and returns a model of the engine that has
            `generate()`.
        num_beams: the beam size of the search whose output is compared with the model's.
        has_logits: whether the opened model has a forward pass, whose logits are compared too.
        keeps_dtype: whether 16-bit weights are written unchanged.
        has_position_table: whether texts are limited to `max_position_embeddings` tokens, whatever the positions.
        quantization: the default weight type; `None` for float32.
    """

    engine: str
    write: Callable[[Model, Tokenizer, Path, str | None], None]
    open: Callable[[Path, Model], PreTrainedModel]
    num_beams: int = BEAMS
    has_logits: bool = True
    keeps_dtype: bool = False
    has_position_table: bool = False
    quantization: str | None = None


def _write_marian(model: Model, tokenizer: Tokenizer, folder: Path, quantization: str | None = None) -> None:
    if quantization is not None:
        raise InputError(f"The marian format keeps the weights; quantization must not be set, got {quantization!r}.")
    write_marian(model, tokenizer, folder)


def formats() -> dict[str, Format]:
    """The formats by name: MarianMT, those of registered engines, and pages."""
    return {
        "marian": Format(
            "MarianMT",
            _write_marian,
            lambda folder, model: MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval(),
            keeps_dtype=True,
            has_position_table=True,
        ),
        **{name: _engine_format(record) for name, record in BACKENDS.items()},
        # The config in the folder says that the model is a Marian, so the model's own config is used.
        "transformers.js": Format(
            "transformers.js", transformers_js_export.write, lambda folder, model: OnnxModel(model.config, folder), 1
        ),
        # Only the model: `web_page.py` adds the page.
        "web": Format(
            "a web page",
            web_page.write_model,
            lambda folder, model: OnnxModel(model.config, folder / web_page.MODEL_FOLDER),
            1,
            quantization=web_page.QUANTIZATION,
        ),
    }


def _engine_format(record: BackendRecord) -> Format:
    return Format(
        record.title,
        record.load("export"),
        lambda folder, model: record.load("model").from_pretrained(folder),
        has_logits=record.has_logits,
        has_position_table=record.has_position_table,
    )

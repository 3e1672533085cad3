"""Writes the model of a web page: a transformers.js folder, plus what the page's own search needs.

transformers.js's pipeline does not return attention weights, runs a batch until its last sentence is done, and loads
twice as much code. So the page (`web/worker.js`) runs the graphs itself, with the tokenizer and the runtime of
transformers.js. To show which words correspond, the decoder has an additional output, the alignment, at hardly any
cost in size or time; a separate graph for it would compute the whole decoder again.
"""

import json
from pathlib import Path

from transformers import PreTrainedTokenizerBase
from transformers.utils import CONFIG_NAME, GENERATION_CONFIG_NAME

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..files import read_json
from . import transformers_js_export

MODEL_FOLDER = "model"
QUANTIZATION = "int8"
OFFSET = "max_length_offset"
# The widths of keys and values, which are set only if they are not d_model / heads.
WIDTHS = ("d_k", "d_v")


def write(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write `model/` in the folder of a page; arguments and errors are those of `transformers_js_export`.

    By default, the weights are int8.
    """
    target = folder / MODEL_FOLDER
    transformers_js_export.write(model, tokenizer, target, quantization or QUANTIZATION, with_alignment=True)
    widths = {name: getattr(model.config, name) for name in WIDTHS}
    _add(target / CONFIG_NAME, widths)
    _add(target / GENERATION_CONFIG_NAME, {OFFSET: model.longest_output_offset})


def _add(path: Path, fields: dict[str, int | None]) -> None:
    """Add the fields that have a value to a JSON file."""
    fields = {name: value for name, value in fields.items() if value is not None}
    path.write_text(json.dumps({**read_json(path), **fields}, indent=2) + "\n", encoding="utf-8")


__all__ = ["MODEL_FOLDER", "QUANTIZATION", "write"]

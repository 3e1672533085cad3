"""Writes the model of a web page: a folder of transformers.js, with what the page's own search needs besides.

transformers.js's pipeline gives no attention, runs a batch until its last sentence is done, and loads twice as much
code. So the page (`web/worker.js`) runs the graphs itself, with the tokenizer and the runtime of transformers.js. For
the words that belong together the decoder has one more output, the alignment, at hardly any cost in size or time: a
graph of its own for it would compute the whole decoder again.
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
# Of keys and values, where they are not what the heads share out.
WIDTHS = ("d_k", "d_v")


def write(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write `model/` in the folder of a page; arguments and errors as in `transformers_js_export`."""
    target = folder / MODEL_FOLDER
    transformers_js_export.write(model, tokenizer, target, quantization or QUANTIZATION, with_alignment=True)
    widths = {name: getattr(model.config, name) for name in WIDTHS}
    _add(target / CONFIG_NAME, widths)
    _add(target / GENERATION_CONFIG_NAME, {OFFSET: model.longest_output_offset})


def _add(path: Path, fields: dict[str, int | None]) -> None:
    """Add to a file of JSON those fields that have a value."""
    fields = {name: value for name, value in fields.items() if value is not None}
    path.write_text(json.dumps({**read_json(path), **fields}, indent=2) + "\n", encoding="utf-8")


__all__ = ["MODEL_FOLDER", "QUANTIZATION", "write"]

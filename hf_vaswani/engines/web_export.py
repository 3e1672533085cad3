"""Writes the model of a web page: a folder of transformers.js, with what the page's own search needs besides.

transformers.js's pipeline gives no attention, runs a batch until its last sentence is done, and loads twice as much
code. So the page (`web/worker.js`) runs the graphs itself, with the tokenizer and the runtime of transformers.js. For
the words that belong together the decoder has one more output, the alignment, at hardly any cost in size or time: a
graph of its own for it would compute the whole decoder again.
"""

import json
from pathlib import Path

from transformers import PreTrainedTokenizerBase
from transformers.utils import GENERATION_CONFIG_NAME

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..files import read_json
from . import transformers_js_export

MODEL_FOLDER = "model"
QUANTIZATION = "int8"
OFFSET = "max_length_offset"


def write(
    model: VaswaniForConditionalGeneration,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Write `model/` in the folder of a page; arguments and errors as in `transformers_js_export`."""
    target = folder / MODEL_FOLDER
    transformers_js_export.write(model, tokenizer, target, quantization or QUANTIZATION, with_alignment=True)
    offset = model.longest_output_offset
    if offset is not None:
        path = target / GENERATION_CONFIG_NAME
        path.write_text(json.dumps({**read_json(path), OFFSET: offset}, indent=2) + "\n", encoding="utf-8")


__all__ = ["MODEL_FOLDER", "QUANTIZATION", "write"]

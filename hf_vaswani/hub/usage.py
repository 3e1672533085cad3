"""The Python code that translates with a model, as its card and the end of its training show it."""

import json

CODE = """\
import hf_vaswani
from transformers import pipeline

translator = pipeline("translation", model={model})
print(translator({text})[0]["translation_text"])"""


def usage_code(model: str, text: str) -> str:
    """Code that prints the translation of a text.

    Args:
        model: folder or Hub id.
    """
    return CODE.format(model=_quoted(model), text=_quoted(text))


def _quoted(text: str) -> str:
    """Text as it stands in Python code."""
    return json.dumps(text, ensure_ascii=False)

"""The Python code that translates with a model, shown on its card and at the end of its run."""

import json
import re

# What JSON does not escape but a reader of code cannot see, or sees in another order: control characters, line ends
# and direction marks; and surrogates, which no file can hold.
UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

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
    return CODE.format(model=quoted(model), text=quoted(text))


def quoted(text: str) -> str:
    """Text as a string literal of Python and of JavaScript."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))

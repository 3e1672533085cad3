"""The Python code that translates with a model, as its card and the end of its run show it."""

import json
import re

# What JSON leaves as it is and a reader of code cannot see, or sees in another order: control characters, line ends,
# marks of writing direction; and surrogates, which no file holds.
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
    """Text as it stands in Python code, and in JavaScript."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))

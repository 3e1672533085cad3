"""What the translation pipeline returns for each translation of a text.

The file travels with each checkpoint as remote code and therefore imports nothing but torch.
"""

from typing import TypedDict

import torch


class Hypothesis(TypedDict, total=False):
    """One translation of a text, in the form of transformers 4's pipeline, with the keys that were requested."""

    translation_text: str
    translation_token_ids: torch.LongTensor
    score: float
    alignment: list[tuple[int, int]]
    source_tokens: list[str]
    target_tokens: list[str]


__all__ = ["Hypothesis"]

"""Text becomes translations here, and nowhere else.

`pipeline.py` is the interface to transformers. `translator.py` runs the steps in `steps` around a search; `search.py`
forms its batches, and `backends` compute them. `chain.py` makes one translator of two. The rest builds on these: lines
and documents (`lines.py`, `documents.py`), scores and alignments of given pairs (`pairs.py`), reranking, and minimum
Bayes risk decoding.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch_translator import BatchTranslator

__all__ = ["BatchTranslator"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .batch_translator import BatchTranslator

    return BatchTranslator

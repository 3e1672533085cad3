"""The one room in which text becomes translations.

`pipeline.py` is its face toward transformers; `translator.py` runs the steps in `steps` around a search, whose batches
`search.py` forms, and what is in `backends` computes. The rest uses them: lines and documents (`lines.py`,
`documents.py`), scores and alignments of given pairs (`pairs.py`), reranking, and minimum Bayes risk decoding.
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

"""Translating with a trained model: texts, files, several models together, and scores of given pairs.

`load` opens a model with its tokenizer, `ensemble` makes one model of several. All translation goes through the engine
of `core/pipeline_engine.py`: `translate` hands it a list of texts, `lines` the windows of a file or stream (`windows`)
for an output that can be resumed (`resumable_output`), `mbr` ranks the candidates that it gives by their `utility`.
`pair_scores` scores translations that are given. `batch_translator` translates a column of batches, and `shards` a
folder of files on Ray, both with what `translator_settings` opens in each process.
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

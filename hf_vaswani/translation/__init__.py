"""Translates with trained models: texts, files, ensembles of models, and scores of given translations.

`load` opens a model with its tokenizer, and `ensemble` combines several models into one. All translation goes through
the engine of `pipeline/engine.py`: `translate` hands it a list of texts; `lines` hands it the windows of a file
or stream (`windows`), for an output that can be resumed (`resumable_output`); `mbr` ranks the candidates that it
returns by their `utility`. `pair_scores` scores given translations; `reranking` sorts those of a beam by them.
`batch_translator` translates a column of each batch, and `shards` a folder of files on Ray; both open a translator in
each process from `translator_settings`.
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

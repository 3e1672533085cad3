"""What the translation engine says of its sources. Imported where warnings are requested."""

from collections.abc import Sequence
from typing import Any

from ..text.languages import own_languages
from ..text.source_warnings import source_warnings
from .segments import Result, Segment


def add_source_warnings(
    engine: Any, texts: Sequence[str], segments: Sequence[Segment], results: Sequence[Result]
) -> None:
    """Add to the warnings of translations what makes it doubtful that their sources can be translated.

    Args:
        engine: a [`TranslationEngine`].
        texts: the sources, without what is to be kept.
        segments: their pieces, as they were encoded.
    """
    tokenizer = engine.pipeline.tokenizer
    language = engine.preprocess.get("src_lang") or own_languages(engine.pipeline.model.config, tokenizer)[0]
    encoded = ((segment.owner, segment.inputs["input_ids"]) for segment in segments if segment.inputs)
    unknown = {owner for owner, ids in encoded if tokenizer.unk_token_id in ids}
    for warnings, result in zip(source_warnings(texts, tokenizer, language, unknown), results):
        for hypothesis in result if isinstance(result, list) and warnings else ():
            hypothesis["warning"] = "; ".join([*warnings, *filter(None, [hypothesis.get("warning")])])


__all__ = ["add_source_warnings"]

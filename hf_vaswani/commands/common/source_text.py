"""Warns of text that a model was not made for: another language, unknown characters, a wrong encoding."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.sources.sides import SAMPLE, language_warning
from ...data.sources.text_files import iterate_lines
from ...text.languages import own_languages, unmarked_warning
from ...text.mojibake import mojibake_warning
from ...text.normalization import clean, normalized
from .options import with_option_names


def first_lines(path: str | None) -> list[str]:
    """A sample of a file; empty for a stream, which can be read only once."""
    return list(islice(iterate_lines(path, lambda *_: None), SAMPLE)) if path and Path(path).is_file() else []


def source_warnings(
    name: str, texts: Sequence[str], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> list[str]:
    """Warnings about sources.

    Args:
        name: what the texts are called.
        texts: all of them, or a sample.
    """
    warnings = (
        language_warning(name, texts, *own_languages(model.config, tokenizer)),
        mojibake_warning(name, texts),
        _unknown_warning(name, texts, tokenizer),
    )
    return [warning for warning in warnings if warning]


def file_warnings(
    path: str | None, target_language: str | None, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> list[str]:
    """Warnings about the first lines of a file of sources, and if a target language must be chosen for them."""
    texts = first_lines(path)
    warnings = source_warnings(str(path), texts, model, tokenizer)
    if unmarked := unmarked_warning(tokenizer, texts, target_language):
        warnings.append(f"warning: {with_option_names(unmarked)}")
    return warnings


def _unknown_warning(name: str, texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> str | None:
    texts = [normalized(clean(text), tokenizer) for text in texts]
    rows = tokenizer(texts, verbose=False)["input_ids"] if texts else []
    if not (count := sum(tokenizer.unk_token_id in row for row in rows)):
        return None
    return (
        f"warning: {count:,} of {len(texts):,} lines of {name} have characters or words that the model's vocabulary "
        "lacks. It cannot translate them."
    )

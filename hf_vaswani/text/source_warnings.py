"""Reasons to doubt that a model can translate a text, or has translated it well, judging by the texts alone."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.tokenization_vaswani import FOLDS_CAPITALS, fold_capitals
from .inputs import looks_like_mojibake
from .language_evidence import other_language
from .markers import has_keep_tokens
from .normalization import clean, normalized

if TYPE_CHECKING:  # importing it takes seconds
    from transformers import PreTrainedTokenizerBase

SHOWN_WORDS = 3
# How many times shorter or longer than expected a translation may be, with a margin in bytes for short texts.
USUAL_FACTOR, ANY_FACTOR, MARGIN = 2.5, 6, 10
LOOP_LENGTH, LOOP_COUNT = 10, 4


def source_warnings(
    texts: Sequence[str],
    tokenizer: "PreTrainedTokenizerBase",
    language: str | None = None,
    unknown: Collection[int] | None = None,
) -> list[list[str]]:
    """Warnings about texts to be translated, for each an empty list if there is nothing to say.

    A text of some words takes a fraction of a millisecond.

    Args:
        tokenizer: the model's tokenizer.
        language: the code of the source language, if it is known.
        unknown: the positions of the texts that have unknown tokens; by default, the texts are encoded to see.
    """
    if unknown is None:
        texts = [normalized(clean(text), tokenizer) for text in texts]
        unknown = {number for number, has_some in enumerate(have_unknown(texts, tokenizer)) if has_some}
    words = (_unknown_words(text, tokenizer) if number in unknown else [] for number, text in enumerate(texts))
    return [
        [f"the source {warning}" for warning in (*_warnings(text, tokenizer, language), words and _of_unknown(words))
         if warning]
        for text, words in zip(texts, words)
    ]  # fmt: skip


def translation_warning(source: str, translation: str, ratio: float | None = None) -> str | None:
    """What is suspicious about a translation, or `None`.

    Args:
        ratio: the usual length of a translation divided by its source's, both in UTF-8, if known.
    """
    if not translation.strip() and any(map(str.isalpha, source)):
        return "is empty"
    expected, length = len(source.encode()) * (ratio or 1), len(translation.encode())
    factor = USUAL_FACTOR if ratio else ANY_FACTOR
    if length * factor + MARGIN < expected:
        return "far shorter than usual"
    if length > expected * factor + MARGIN:
        return "far longer than usual"
    repeated = _most_repeated(translation)
    # Twice as often as the source: a loop, rather than a translated repetition.
    if repeated >= LOOP_COUNT and repeated > 2 * _most_repeated(source):
        return "repeats itself"
    return None


def _most_repeated(text: str) -> int:
    """How often the most frequent sequence of ten characters occurs."""
    sequences = (text[start : start + LOOP_LENGTH] for start in range(len(text) - LOOP_LENGTH + 1))
    return max(Counter(sequences).values(), default=0)


def keep_warning(tokenizer: "PreTrainedTokenizerBase", keep: Iterable[str]) -> str | None:
    """A warning if a model has not learned placeholders for what is to be kept.

    Args:
        tokenizer: the model's tokenizer.
        keep: names of kinds, or regular expressions.
    """
    if not list(keep) or has_keep_tokens(tokenizer):
        return None
    return (
        "The model has not learned to keep placeholders (augmentation.placeholders): sentences are translated without "
        "what is to be kept, which is then put between the same words."
    )


def have_unknown(texts: Sequence[str], tokenizer: "PreTrainedTokenizerBase") -> list[bool]:
    """Whether each text has something in it that the tokenizer cannot encode."""
    rows = tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
    return [tokenizer.unk_token_id in row for row in rows]


def _unknown_words(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[str]:
    """The words of a text that have something in them that the tokenizer cannot encode: all if none has by itself."""
    words = list(dict.fromkeys(text.split()))
    found = [word for word, is_unknown in zip(words, have_unknown(words, tokenizer)) if is_unknown]
    return found or (words if have_unknown([text], tokenizer)[0] else [])


def _of_unknown(words: Sequence[str]) -> str:
    rest = f" and {len(words) - SHOWN_WORDS} more" if len(words) > SHOWN_WORDS else ""
    shown = ", ".join(word if len(word) <= 40 else f"{word[:40]}…" for word in words[:SHOWN_WORDS])
    return f"has characters or words that the model's vocabulary lacks: {shown}{rest}"


def _warnings(text: str, tokenizer: "PreTrainedTokenizerBase", language: str | None) -> list[str | None]:
    other = other_language(text, language) if language else None
    return [
        f"looks like {other}, not like {language}" if other else None,
        "looks like UTF-8 that was read as Latin-1" if looks_like_mojibake(text) else None,
        "is in capitals, which the model knows less well" if _is_in_capitals(text, tokenizer) else None,
    ]


def _is_in_capitals(text: str, tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether a text of several words has only capitals, which the tokenizer does not read as lower case."""
    lowered = fold_capitals(text)
    if lowered == text or tokenizer.init_kwargs.get(FOLDS_CAPITALS):
        return False
    rows = tokenizer([text, lowered], verbose=False)["input_ids"]
    return rows[0] != rows[1]

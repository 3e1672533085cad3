"""Reasons to doubt that a model can translate a text, judging by the text itself and the tokenizer."""

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
# What a kind of text to be kept looks like.
KEPT_SAMPLES = {
    "code": "`a_b`", "url": "https://www.example.com/a?b=1", "email": "a.b@example.com", "placeholder": "{a} %1$s",
    "emoji": "😀", "number": "1.5 km 20 % 3 €",
}  # fmt: skip


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


def keep_warning(tokenizer: "PreTrainedTokenizerBase", keep: Iterable[str]) -> str | None:
    """A warning if a model may lose what is to be kept in its translations, since it has not learned placeholders.

    Args:
        tokenizer: the model's tokenizer.
        keep: names of kinds, or regular expressions.
    """
    kinds = list(keep)
    if not kinds or has_keep_tokens(tokenizer):
        return None
    samples = {kind: KEPT_SAMPLES[kind] for kind in kinds if kind in KEPT_SAMPLES}
    lacking = [kind for kind, unknown in zip(samples, have_unknown(list(samples.values()), tokenizer)) if unknown]
    spelled = f", and its vocabulary lacks characters of {', '.join(lacking)}" if lacking else ""
    return (
        "The model has not learned to keep placeholders (augmentation.placeholders)"
        f"{spelled}: translations may lose or move what is to be kept."
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

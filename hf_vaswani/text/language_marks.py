"""The marks that texts begin with: of the language to translate into, `>>fr<<`, and tags, `<bt>`."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import InputError
from .languages import LanguagePair, check_pair, examples, group_languages, group_prefix

if TYPE_CHECKING:  # importing it takes seconds
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# What a text begins with to name its target language itself.
GROUP_MARK = re.compile(r">>(\S+?)<<\s*")
LEADING_MARKS = re.compile(r">>\S+?<<\s*(<[\w-]+>\s*)?")


def own_mark(tokenizer: "PreTrainedTokenizerBase", text: str) -> str | None:
    """The target language that a text names itself, for a model with several; `None` if it names none."""
    if not GROUP_MARK.match(text):
        return None
    from ..core.tokenization_vaswani import leading_marks  # importing it takes seconds

    mark = GROUP_MARK.match(leading_marks(tokenizer, text))
    return mark.group(1) if mark else None


def mark_target(
    tokenizer: "PreTrainedTokenizerBase", texts: Iterable[str], language: str | None, prefix: str = ""
) -> list[str]:
    """Texts as a model reads them: with the prefix of its task, or else with [`group_prefix`] where they have none."""
    if prefix:
        return [prefix + text for text in texts]
    mark = group_prefix(tokenizer, language)
    return [mark + text if mark and own_mark(tokenizer, text) is None else text for text in texts]


def without_mark(text: str) -> str:
    """A text without the marks that it begins with: of its target language, and tags."""
    mark = LEADING_MARKS.match(text)
    return text[mark.end() :] if mark else text


def check_own_marks(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    texts: Iterable[str],
    source: str | None,
    zero_shot: bool = False,
) -> None:
    """Refuse texts that name a language themselves into which a model was not trained to translate their own.

    Raises:
        ValueError: there are such texts.
    """
    if pairs := getattr(model.config, "language_pairs", None):
        for code in dict.fromkeys(own_mark(tokenizer, text) for text in texts):
            check_pair((source, code), pairs, zero_shot=zero_shot)


def check_target(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Iterable[str], language: str | None
) -> str | None:
    """The [`unmarked_warning`] of texts, if any.

    Raises:
        InputError: there is one, and the model is of this package, which never saw such texts.
    """
    warning = unmarked_warning(tokenizer, texts, language)
    if warning and getattr(model.config, "language_pairs", None):
        raise InputError(warning)
    return warning


def marked_sources(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    texts: Sequence[str],
    languages: LanguagePair,
    prefix: str = "",
) -> list[str]:
    """Texts as [`mark_target`] returns them; errors as in [`check_target`]."""
    check_target(model, tokenizer, texts, languages[1])
    return mark_target(tokenizer, texts, languages[1], prefix)


def unmarked_warning(
    tokenizer: "PreTrainedTokenizerBase", texts: Iterable[str], language: str | None = None
) -> str | None:
    """A warning if a model for several target languages is given texts, but not the language to translate into."""
    codes = group_languages(tokenizer)
    if language or len(codes) < 2 or all(own_mark(tokenizer, text) for text in texts):
        return None
    return (
        f"This model translates into several languages: {examples(codes)}. Choose one with tgt_lang, or begin each "
        f"text with its mark, such as >>{codes[0]}<<."
    )

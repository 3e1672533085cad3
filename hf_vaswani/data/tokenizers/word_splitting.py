"""Splits text into words, for vocabularies of whole words.

Words end at spaces and punctuation; the ends that have no space are marked.
"""

from tokenizers import Regex, normalizers, pre_tokenizers

JOINER = "￭"
PUNCTUATION = r"[\p{P}\p{S}&&[^￭]]"
# Between two characters that are not whitespace, at least one of which is punctuation.
TOUCHING = rf"(?:(?<!\s)(?<!^)(?={PUNCTUATION})|(?<={PUNCTUATION})(?!\s)(?!$))"


def _any_case(*words: str) -> str:
    """A case-insensitive pattern that matches any of the words, for an engine without a flag for that."""
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)


APOSTROPHE = "['’]"
NOT = rf"[nN]{APOSTROPHE}[tT](?!\p{{L}})"
CONTRACTED = rf"(?:{_any_case('s', 'm', 'd', 're', 've', 'll')})(?!\p{{L}})"
ELIDED = _any_case(*"cdjlmnst", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu", "presqu")
# Positions next to punctuation at which a word continues.
WITHIN_WORDS = (
    # Numbers.
    r"(?<=\p{N})(?=[.,:/]\p{N})",
    r"(?<=\p{N}[.,:/])(?=\p{N})",
    # Inner periods, unless a capital begins a sentence, and the final period after inner ones.
    r"(?<=\p{L})(?=[.&]\p{L})(?!(?<=\p{Ll})\.\p{Lu})",
    r"(?<=\p{L}[.&])(?=\p{L})(?!(?<=\p{Ll}\.)\p{Lu})",
    r"(?<=\.\p{L})(?=\.)",
    # Apostrophes: before one, and after it.
    rf"(?<=\p{{L}})(?={APOSTROPHE}\p{{L}})(?!{APOSTROPHE}{CONTRACTED})",
    rf"(?<=\p{{L}}{APOSTROPHE})(?=\p{{L}})(?:(?={CONTRACTED})|(?<!(?<!\p{{L}})(?:{ELIDED}){APOSTROPHE}))",
    # Runs.
    r"(?<=\.)(?=\.)",
    r"(?<=-)(?=-)",
)


def split_places(rules: bool) -> str:
    """A zero-width regular expression for the positions at which words end without a space."""
    if not rules:
        return TOUCHING
    return rf"{TOUCHING}(?!{'|'.join(WITHIN_WORDS)})|(?<=\p{{L}})(?={NOT})"


def marks(rules: bool) -> normalizers.Normalizer:
    """Return a normalizer that inserts a marker where words end without a space."""
    return normalizers.Replace(Regex(split_places(rules)), JOINER)


def splitter(rules: bool) -> pre_tokenizers.PreTokenizer:
    """Return a pre-tokenizer that splits marked text into words.

    A marker belongs to the punctuation next to it; between two punctuation marks, it belongs to the second.
    """
    begins = rf"(?:{PUNCTUATION}|{NOT})" if rules else PUNCTUATION
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(f"{JOINER}(?={begins})"), "merged_with_next"),
            pre_tokenizers.Split(Regex(f"{JOINER}(?!{begins})"), "merged_with_previous"),
        ]
    )

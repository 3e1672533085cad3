"""Where words end, for vocabularies of words: at white space and punctuation, or by rules of English and French.

Both ways put a mark `￭` where text was split without a space ("Hund ￭."), on the punctuation mark, the contraction or
the elision that stood there. A model learns to place it, and decoding needs no rules of any language: words are
joined by spaces, except at marks.

The rules are those that spaCy's tokenizers have for most of a text, as far as regular expressions of the `tokenizers`
library can say them for both languages at once:

- contractions are words of their own: do n't, it 's, I 'll, we 've;
- so is what was elided: l' homme, qu' il, c' est; other apostrophes stay inside their word: aujourd'hui, O'Neill;
- numbers stay whole: 3.14, 1,000, 10:30, 1/2; so does what has points or & inside: U.S., e.g., ted.com, AT&T;
- "..." and "--" are one word each;
- all other punctuation is a word of its own, hyphens between letters, too, as in spaCy's English. (Its French parts
  only inverted pronouns from a word, a -t -il, and leaves peut-être whole.)
"""

from tokenizers import Regex, normalizers, pre_tokenizers

JOINER = "￭"
PUNCTUATION = r"[\p{P}\p{S}&&[^￭]]"
# Between two characters of which one is punctuation and neither white space.
TOUCHING = rf"(?:(?<!\s)(?<!^)(?={PUNCTUATION})|(?<={PUNCTUATION})(?!\s)(?!$))"


def _any_case(*words: str) -> str:
    """A pattern of words in small or capital letters, also where letters of other cases are not looked up."""
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in words)


APOSTROPHE = "['’]"
NOT = rf"[nN]{APOSTROPHE}[tT](?!\p{{L}})"
CONTRACTED = rf"(?:{_any_case('s', 'm', 'd', 're', 've', 'll')})(?!\p{{L}})"
ELIDED = _any_case(*"cdjlmnst", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu", "presqu")
# Places beside punctuation where a word goes on.
WITHIN_WORDS = (
    # Numbers.
    r"(?<=\p{N})(?=[.,:/]\p{N})",
    r"(?<=\p{N}[.,:/])(?=\p{N})",
    # Inner points, unless a sentence begins with a capital, and the last one after inner ones.
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
    """A regular expression of the places, of no width, where words end though no space stands there."""
    if not rules:
        return TOUCHING
    return rf"{TOUCHING}(?!{'|'.join(WITHIN_WORDS)})|(?<=\p{{L}})(?={NOT})"


def marks(rules: bool) -> normalizers.Normalizer:
    """Puts a mark into text where words end without a space."""
    return normalizers.Replace(Regex(split_places(rules)), JOINER)


def splitter(rules: bool) -> pre_tokenizers.PreTokenizer:
    """Splits marked text into words. A mark belongs to the punctuation beside it, of two to the second one."""
    begins = rf"(?:{PUNCTUATION}|{NOT})" if rules else PUNCTUATION
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(f"{JOINER}(?={begins})"), "merged_with_next"),
            pre_tokenizers.Split(Regex(f"{JOINER}(?!{begins})"), "merged_with_previous"),
        ]
    )

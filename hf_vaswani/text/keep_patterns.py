"""What is to stay as it is in translations: addresses, numbers with units, placeholders, code, emoji, any pattern."""

import re
from bisect import bisect, insort
from collections.abc import Iterable, Sequence
from functools import cache

from ..errors import nearest
from .normalization import TAGS
from .words import Span

_UNITS = (
    "km/h|[nµmcdk]?m[²³]?|[µmk]?g|t|[mcdh]?l|[mk]?bar|[kMG]?Hz|[kMGT]?i?[Bb](?:/s)?|[kM]?W(?:h)?|mA?h?|V|°[CF]?|K|h|min|m?s"
    "|mph|ft|in|lbs?|oz|px|pt|dpi|ha|%|‰|[€$£¥]|EUR|USD|GBP|CHF|Euro|Mio\\.?|Mrd\\.?"
)
_CURRENCY = "(?:EUR|USD|GBP|CHF|[€$£¥])"
_SEPARATOR = r"[.,:/'’\u00a0\u202f]"
_AMOUNT = rf"\d+(?:{_SEPARATOR}\d+)*"
PICTURE = "[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff©®™ℹ]"
_ONE_EMOJI = rf"(?:{PICTURE}[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?[{TAGS}]*|[#*0-9]\ufe0f?\u20e3)"
# Flags, width, precision, and size of what `printf` writes, and the letter that ends it.
FORMAT = r"[-+0#,']{0,5}(?:\d{0,9}|\*)(?:\.(?:\d{1,9}|\*))?(?:hh|ll|[hlLqjzt])?"
CONVERSION = "[diouxXeEfFgGcCsSpaAnmr@]"
# `%1$s`, `%(name)s`, `%<n>d`, and `%@`, whatever follows; `%dx%d`, `%02dh`, `%.1fMB`, and `%nNext`, but not `50%ige`.
PRINTED = rf"(?:%(?:\d{{1,3}}\$|<\w+>)|(?<!\d)%%?\([\w.]+\)){FORMAT}{CONVERSION}", "%@"
PRINTED_BEFORE_LETTERS = (
    r"(?<!\d)(?<!\d[ \u00a0\u202f])%[+,']?(?:0\d{1,2}|\d?\.\d)?(?:ll?|z)?(?:[sdu]|i(?!g)|(?<=\d)f|n(?=[A-Z]))"
)
# Name → pattern, those first that may have others in them. Each begins only where a run of what it repeats begins, and
# reads that in one way only: otherwise, the time would grow with the square of the text's length.
KINDS = {
    "code": r"``[^\n]+?``|`[^`\n]+`",
    "url": r"(?:(?:https?|ftps?|file)://?|mailto:|www\.)(?:[^\s<>\"'`()\[\]{}|\\^«»“”„]|\([^\s()<>]*\))*(?:[\w/#=&+~$@%*-]|\([^\s()<>]*\))",
    "email": r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[^\W\d]{2,}",
    "placeholder": "|".join(
        (
            r"\{\{[^{}\n]*\}\}",
            r"[$#%]?\{[\w.:,# -]*\}",
            *PRINTED,
            rf"(?<![\w%])%{FORMAT}[sdiufFgGeExXcop@](?!\w)",
            PRINTED_BEFORE_LETTERS,
        )
    ),
    "emoji": rf"{_ONE_EMOJI}(?:\u200d?{_ONE_EMOJI})*",
    "number": (
        rf"(?<![\w.,])(?<!\d[-–—−x×])(?:[-–−+±](?=[\d€$£¥]))?(?:{_CURRENCY}\s?{_AMOUNT}|(?<!\d{_SEPARATOR})"
        rf"{_AMOUNT}(?:\s?[-–—−x×]\s?{_AMOUNT})?[ \u00a0\u2009\u202f]?(?:{_UNITS})(?![\w%]))"
    ),
}
# A pattern, the name of a kind, or several of these.
Keep = str | re.Pattern | Iterable[str | re.Pattern]


@cache
def kind_patterns() -> tuple[re.Pattern, ...]:
    """The patterns of all kinds."""
    return tuple(map(re.compile, KINDS.values()))


def keep_patterns(keep: Keep) -> tuple[re.Pattern, ...]:
    """Compile what is to be kept.

    Raises:
        ValueError: it is neither the name of a kind nor a pattern, or looks like a name that is misspelled.
    """
    patterns = []
    for each in keep if isinstance(keep, Iterable) and not isinstance(keep, str) else [keep]:
        if not isinstance(each, str | re.Pattern) or not each:
            raise ValueError(f"keep must be one of {', '.join(KINDS)}, a regular expression or a list, got {each!r}.")
        if isinstance(each, str) and each not in KINDS and _looks_like_kinds(each):
            meant = nearest(each.lower(), KINDS) if re.fullmatch(r"\w+", each) else None
            hint = f"Did you mean {meant}? " if meant else ""
            raise ValueError(
                f"keep: {each!r} is not one of {', '.join(KINDS)}. {hint}Name each of them "
                "separately; to keep a word, write it as a regular expression: \\bword\\b."
            )
        try:
            patterns.append(re.compile(KINDS.get(each, each) if isinstance(each, str) else each))
        except re.error as error:
            raise ValueError(
                f"keep: {each!r} is neither one of {', '.join(KINDS)} nor a regular expression: {error}."
            ) from None
    return tuple(patterns)


def literal_patterns(spans: Iterable[str]) -> list[re.Pattern]:
    """Patterns that find spans as they are, the longest first, and none within a word."""
    longest_first = sorted(set(spans), key=lambda span: (-len(span), span))
    return [re.compile(rf"(?:(?<!\w)|(?!\w)){re.escape(span)}(?:(?<!\w)|(?!\w))") for span in longest_first]


def _looks_like_kinds(text: str) -> bool:
    """Whether a text without the signs of a regular expression lists words, is in lower case, or resembles a kind."""
    names = re.split(r"[\s,]+", text)
    is_plain = all(re.fullmatch(r"[\w-]*", name) for name in names)
    return is_plain and ("," in text or text.islower() or any(nearest(name.lower(), KINDS) for name in names))


def without_kept(text: str, patterns: Sequence[re.Pattern]) -> str:
    """A text with a space in place of each span that is to be kept."""
    for start, end in reversed(find_kept(text, patterns)):
        text = f"{text[:start]} {text[end:]}"
    return text


def find_kept(text: str, patterns: Sequence[re.Pattern]) -> list[Span]:
    """What is to be kept in a text, from left to right; of overlapping matches, the first pattern's."""
    spans: list[Span] = []
    for pattern in patterns:
        for match in pattern.finditer(text):
            start, end = match.span()
            place = bisect(spans, (start, end))
            before = spans[place - 1][1] if place else 0
            after = spans[place][0] if place < len(spans) else len(text)
            if start < end and before <= start and end <= after:
                insort(spans, (start, end))
    return spans

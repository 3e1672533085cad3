"""Counts references that a model cannot write, so that scores count even a perfect translation as wrong.

A model writes only what its tokenizer can decode: text with the characters of its vocabulary, in one Unicode form.
sacreBLEU compares characters as they are; in the form NFD, for example, an `é` is an `e` and an accent.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from ..text.vocabularies import target_encoding_error

# Sentences that are looked at, evenly spaced; a few seconds.
SAMPLE = 10_000
FORMS = ("NFC", "NFKC", "NFD", "NFKD")
# What such references have, which is why the model cannot write them.
FORM = "a different Unicode form from the model's"
CAPITALS = "capitals, which the model does not write"
UNKNOWN = "characters or words that the vocabulary lacks"
OTHER = "text that the tokenizer writes differently"


def unreachable(
    tokenizer: PreTrainedTokenizerBase, references: Sequence[str], lowercase: bool = False
) -> dict[str, int]:
    """Count the references that decoding their own tokens does not give, by cause, in words.

    Differences in whitespace do not count. Of more than `SAMPLE` references, a sample is looked at, and the numbers
    are estimates for all.

    Args:
        tokenizer: the model's tokenizer.
        lowercase: whether scores are of lowercased text.
    """
    if target_encoding_error(tokenizer):
        return {}
    step = -(-len(references) // SAMPLE) or 1
    counts = Counter()
    for start in range(0, len(references), 1000 * step):
        texts = list(references[start : start + 1000 * step : step])
        rows = tokenizer(text_target=texts, verbose=False)["input_ids"]
        for text, ids, written in zip(texts, rows, tokenizer.batch_decode(rows, skip_special_tokens=True)):
            if cause := _cause(*(_bare(side, lowercase) for side in (text, written)), tokenizer.unk_token_id in ids):
                counts[cause] += step
    return {cause: min(count, len(references)) for cause, count in counts.most_common()}


def unreachable_warning(name: str, counts: dict[str, int], total: int) -> str:
    """A warning about a set of references, and what to do about it.

    Args:
        counts: from [`unreachable`].
        total: number of references.
    """
    causes = ", ".join(f"{count:,} with {cause}" for cause, count in counts.items())
    about = " (estimated from a sample)" if total > SAMPLE else ""
    remedy = " Convert them to the Unicode form NFC, or to the training text's form." if FORM in counts else ""
    return (
        f"warning: the model cannot write {sum(counts.values()):,} of {total:,} references of {name}: {causes}"
        f"{about}. These count as errors in the scores.{remedy}"
    )


def form_warning(name: str, translations: Sequence[str], references: Sequence[str]) -> str | None:
    """A warning if only the translations in a file, or only their references, are in the Unicode form NFC."""
    sides = {name: translations, "the references": references}
    other = {side: sum(not unicodedata.is_normalized("NFC", text) for text in texts) for side, texts in sides.items()}
    if bool(other[name]) == bool(other["the references"]):
        return None
    side = max(other, key=lambda side: other[side])
    return (
        f"warning: {other[side]:,} of {len(sides[side]):,} lines of {side} are not in the Unicode form NFC, but "
        f"{'the references are' if side == name else f'{name} is'}. These count as errors in the scores. Convert "
        "them to NFC."
    )


def _bare(text: str, lowercase: bool) -> str:
    return " ".join((text.lower() if lowercase else text).split())


def _cause(reference: str, written: str, has_unknown: bool) -> str | None:
    if reference == written:
        return None
    is_composed = unicodedata.is_normalized("NFC", written) and not unicodedata.is_normalized("NFC", reference)
    if is_composed or any(unicodedata.normalize(form, reference) == written for form in FORMS):
        return FORM
    if reference.lower() == written:
        return CAPITALS
    return UNKNOWN if has_unknown else OTHER

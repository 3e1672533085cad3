"""Warns if source and target seem to be swapped or shifted, or a file to be in the wrong language, by a sample.

None of this is proof; the file names and the first pair, which a run displays, tell the user more.
"""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import StatisticsError, correlation

from .tables import Languages
from .text_files import Pair

# Pairs in a sample, and the minimum number of pairs for a warning.
SAMPLE, FEWEST = 1000, 20
# Pairs in a row from which it can be told that a side is shifted by a line.
FEWEST_IN_ORDER = 50
# How much more similar a text must be to the other side of the training text than to its own. In German, English,
# French and Arabic, texts were more similar to their own side by 0.24 (20 sentences from another domain) to 0.7 (many
# sentences from the same domain).
MARGIN = 0.2


def swapped_sides(train: Sequence[Pair], others: dict[str, Sequence[Pair]], languages: Languages) -> list[str]:
    """Return warnings about swapped sides or files, one line each.

    Args:
        train: the training pairs, or a sample of them.
        others: the pairs of the validation and test sets, by name.
        languages: the codes of the source and target languages, if known.
    """
    warnings = [_other_language(train, languages)]
    profiles = [profile(side) for side in _sides(train)]
    warnings += [
        _other_sides(name, [profile(side) for side in _sides(pairs)], profiles)
        for name, pairs in others.items()
        if min(len(pairs), len(train)) >= FEWEST
    ]
    return [warning for warning in warnings if warning]


def language_warning(name: str, texts: Sequence[str], language: str | None, other: str | None) -> str | None:
    """A warning if texts look like the other language of a pair, or any that is known here, rather than their own.

    Args:
        name: what the texts are called.
        language, other: the codes of both languages, if known.
    """
    find = _language_of_few if len(texts) < FEWEST else _language_of_many
    if not language or not (found := find(texts, language, other)):
        return None
    question = "Are source and target swapped?" if found == other else "Is it the right file?"
    return f"warning: {name} looks like {found}, not like {language}. {question}"


def _language_of_few(texts: Sequence[str], language: str, other: str | None) -> str | None:
    """The one other language that each of some texts is certainly in, if so."""
    from ...text.language_evidence import other_language

    found = {other_language(text, language) for text in texts if text.strip()}
    return found.pop() if len(texts) > 1 and len(found) == 1 else None


def _language_of_many(texts: Sequence[str], language: str, other: str | None) -> str | None:
    """The other language that texts taken together give more evidence of, if so."""
    from ...text.language_evidence import SCRIPTS, WORDS, language_evidence  # only for languages that are known

    if (here := language_evidence(language, texts)) is None:
        return None
    others = dict.fromkeys(filter(None, (other, *WORDS, *(codes.split()[0] for codes in SCRIPTS.values()))))
    signs = {code: language_evidence(code, texts) or 0.0 for code in others}
    found = max(signs, key=signs.__getitem__)
    return found if signs[found] > 0.1 and here < signs[found] / 3 else None


def shifted_lines(name: str, pairs: Sequence[Pair]) -> str | None:
    """A warning if a side is shifted by a line, so that its lengths are those of the other side's neighboring lines.

    Args:
        name: what the text is called.
        pairs: in the order of the text. The end of each quarter is looked at.
    """
    for number, quarter in enumerate(("first", "second", "third", "last"), start=1):
        end = len(pairs) * number // 4
        sizes = [list(map(len, side)) for side in zip(*pairs[end - min(SAMPLE, len(pairs) // 4) : end])]
        if not sizes or len(sizes[0]) < FEWEST_IN_ORDER:
            continue
        (one, other), own = sizes, _correlation(*sizes)
        neighbors = max(_correlation(one[1:], other[:-1]), _correlation(one[:-1], other[1:]))
        if neighbors > max(0.5, own + MARGIN):
            return (
                f"warning: at the end of the {quarter} quarter of the {name} text, source and target are shifted by a "
                "line. Is a line missing before it, or one too many?"
            )
    return None


def _correlation(one: Sequence[int], other: Sequence[int]) -> float:
    try:
        return correlation(one, other)
    except StatisticsError:  # all are equal
        return 0.0


def profile(texts: Sequence[str]) -> Counter[str]:
    """Count character trigrams, whose frequencies are similar in texts of the same language."""
    counts: Counter[str] = Counter()
    for text in texts:
        padded = f" {text.casefold()} "
        counts.update(padded[i : i + 3] for i in range(len(padded) - 2))
    return counts


def similarity(one: Counter[str], other: Counter[str]) -> float:
    """The cosine similarity of two profiles, from 0 to 1."""
    product = sum(count * other[piece] for piece, count in one.items() if piece in other)
    lengths = [math.sqrt(sum(count * count for count in counts.values())) for counts in (one, other)]
    return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0


def _other_language(train: Sequence[Pair], languages: Languages) -> str | None:
    sides = _sides(train)
    for own, (language, name) in enumerate(zip(languages, ("source", "target"))):
        if not language or len(set(languages)) < 2:
            continue
        from ...text.language_evidence import language_evidence  # only for languages that are known

        here, there = language_evidence(language, sides[own]), language_evidence(language, sides[1 - own])
        if here is not None and there > 0.1 and here < there / 3:
            other = ("target", "source")[own]
            return (
                f"warning: the training text's {other} looks like {language}, the {name} language, but its {name} "
                "does not. Are the sides swapped?"
            )
    return None


def _other_sides(name: str, sides: list[Counter[str]], train: list[Counter[str]]) -> str | None:
    similarities = [[similarity(side, of_train) for of_train in train] for side in sides]
    other = [similarities[side][1 - side] > similarities[side][side] + MARGIN for side in (0, 1)]
    if not any(other):
        return None
    if all(other):
        return f"warning: in the {name} text, or in the training text, source and target seem to be swapped."
    own, another = ("source", "target") if other[0] else ("target", "source")
    return (
        f"warning: the {name} text's {own} looks like the training text's {another}, not like its {own}. Is it "
        "the right file?"
    )


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """The sources and targets of a sample of evenly spaced pairs."""
    chosen = pairs[:: max(1, len(pairs) // SAMPLE)]
    return [source for source, _ in chosen], [target for _, target in chosen]

"""Spellings that a text uses side by side: letters with different marks, or different apostrophes, in one word."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

APOSTROPHES = "'\u2018\u2019\u02bc\u02bb\u00b4\u0060\u2032\u02b9\ua78c"
MARKS = "\u0300-\u036f"
WORD = re.compile(rf"[^\W\d_](?:[\w{MARKS}]|[{APOSTROPHES}](?=\w))*")
# A letter with marks, or an apostrophe.
UNIT = re.compile(rf"[^\W\d_][{MARKS}]+|[{APOSTROPHES}]")
# Words in both spellings, at least, and their share of the words that have the rarer one.
LEAST_WORDS, LEAST_SHARE = 10, 0.05
EXAMPLES = 3
MOST_ROUNDS = 4
# How often a text may have the spelling that it does not prefer, for each time it has the other.
MOST_OTHERS = 0.05


@dataclass(frozen=True)
class TwoSpellings:
    """Two ways to write the same.

    Attributes:
        rare, usual: the letters or apostrophes.
        counts: how many words have each of them, repetitions included.
        words: how many words are there in both spellings.
        examples: some of these, in both.
    """

    rare: str
    usual: str
    counts: tuple[int, int]
    words: int
    examples: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, values: dict) -> "TwoSpellings":
        """What `asdict` has written, read from JSON."""
        return cls(**{**values, "counts": tuple(values["counts"]), "examples": tuple(map(tuple, values["examples"]))})

    def __str__(self) -> str:
        shown = ", ".join(f"{one} and {other}" for one, other in self.examples)
        return (
            f"{self.rare} ({self.counts[0]:,} words) and {self.usual} ({self.counts[1]:,}) stand for each other in "
            f"{self.words:,} words, such as {shown}"
        )


def two_spellings(texts: Iterable[str]) -> list[TwoSpellings]:
    """Spellings that some texts use side by side, those of most words first.

    A letter with and without a mark is not one of them: that often makes another word.
    """
    return _two_spellings(_words(texts))


def _words(texts: Iterable[str]) -> Counter[str]:
    words: Counter[str] = Counter()
    for text in texts:
        words.update(WORD.findall(unicodedata.normalize("NFD", text.lower())))
    return words


def _two_spellings(words: Counter[str]) -> list[TwoSpellings]:
    having: dict[str, set[str]] = defaultdict(set)
    for word in words:
        for unit in UNIT.findall(word):
            having[unit].add(word)
    groups: dict[str, list[str]] = defaultdict(list)
    for unit in having:
        groups["'" if unit in APOSTROPHES else unit[0]].append(unit)
    found = []
    for units in groups.values():
        for pair in combinations(sorted(units), 2):
            counts = {unit: sum(words[word] for word in having[unit]) for unit in pair}
            rare, usual = sorted(pair, key=lambda unit: (counts[unit], unit))
            both = [(word, other) for word in having[rare] if (other := word.replace(rare, usual)) in words]
            if len(both) >= max(LEAST_WORDS, LEAST_SHARE * len(having[rare])):
                both.sort(key=lambda pair: (-min(words[pair[0]], words[pair[1]]), pair))
                shown = [tuple(unicodedata.normalize("NFC", word) for word in pair) for pair in both[:EXAMPLES]]
                composed = (unicodedata.normalize("NFC", unit) for unit in (rare, usual))
                found.append(TwoSpellings(*composed, (counts[rare], counts[usual]), len(both), tuple(shown)))
    return sorted(found, key=lambda each: (-each.words, each.rare, each.usual))


def preferred(spellings: Iterable[TwoSpellings], texts: Iterable[str]) -> dict[str, str]:
    """Which letters or apostrophes become which others, so that a text is spelled like others.

    Args:
        spellings: of the text to be changed.
        texts: in the spelling that is wanted; what they do not have stays as it is.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        folded = unicodedata.normalize("NFD", text.lower())
        counts.update(unit for word in WORD.findall(folded) for unit in UNIT.findall(word))
    changes: dict[str, str] = {}
    for each in spellings:
        own = [counts[unicodedata.normalize("NFD", unit)] for unit in (each.rare, each.usual)]
        # A text that often has both tells them apart.
        if min(own) <= MOST_OTHERS * max(own) and any(own):
            before, after = (each.rare, each.usual) if own[1] > own[0] else (each.usual, each.rare)
            changes.setdefault(before, after)
    # What becomes something that is itself changed goes there at once.
    for before, after in list(changes.items()):
        seen = {before}
        while after in changes and after not in seen:
            seen.add(after)
            after = changes[after]
        changes[before] = after
    return {before: after for before, after in changes.items() if before != after}


def changes_to(texts: Iterable[str], like: Iterable[str]) -> dict[str, str]:
    """Which letters or apostrophes become which others, so that texts are spelled like others.

    Two spellings may be in one of the texts, or one in each. Words in both are found once other letters of them are
    changed, so this is repeated.
    """
    like = list(like)
    words, wanted = _words(texts), _words(like)
    changes: dict[str, str] = {}
    for _ in range(MOST_ROUNDS):
        spelled: Counter[str] = Counter(wanted)
        for word, count in words.items():
            spelled[unicodedata.normalize("NFD", respelled(word, changes))] += count
        new = preferred(_two_spellings(spelled), like)
        more = {**{before: new.get(after, after) for before, after in changes.items()}, **new}
        if more == changes:
            break
        changes = more
    return changes


def has_units(text: str, units: Collection[str]) -> bool:
    """Whether words of a text have one of some letters with marks, or apostrophes."""
    wanted = {unicodedata.normalize("NFD", unit) for unit in units}
    folded = unicodedata.normalize("NFD", text.lower())
    return any(unit in wanted for word in WORD.findall(folded) for unit in UNIT.findall(word))


def respelled(text: str, changes: Mapping[str, str]) -> str:
    """A text in another spelling; apostrophes are changed only within words."""
    decomposed = unicodedata.normalize("NFD", text)
    for before, after in changes.items():
        one, other = (unicodedata.normalize("NFD", unit) for unit in (before, after))
        if one in APOSTROPHES:
            decomposed = re.sub(rf"(?<=[\w{MARKS}]){one}(?=\w)", other, decomposed)
        else:
            pattern = rf"({one[0]}|{one[0].upper()}){one[1:]}(?![{MARKS}])"
            decomposed = re.sub(pattern, lambda match, marks=other[1:]: match[1] + marks, decomposed)
    return unicodedata.normalize("NFC", decomposed)

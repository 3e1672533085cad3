"""What two texts of one language differ in: spelling, marks, case, length, and words.

What is remarkable is judged by the texts themselves: a difference counts if it is larger than any between random
halves of their lines, and large enough to matter to a model.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..text.words import SPACELESS, WORD
from .spelling import APOSTROPHES, MARKS, UNIT, TwoSpellings, changes_to, respelled, two_spellings

# Lines of a text that are looked at, and that it must have.
MOST_LINES, FEWEST_LINES = 20_000, 50
# Random divisions of the lines, by which differences are judged.
DIVISIONS, SEED = 8, 1
# How many times more often a letter or mark, and a word must occur, and how much greater a share or length must be.
FAR_MORE, FAR_MORE_WORDS, MORE = 5.0, 3.0, 1.5
# The least share of words that have a letter or mark, that are far more frequent, and of lines that differ.
LEAST, LEAST_WORDS, LEAST_LINES = 0.002, 0.02, 0.05
SHOWN = 5
PROPERTIES: dict[str, tuple[str, Callable[[str], bool]]] = {
    "end with a mark": ("punctuation", re.compile(r"[.!?…。！？।؟][\"'”’»)\]]*$").search),
    "have a space before a mark": ("punctuation", re.compile(r"\S [.,!?;:…](?!\S)").search),
    "have no capital letter": ("case", lambda text: text == text.lower() != text.upper()),
    "have only capital letters": ("case", lambda text: text == text.upper() != text.lower()),
    "begin with a small letter": ("case", lambda text: text[:1] != text[:1].upper()),
}


@dataclass(frozen=True)
class Difference:
    """Something that two texts differ in.

    Attributes:
        kind: `"spelling"`, `"punctuation"`, `"case"`, `"length"`, or `"words"`.
        text: what it is, in words and numbers.
        weight: the share of lines that it concerns, roughly.
        is_of_two: whether it is two spellings that stand for each other.
    """

    kind: str
    text: str
    weight: float
    is_of_two: bool = False


class LineSample:
    """Up to twice [`MOST_LINES`] lines from all parts of a text that is read once; the same text gives the same ones.

    Attributes:
        lines: each `step`-th line.
    """

    def __init__(self):
        self.lines: list[str] = []
        self.step, self.read = 1, 0

    def add(self, line: str) -> None:
        """Take a line, or leave it."""
        if self.read % self.step == 0:
            self.lines.append(line)
            if len(self.lines) == 2 * MOST_LINES:
                self.lines, self.step = self.lines[::2], 2 * self.step
        self.read += 1


def compare(
    one: Sequence[str], other: Sequence[str], names: tuple[str, str] = ("the training text", "the test text")
) -> list[Difference]:
    """What two texts differ in, the weightiest difference first; nothing if they are alike.

    Args:
        one, other: lines of the same language; of one that has more than [`MOST_LINES`], some from all its parts.
        names: what the texts are called.
    """
    lines = [_some([line for line in dict.fromkeys(map(str.strip, text)) if line]) for text in (one, other)]
    if min(map(len, lines)) < FEWEST_LINES:
        return []
    texts = _Texts(lines, names)
    found = [*_properties(texts), *_length(texts)]
    # What a word has, a line of the usual length has more often.
    usual = float(np.median([len(words) for words in texts.words]))
    # Words and letters are compared as if both were spelled alike.
    changes = changes_to(*lines)
    alike = _Texts([[respelled(line, changes) for line in lines[0]], lines[1]], names) if changes else texts
    for each in (*_two_ways(texts), *_letters_of(alike), *_words(alike)):
        found.append(replace(each, weight=1 - (1 - each.weight) ** usual))
    return sorted(found, key=lambda difference: -difference.weight)


def of_each_kind(differences: Iterable[Difference], most: int) -> list[str]:
    """The weightiest difference of each kind, in words; of spellings, one of those that stand for each other."""
    found = [each for each in differences if each.weight >= LEAST_LINES]
    chosen = {each.kind: each.text for each in sorted(reversed(found), key=lambda each: each.is_of_two)}
    return [chosen[kind] for kind in dict.fromkeys(each.kind for each in found)][:most]


def _some(lines: list[str]) -> list[str]:
    return lines[:: -(-len(lines) // MOST_LINES)] if lines else []


class _Texts:
    """Two texts and their words.

    Attributes:
        lines: of both.
        words: of each of these lines, with marks as words of their own.
        divisions: `(1 + DIVISIONS, lines)`: which lines are of the first text; then, of random parts of its size.
    """

    def __init__(self, lines: Sequence[Sequence[str]], names: tuple[str, str]):
        self.names, self.lines = names, [line for text in lines for line in text]
        self.words = [WORD.findall(unicodedata.normalize("NFC", line)) for line in self.lines]
        own, generator = np.arange(len(self.lines)) < len(lines[0]), np.random.default_rng(SEED)
        self.divisions = np.stack([own, *(generator.permutation(own) for _ in range(DIVISIONS))])

    def rates(self, features: Sequence[Sequence[str]], sizes: np.ndarray) -> "_Rates":
        """How often each text has some features.

        Args:
            features: of each line.
            sizes: of each line, `(lines,)`, of which the features are a share.
        """
        numbers: dict[str, int] = {}
        ids = np.array([numbers.setdefault(name, len(numbers)) for own in features for name in own], np.int64)
        places = np.repeat(np.arange(len(features)), [len(own) for own in features])
        width = max(len(numbers), 1)
        cells, counts = np.unique(places * width + ids, return_counts=True)
        return _Rates(list(numbers), cells // width, cells % width, counts, sizes.astype(float), self.divisions)


class _Rates:
    """Rates of features in two texts.

    Attributes:
        rates: feature → its rates in both texts.
        remarkable: features whose rates differ by more than any feature's do in random divisions, and how surely.
    """

    def __init__(self, names, lines, ids, counts, sizes, divisions):
        width, total = len(names), sizes.sum() or 1.0
        both = np.bincount(ids, counts, width) / total
        # The variance of a line's deviation from the rate, summed over all lines (also those without the feature).
        squares = (
            np.bincount(ids, counts**2 - 2 * counts * both[ids] * sizes[lines], width) + both**2 * (sizes**2).sum()
        )
        scores = []
        for first in divisions:
            share = (sizes * first).sum() / total
            own = np.bincount(ids, counts * first[lines], width)
            scores.append((own - both * share * total) / np.sqrt(np.maximum(squares * share * (1 - share), 1e-12)))
            if len(scores) == 1:
                rest = np.maximum(both * total - own, 0)
                rates = own / max(share * total, 1e-12), rest / max((1 - share) * total, 1e-12)
        least = max((np.abs(score).max(initial=0) for score in scores[1:]), default=0)
        self.rates = dict(zip(names, zip(*(rate.tolist() for rate in rates))))
        self.remarkable = {
            name: score for name, score in zip(names, scores[0].tolist()) if abs(score) > max(least, 3.0)
        }

    def more(self, number: int, times: float) -> list[str]:
        """Remarkable features that one text has so many times more often than the other, the surest first."""
        sign = 1 if number == 0 else -1
        found = [
            name for name, score in self.remarkable.items()
            if score * sign > 0 and self.rates[name][number] >= times * self.rates[name][1 - number]
        ]  # fmt: skip
        return sorted(found, key=lambda name: (-abs(self.remarkable[name]), name))


def _two_ways(texts: _Texts) -> list[Difference]:
    """Letters and apostrophes that stand for each other, and of which the texts prefer others."""
    found = _letter_rates(texts)
    swapped = [each for each in two_spellings(texts.lines) if _is_swapped(each, found)]
    return [_of_two(group, found, texts.names) for group in group_spellings(swapped)]


def _letters_of(texts: _Texts) -> list[Difference]:
    """Letters and punctuation that one text has far more often, but for the basic Latin letters, which words bring."""
    found, differences = _letter_rates(texts), []
    for number in (0, 1):
        for kind, is_kind in (("spelling", _is_letter), ("punctuation", lambda letter: not _is_letter(letter))):
            chosen = [
                letter for letter in found.more(number, FAR_MORE)
                if is_kind(letter) and not letter.isdecimal() and not (letter.isascii() and letter.isalpha())
                and found.rates[letter][number] >= LEAST
            ][:SHOWN]  # fmt: skip
            if chosen:
                shown = ", ".join(
                    f"{_shown(letter)} (in {_share(found.rates[letter][number])} of the words "
                    f"against {_share(found.rates[letter][1 - number])})" for letter in chosen
                )  # fmt: skip
                weight = max(found.rates[letter][number] for letter in chosen)
                differences.append(Difference(kind, f"{texts.names[number]} has far more {shown}", weight))
    return differences


def _letter_rates(texts: _Texts) -> _Rates:
    known = {word: _letters(word) for word in {word for words in texts.words for word in words}}
    features = [[letter for word in words for letter in known[word]] for words in texts.words]
    return texts.rates(features, np.array(list(map(len, texts.words))))


def _letters(word: str) -> list[str]:
    """The different letters and marks of a word; a letter with marks is one. Scripts without spaces have none."""
    if re.match(f"[{SPACELESS}]", word):
        return []
    folded = unicodedata.normalize("NFD", word.lower())
    return list(dict.fromkeys([*UNIT.findall(folded), *UNIT.sub("", folded)]))


def _shown(letter: str) -> str:
    return unicodedata.normalize("NFC", f"\u25cc{letter}" if unicodedata.combining(letter[0]) else letter)


def _is_letter(letter: str) -> bool:
    return letter[0].isalpha() or letter in APOSTROPHES or re.fullmatch(f"[{MARKS}]", letter) is not None


def _units(spelling: TwoSpellings) -> tuple[str, str]:
    return unicodedata.normalize("NFD", spelling.rare), unicodedata.normalize("NFD", spelling.usual)


def _is_swapped(spelling: TwoSpellings, found: _Rates) -> bool:
    units = _units(spelling)
    first, second = (found.rates.get(unit, (0.0, 0.0)) for unit in units)
    shares = [one / max(one + other, 1e-12) for one, other in zip(first, second)]
    return any(unit in found.remarkable for unit in units) and abs(shares[0] - shares[1]) >= 0.1


def group_spellings(spellings: Iterable[TwoSpellings]) -> list[list[TwoSpellings]]:
    """Spellings in groups that differ in the same way: in the same two marks, or in apostrophes."""
    groups: dict[frozenset[str], list[TwoSpellings]] = defaultdict(list)
    for each in spellings:
        groups[frozenset(map(_mark, _units(each)))].append(each)
    return list(groups.values())


def _mark(unit: str) -> str:
    return unit if unit in APOSTROPHES else unit[1:]


def spelled_in_groups(group: Sequence[TwoSpellings]) -> tuple[list[str], list[str]]:
    """The units of a group, decomposed, that are written in one way, and those in the other."""
    pairs = [sorted(_units(each), key=_mark) for each in group]
    return [one for one, _ in pairs], [other for _, other in pairs]


def shown_group(group: Sequence[TwoSpellings]) -> str:
    """The letters or apostrophes of a group, and two words in both spellings."""
    sides = spelled_in_groups(group)
    one, other = (" ".join(map(_named, dict.fromkeys(units))) for units in sides)
    # Examples in the same order as the letters.
    words = [each.examples[0][:: 1 if _units(each)[0] in sides[0] else -1] for each in group[:2]]
    return f"{one} and {other} ({', '.join(' and '.join(pair) for pair in words)})"


def _named(unit: str) -> str:
    """A letter with its mark, or an apostrophe with its code point, as these look alike."""
    return f"{unit} (U+{ord(unit):04X})" if unit in APOSTROPHES else unicodedata.normalize("NFC", unit)


def _of_two(group: list[TwoSpellings], found: _Rates, names: tuple[str, str]) -> Difference:
    """Which of two spellings two texts have."""
    one, other = spelled_in_groups(group)
    sums = [
        [sum(found.rates.get(unit, (0.0, 0.0))[text] for unit in side) for side in (one, other)] for text in (0, 1)
    ]
    shares = [own / max(sum(both), 1e-12) for both in sums for own in both]
    text = (
        f"{shown_group(group)} stand for each other: {names[0]} has {shares[0]:.0%} and {shares[1]:.0%} of these, "
        f"{names[1]} {shares[2]:.0%} and {shares[3]:.0%}"
    )
    return Difference("spelling", text, max(map(sum, sums)) * abs(shares[0] - shares[2]), True)


def _properties(texts: _Texts) -> list[Difference]:
    """Which lines end with a mark, have spaces before marks, or have no capital letters."""
    features = [[name for name, (_, has) in PROPERTIES.items() if has(line)] for line in texts.lines]
    found = texts.rates(features, np.ones(len(texts.lines)))
    differences = []
    for name in found.remarkable:
        one, other = found.rates[name]
        if abs(one - other) >= LEAST_LINES and (_is_more(one, other) or _is_more(1 - one, 1 - other)):
            text = f"{_share(one)} of the lines of {texts.names[0]} {name}, {_share(other)} of {texts.names[1]}"
            differences.append(Difference(PROPERTIES[name][0], text, abs(one - other)))
    return differences


def _is_more(one: float, other: float) -> bool:
    return max(one, other) >= MORE * min(one, other)


def _length(texts: _Texts) -> list[Difference]:
    """The median number of words in a line."""
    sizes = np.array([sum(word[0].isalnum() for word in words) for words in texts.words])
    medians = [(float(np.median(sizes[first])), float(np.median(sizes[~first]))) for first in texts.divisions]
    (one, other), *rest = medians
    largest = max(max(pair) / max(min(pair), 1) for pair in rest)
    if not _is_more(one, other) or max(one, other) / max(min(one, other), 1) <= largest:
        return []
    text = f"a line of {texts.names[0]} has {one:g} words (median), one of {texts.names[1]} {other:g}"
    return [Difference("length", text, 1 - min(one, other) / max(one, other))]


def _words(texts: _Texts) -> list[Difference]:
    """Words that a text has far more often, and the share of the second text's words that the first never has."""
    words = [[word.lower() for word in own if word[0].isalpha()] for own in texts.words]
    found = texts.rates(words, np.array(list(map(len, words))))
    differences = []
    for number in (1, 0):
        more = found.more(number, FAR_MORE_WORDS)
        share = sum(found.rates[word][number] for word in more)
        if share >= LEAST_WORDS:
            one, other = texts.names[number], texts.names[1 - number]
            text = f"{_share(share)} of the words of {one} are far rarer in {other}, such as {', '.join(more[:SHOWN])}"
            # What is rare has been seen.
            differences.append(Difference("words", text, share / 2))
    first = texts.divisions[0]
    own, other = ([row for row, is_own in zip(words, first) if is_own == wanted] for wanted in (True, False))
    unknown, kinds = _unknown(other, {word for row in own for word in row})
    # The same of parts of the first text, each by the rest of it.
    generator, size = np.random.default_rng(SEED), min(len(other), -(-len(own) // 5))
    usual = []
    for _ in range(DIVISIONS):
        order = generator.permutation(len(own)).tolist()
        rest = {word for place in order[size:] for word in own[place]}
        usual.append(_unknown([own[place] for place in order[:size]], rest)[0])
    if unknown > max(usual) and unknown >= MORE * np.mean(usual) and unknown >= LEAST_WORDS:
        text = (
            f"{_share(unknown)} of the words of {texts.names[1]} never occur in {texts.names[0]} ({_share(kinds)} of "
            f"the distinct ones); of held-out lines of {texts.names[0]}, it is {_share(float(np.mean(usual)))}"
        )
        differences.append(Difference("words", text, unknown))
    return differences


def _unknown(rows: Sequence[Sequence[str]], known: set[str]) -> tuple[float, float]:
    """The share of words, and of different words, that are not known."""
    counts = Counter(word for row in rows for word in row)
    new = [count for word, count in counts.items() if word not in known]
    return sum(new) / max(counts.total(), 1), len(new) / max(len(counts), 1)


def _share(value: float) -> str:
    return f"{value:.1%}" if 0.0005 <= value < 0.1 else f"{value:.0%}"

"""Filters for parallel text: count the issues in all pairs, drop pairs with an issue, and hold out test pairs.

Pairs with an empty or overlong side are unusable and always dropped. Otherwise the text is used as is, unless a
setting says otherwise. Issues are checked in the order of `ISSUES`. A dropped pair is counted once, under the first
issue that drops it; a kept pair is counted under each of its issues. The count of an issue is therefore the number of
pairs that its setting drops, or would drop.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from ..errors import counted
from ..text.language_marks import without_mark
from ..text.normalization import is_blank
from .sources.tables import Languages
from .sources.text_files import Pair
from .sources.text_source import TextSource, iterate_pairs, languages_of

# Name → description of the pairs, and the setting that drops them. The last two are checked after tokenization.
ISSUES = {
    "empty": ("with an empty side", None),
    "control_characters": ("with control characters", "drop_control_characters"),
    "copies": ("whose target is the source", "drop_copies"),
    "duplicates": ("that repeat an earlier pair", "drop_duplicates"),
    "too_long": ("with more than {max_length} tokens on a side", None),
    "length_ratio": ("with one side more than {ratio:g} times as long as the other", "max_length_ratio"),
}
# Unicode category Cc except the tab, which acts as a space. Line ends inside a text are included.
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# Used for counting if no max_length_ratio is set; the limit in the corpus cleaner of Moses (Koehn et al.).
COUNTED_RATIO = 9.0


@dataclass(frozen=True)
class FilterSettings:
    """Which pairs are dropped from the training text, besides those with an empty side."""

    drop_control_characters: bool = False  # drop pairs with a character of Unicode category Cc other than the tab
    drop_copies: bool = False  # drop pairs whose target equals the source, up to surrounding whitespace
    drop_duplicates: bool = False  # drop exact repetitions of an earlier pair
    count_duplicates: bool = True  # False for a stream, in which duplicates are not detected
    max_length: int | None = None  # drop pairs with more tokens than this on either side; None for no limit
    # Drop pairs whose longer side has more than this many times the tokens of the shorter.
    max_length_ratio: float | None = None

    def drops(self, issue: str) -> bool:
        """Whether pairs with an issue, a key of `ISSUES`, are dropped."""
        setting = ISSUES[issue][1]
        return setting is None or bool(getattr(self, setting))


class PairFilter:
    """Yields the pairs to keep, and counts all pairs and their issues.

    Counts accumulate, and duplicates are detected, across all texts that a filter is called with.

    Attributes:
        counts: pairs read ("pairs") and pairs by issue: "empty", "control_characters", "copies", "duplicates".
    """

    def __init__(self, settings: FilterSettings = FilterSettings()):
        self.settings = settings
        names = ["pairs", "empty", "control_characters", "copies"]
        self.counts = dict.fromkeys(names + ["duplicates"] * settings.count_duplicates, 0)
        self._seen = HashSet()

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Lazily yield the pairs that are kept."""
        dropped = {issue for issue in self.counts if issue != "pairs" and self.settings.drops(issue)}
        for pair in pairs:
            self.counts["pairs"] += 1
            found, is_kept = [], True
            for issue in self._issues(*pair):
                if issue in dropped:
                    found, is_kept = [issue], False
                    break
                found.append(issue)
            for issue in found:
                self.counts[issue] += 1
            if is_kept:
                yield pair

    def _issues(self, source: str, target: str) -> Iterator[str]:
        """Yield a pair's issues in the order of `ISSUES`, lazily: once a pair is dropped, the rest are not checked."""
        if is_blank(source) or is_blank(target):
            yield "empty"
        if CONTROL_CHARACTER.search(source) or CONTROL_CHARACTER.search(target):
            yield "control_characters"
        if without_mark(source).strip() == target.strip():
            yield "copies"
        if self.settings.count_duplicates and not self._seen.add(hash_of_pair(source, target)):
            yield "duplicates"


def filter_lengths(
    source_lengths: np.ndarray, target_lengths: np.ndarray, settings: FilterSettings
) -> tuple[np.ndarray, dict[str, int]]:
    """Decide which pairs to keep by their lengths.

    Args:
        source_lengths, target_lengths: integer arrays `(pairs,)`, in tokens.

    Returns:
        A boolean array `(pairs,)`, True for pairs to keep, and the counts of the issues "too_long" and "length_ratio".
    """
    longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
    fits = np.full(longer.shape, True) if settings.max_length is None else longer <= settings.max_length
    uneven = fits & (longer > (settings.max_length_ratio or COUNTED_RATIO) * shorter)
    counts = {"too_long": int((~fits).sum()), "length_ratio": int(uneven.sum())}
    return fits & ~uneven if settings.drops("length_ratio") else fits, counts


def covering_length(source_lengths: np.ndarray, target_lengths: np.ndarray, share: float) -> int:
    """Return the smallest length, in tokens, such that at least a given share of the pairs fit on both sides.

    Args:
        source_lengths, target_lengths: integer arrays `(pairs,)`, in tokens.
        share: of the pairs, above 0 and at most 1.
    """
    return int(np.quantile(np.maximum(source_lengths, target_lengths), share, method="inverted_cdf"))


def filter_report(counts: dict[str, int], settings: FilterSettings) -> list[str]:
    """Describe what was found and what was done about it, one line per issue that occurs.

    Args:
        counts: the counts of a [`PairFilter`], plus those of [`filter_lengths`] if known.
    """
    read, kept = counts["pairs"], pairs_kept(counts, settings)
    lines = [f"{counted(read, 'pair')} read, {read - kept:,} left out, {kept:,} kept"]
    for issue, count, description in issues_found(counts, settings):
        if not count:
            continue
        setting = ISSUES[issue][1]
        value = f"{COUNTED_RATIO:g}" if issue == "length_ratio" else "true"
        outcome = "left out" if settings.drops(issue) else f"kept; --{setting} {value} leaves them out"
        lines.append(f"  {count:,} {description}: {outcome}")
    if "duplicates" not in counts:
        lines.append("  a stream is not searched for repeated pairs")
    return lines


def pairs_kept(counts: dict[str, int], settings: FilterSettings) -> int:
    """The number of pairs left to train on; `counts` as in [`filter_report`]."""
    return counts["pairs"] - sum(counts[issue] for issue in ISSUES if issue in counts and settings.drops(issue))


def issues_found(counts: dict[str, int], settings: FilterSettings) -> list[tuple[str, int, str]]:
    """The name, count and description of each issue that was checked for; `counts` as in [`filter_report`]."""
    values = {"max_length": settings.max_length, "ratio": settings.max_length_ratio or COUNTED_RATIO}
    return [
        (issue, counts[issue], description.format(**values))
        for issue, (description, _) in ISSUES.items()
        if issue in counts and not (issue == "too_long" and settings.max_length is None)
    ]


def filter_summary(counts: dict[str, int], settings: FilterSettings) -> str:
    """The filter report on one line."""
    return "; ".join(map(str.strip, filter_report(counts, settings)))


def hash_of_pair(source: str, target: str, seed: int = 0) -> int:
    """A 64-bit BLAKE2b hash of a pair, the same in every process.

    The probability that any two of 36 million different pairs share a hash is 0.00004.
    """
    text = f"{len(source)} {source}{target}".encode("utf-8", "surrogatepass")
    salt = seed.to_bytes(8, "little")
    return int.from_bytes(blake2b(text, digest_size=8, salt=salt).digest(), "little")


class HashSet:
    """A set of 64-bit hashes: an open-addressing table with 8 bytes per slot, at most two thirds full.

    It takes 12 to 24 bytes per hash, and half as much again while it grows: 512 MiB for 36 million pairs, for which a
    Python set needs about 3 GB.
    """

    def __init__(self):
        self._table = array("Q", [0]) * 1024
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, number: int) -> bool:
        return self._table[_slot(self._table, number or 1)] != 0

    def add(self, number: int) -> bool:
        """Add a number, at least 0 and below 2^64, and return whether it is new."""
        # 0 marks a free slot, so it is stored as 1.
        number = number or 1
        if not _insert(self._table, number):
            return False
        self._used += 1
        if 3 * self._used > 2 * len(self._table):
            table = array("Q", [0]) * (2 * len(self._table))
            for present in self._table:
                if present:
                    _insert(table, present)
            self._table = table
        return True


def _slot(table: array, number: int) -> int:
    """The slot that has a number, or the free one where it would be."""
    mask = len(table) - 1
    slot = number & mask
    while (present := table[slot]) and present != number:
        slot = (slot + 1) & mask
    return slot


def _insert(table: array, number: int) -> bool:
    """Put a number in its slot or the first free one after it; return False if it is already there."""
    slot = _slot(table, number)
    if table[slot]:
        return False
    table[slot] = number
    return True


@dataclass(frozen=True)
class HeldOut:
    """Which pairs of the training text are held out; none by default."""

    # Shares of the text, at least 0 and together below 1.
    validation: float = 0.0
    test: float = 0.0
    seed: int = 1  # a different seed holds out different pairs; at least 0 and below 2^64
    # The language that all sources share, if the others differ: its sentences are held out of all of them, as the same
    # ones are often in several, such as the verses of a Bible.
    language: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.validation or self.test)

    def part_of(self, pair: Pair, side: int | None = None) -> str:
        """The part that a pair belongs to: `"train"`, `"validation"` or `"test"`.

        Args:
            side: the one that decides, 0 or 1; by default, both.
        """
        texts = pair if side is None else (pair[side], "")
        position = hash_of_pair(*texts, self.seed) / 2**64
        if position < self.validation:
            return "validation"
        return "test" if position < self.validation + self.test else "train"

    def select(
        self,
        pairs: Iterable[Pair],
        part: str,
        in_files: Callable[[Pair], Pair] = lambda pair: pair,
        side: int | None = None,
    ) -> Iterator[Pair]:
        """The pairs of a part, in order.

        Args:
            in_files: gives a pair as its files have it, by which it is held out.
            side: as in [`part_of`].
        """
        return (pair for pair in pairs if self.part_of(in_files(pair), side) == part) if self else iter(pairs)

    def pairs_of(self, source: TextSource, languages: Languages, part: str, streaming: bool = False) -> Iterator[Pair]:
        """The pairs of a source that belong to a part, regardless of the direction in which the source is read.

        Nothing is held out of a source whose pairs were made from training text: all of them are for training.
        """
        pairs = iterate_pairs(source, languages, streaming)
        if source.made:
            return pairs if part == "train" else iter(())
        side = None
        if self.language:
            side = int(languages_of(source, languages)[0] != self.language)
        return self.select(pairs, part, source.in_files, side)

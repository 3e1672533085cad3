"""Faults of parallel text: counted in all pairs, and the pairs left out where that is wanted.

Pairs with an empty side or a side that is too long cannot be used, and are always left out. For the rest the text that
is given is the text that is trained on, unless a setting says otherwise. The order of the faults is fixed: that of
`FAULTS`. A pair that is left out counts once, under the first fault for which it is; one that is kept counts under
each of its faults. So what a fault counts is what its setting leaves out, or would.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..errors import InputError
from ..wording import counted
from .parallel_text import Pair

# Name → what pairs have it, and the setting that leaves them out. The last two show on token ids alone.
FAULTS = {
    "empty": ("with an empty side", None),
    "control_characters": ("with control characters", "drop_control_characters"),
    "copies": ("whose target is the source", "drop_copies"),
    "duplicates": ("that repeat an earlier pair", "drop_duplicates"),
    "too_long": ("with more than {max_length} tokens on a side", None),
    "length_ratio": ("with one side more than {ratio:g} times as long as the other", "max_length_ratio"),
}
# Unicode's category Cc, without the tab, which stands for a space. Line ends within a text belong to it.
CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# What is counted where no max_length_ratio is set: Koehn et al.'s corpus cleaner leaves out above it too.
COUNTED_RATIO = 9.0


@dataclass(frozen=True)
class FilterSettings:
    """Which pairs are left out of the training text besides those with an empty side.

    Attributes:
        drop_control_characters: those with a character of Unicode's category Cc other than the tab.
        drop_copies: those whose target is the source, but for white space around it.
        drop_duplicates: those that were there before, character for character.
        count_duplicates: False for a stream, in which they are not looked for.
        max_length: those with more tokens on a side; None for no limit.
        max_length_ratio: those whose longer side has more than so many times the tokens of the shorter.
    """

    drop_control_characters: bool = False
    drop_copies: bool = False
    drop_duplicates: bool = False
    count_duplicates: bool = True
    max_length: int | None = None
    max_length_ratio: float | None = None

    def __post_init__(self):
        if self.drop_duplicates and not self.count_duplicates:
            raise InputError("drop_duplicates: repeated pairs are not looked for in a stream; set it to false.")
        if self.max_length_ratio is not None and not self.max_length_ratio >= 1:
            raise InputError(f"max_length_ratio must be at least 1, got {self.max_length_ratio}.")

    def drops(self, fault: str) -> bool:
        """Whether pairs with a fault, a key of `FAULTS`, are left out."""
        setting = FAULTS[fault][1]
        return setting is None or bool(getattr(self, setting))


class PairFilter:
    """Passes pairs on, and counts them and their faults.

    Counts go on, and repeated pairs are found, over all texts that one filter is called with.

    Attributes:
        counts: pairs read ("pairs") and pairs by fault: "empty", "control_characters", "copies", "duplicates".
    """

    def __init__(self, settings: FilterSettings = FilterSettings()):
        self.settings = settings
        names = ["pairs", "empty", "control_characters", "copies"]
        self.counts = dict.fromkeys(names + ["duplicates"] * settings.count_duplicates, 0)
        self._seen = HashSet()

    def __call__(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs that are kept, as they are asked for."""
        dropped = {fault for fault in self.counts if fault != "pairs" and self.settings.drops(fault)}
        for pair in pairs:
            self.counts["pairs"] += 1
            found, is_kept = [], True
            for fault in self._faults(*pair):
                if fault in dropped:
                    found, is_kept = [fault], False
                    break
                found.append(fault)
            for fault in found:
                self.counts[fault] += 1
            if is_kept:
                yield pair

    def _faults(self, source: str, target: str) -> Iterator[str]:
        """In the order of `FAULTS`, each looked for only if the one before did not leave the pair out."""
        bare_source, bare_target = source.strip(), target.strip()
        if not bare_source or not bare_target:
            yield "empty"
        if CONTROL_CHARACTER.search(source) or CONTROL_CHARACTER.search(target):
            yield "control_characters"
        if bare_source == bare_target:
            yield "copies"
        if self.settings.count_duplicates and not self._seen.add(hash_of_pair(source, target)):
            yield "duplicates"


def filter_lengths(
    source_lengths: np.ndarray, target_lengths: np.ndarray, settings: FilterSettings
) -> tuple[np.ndarray, dict[str, int]]:
    """Which pairs are kept by their lengths.

    Args:
        source_lengths, target_lengths: integer arrays `(pairs,)`, in tokens.

    Returns:
        A boolean array `(pairs,)`, True for those that are kept, and the numbers of pairs "too_long" and
        "length_ratio".
    """
    longer, shorter = np.maximum(source_lengths, target_lengths), np.minimum(source_lengths, target_lengths)
    fits = np.full(longer.shape, True) if settings.max_length is None else longer <= settings.max_length
    uneven = fits & (longer > (settings.max_length_ratio or COUNTED_RATIO) * shorter)
    counts = {"too_long": int((~fits).sum()), "length_ratio": int(uneven.sum())}
    return fits & ~uneven if settings.drops("length_ratio") else fits, counts


def covering_length(source_lengths: np.ndarray, target_lengths: np.ndarray, share: float) -> int:
    """The least length, in tokens, that at least a share of the pairs does not exceed on either side.

    Args:
        source_lengths, target_lengths: integer arrays `(pairs,)`, in tokens.
        share: above 0 and at most 1.
    """
    return int(np.quantile(np.maximum(source_lengths, target_lengths), share, method="inverted_cdf"))


def filter_report(counts: dict[str, int], settings: FilterSettings) -> list[str]:
    """What was found and what became of it, a line for each fault.

    Args:
        counts: those of a [`PairFilter`], with those of [`filter_lengths`] where there are any.
    """
    read, kept = counts["pairs"], pairs_kept(counts, settings)
    lines = [f"{counted(read, 'pair')} read, {read - kept:,} left out, {kept:,} kept"]
    for fault, count, meaning in faults_found(counts, settings):
        setting = FAULTS[fault][1]
        fate = "left out" if settings.drops(fault) else f"kept; --{setting} {_value_of(setting)} leaves them out"
        lines.append(f"  {count:,} {meaning}: {fate}")
    if "duplicates" not in counts:
        lines.append("  repeated pairs are not looked for in a stream")
    return lines


def pairs_kept(counts: dict[str, int], settings: FilterSettings) -> int:
    """How many of the pairs that were read are left to train on; `counts` as in [`filter_report`]."""
    return counts["pairs"] - sum(counts[fault] for fault in FAULTS if fault in counts and settings.drops(fault))


def faults_found(counts: dict[str, int], settings: FilterSettings) -> list[tuple[str, int, str]]:
    """Each fault that was looked for: its name, the pairs that have it, its meaning; `counts` as in
    [`filter_report`]."""
    values = {"max_length": settings.max_length, "ratio": settings.max_length_ratio or COUNTED_RATIO}
    return [
        (fault, counts[fault], meaning.format(**values))
        for fault, (meaning, _) in FAULTS.items()
        if fault in counts and not (fault == "too_long" and settings.max_length is None)
    ]


def filter_summary(counts: dict[str, int], settings: FilterSettings) -> str:
    """The report in one line, of the faults that were found."""
    first, *lines = filter_report(counts, settings)
    return "; ".join([first, *(line.strip() for line in lines if not line.strip().startswith("0 "))])


def _value_of(setting: str) -> str:
    return f"{COUNTED_RATIO:g}" if setting == "max_length_ratio" else "true"


def hash_of_pair(source: str, target: str, seed: int = 0) -> int:
    """64 bits of BLAKE2b, the same in every process. Two different pairs out of 36 million share them with a
    probability of 0.00004."""
    text = f"{len(source)} {source}{target}".encode("utf-8", "surrogatepass")
    salt = seed.to_bytes(8, "little")
    return int.from_bytes(blake2b(text, digest_size=8, salt=salt).digest(), "little")


class HashSet:
    """A set of 64-bit hashes in an open-addressing table of 8 bytes a slot, at most two thirds full.

    That is 12 to 24 bytes a hash, and half as much again while it grows: 512 MiB for 36 million pairs, where
    Python's own set needs about 3 GB.
    """

    def __init__(self):
        self._table = array("Q", [0]) * 1024
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, number: int) -> bool:
        """Take in a number, at least 0 and below 2^64; whether it is new."""
        # 0 marks a free slot, and shares its place with 1.
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


def _insert(table: array, number: int) -> bool:
    """Put a number in its slot or the first free one after it; False where it is there already."""
    mask = len(table) - 1
    slot = number & mask
    while present := table[slot]:
        if present == number:
            return False
        slot = (slot + 1) & mask
    table[slot] = number
    return True

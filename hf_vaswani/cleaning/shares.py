"""Nested shares of the pairs that pass all other rules, by their score, and the pairs that they are compared on."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappush, heappushpop

from ..data.sources.text_files import Pair
from .clean import Judged
from .cleaner import MOST_PAIRS
from .rules import WORD, hash_of, is_long

SHARES = (1.0, 0.9, 0.75, 0.6, 0.45)
# Shares that differ by less than this part of the pairs are not told apart.
LEAST_DIFFERENCE = 0.05
# Pairs that are held out: at most, at least, and the share of those that are surely translations.
MOST_HELD_OUT, LEAST_HELD_OUT, HELD_OUT_SHARE = 500, 50, 0.2
# The share of the pairs with the default's least score that are not so sure.
UNSURE = 0.25
# Digits of a least score, as many scores are near 1; how much larger its share may be than was meant.
MOST_DIGITS, TOLERANCE = 7, 0.005


@dataclass(frozen=True)
class ScoredText:
    """Distinct pairs by their score, without those that they are compared on; of a large text, a sample.

    Attributes:
        pairs, scores: the highest score first.
        limits: least scores to compare, in ascending order; one of them is the default.
        held_out: trusted pairs, or pairs that are surely translations.
        overlap: how many pairs were left out as they are in the trusted text.
    """

    pairs: list[Pair]
    scores: list[float]
    limits: list[float]
    held_out: list[Pair]
    overlap: int

    @classmethod
    def of(cls, judged: Iterable[Judged], default: float, trusted: Sequence[Pair] = ()) -> "ScoredText":
        """Draw shares from the pairs that were kept, whatever their score.

        Args:
            default: the least score if nothing is measured.
            trusted: translations to compare on; by default, some pairs of the text that all signals agree on.
        """
        known, overlap = _Known(trusted), 0
        heap: list[tuple[int, float, bool, Pair]] = []
        for one in judged:
            if one.reason or math.isnan(one.score):
                continue
            if one.pair in known:
                overlap += 1
                continue
            entry = (-hash_of(*one.pair), one.score, not one.repairs and not one.passage, one.pair)
            if len(heap) < MOST_PAIRS:
                heappush(heap, entry)
            else:
                heappushpop(heap, entry)
        sample = sorted(heap, reverse=True)  # by hash, which has nothing to do with what the pairs are like
        held_out = [pair for _, pair in sorted((hash_of(*pair), pair) for pair in set(trusted))][:MOST_HELD_OUT]
        if not trusted:
            good = sorted(score for _, score, _, _ in sample if score >= default)
            least = good[int(UNSURE * len(good))] if good else math.inf
            sure = [pair for _, score, is_plain, pair in sample if is_plain and score >= least]
            held_out = sure[: min(int(HELD_OUT_SHARE * len(sure)), MOST_HELD_OUT)]
            known = _Known(held_out)
            sample = [entry for entry in sample if entry[-1] not in known]
        rows = sorted({pair: score for _, score, _, pair in sample}.items(), key=lambda row: (-row[1], row[0]))
        scores = [score for _, score in rows]
        return cls([pair for pair, _ in rows], scores, _limits(scores, default), held_out, overlap)

    def count(self, limit: float) -> int:
        """How many pairs have at least this score."""
        return _count(self.scores, limit)

    def sample(self, size: int, seed: int) -> "ScoredText":
        """The same with no more than a number of pairs."""
        if size >= len(self.pairs):
            return self
        rows = sorted(range(len(self.pairs)), key=lambda row: hash_of(str(seed), *self.pairs[row]))[:size]
        rows.sort()
        return replace(self, pairs=[self.pairs[row] for row in rows], scores=[self.scores[row] for row in rows])


class _Known:
    """Tells pairs that some text has, or a long side of which it has, but for case and marks."""

    def __init__(self, pairs: Iterable[Pair]):
        self._known = {one for pair in pairs for one in _parts(pair)}

    def __contains__(self, pair: Pair) -> bool:
        return bool(self._known) and not self._known.isdisjoint(_parts(pair))


def _parts(pair: Pair) -> list[tuple[str, ...]]:
    texts = [" ".join(WORD.findall(text.casefold())) for text in pair]
    long = [(side, own) for side, text, own in zip(("source", "target"), pair, texts) if is_long(text)]
    return [("pair", *texts), *long]


def _limits(scores: Sequence[float], default: float) -> list[float]:
    """Least scores that leave the default's share and others that differ from it and from each other."""
    found = {default: _count(scores, default)}
    for share in SHARES:
        limit = _limit(scores, share) if share < 1 else 0.0
        count = _count(scores, limit)
        if all(abs(count - other) >= max(LEAST_DIFFERENCE * len(scores), 1) for other in found.values()):
            found[limit] = count
    return sorted(found)


def _limit(scores: Sequence[float], share: float) -> float:
    """The shortest least score that leaves a share of the pairs, and hardly more."""
    number = math.ceil(share * len(scores))
    limit = 0.0
    for digits in range(1, MOST_DIGITS + 1) if number else ():
        limit = round(math.floor(scores[number - 1] * 10**digits) / 10**digits, digits)
        if _count(scores, limit) <= number + TOLERANCE * len(scores):
            break
    return limit


def _count(scores: Sequence[float], limit: float) -> int:
    return sum(score >= limit for score in scores)

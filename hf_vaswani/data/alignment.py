"""Which source token each target token is a translation of: translation probabilities, and links between tokens.

The probabilities of both directions are learned by IBM model 1 of Brown et al. 1993, "The Mathematics of Statistical
Machine Translation" (section 4.1): each target token is translated from one of the source tokens, or from the empty
word, all of which are equally likely to be its origin. Links are then made with a preference for the diagonal, as in
Dyer et al. 2013 (section 2), so that a token that occurs several times is linked to the nearest one. Links on which
both directions agree are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

ITERATIONS = 5
# Pairs of a source and a target position: their number bounds time, to a minute or two, and memory, to about 2 GB.
MOST_POSITIONS = 2**26
CHUNK_POSITIONS = 2**22  # that are worked on at a time
LONGEST = 256  # tokens of a side; a pair has as many positions as the product of both
SEED = 0
# The id of the empty word.
EMPTY = 0
# How strongly the diagonal is preferred (lambda), and what stands for a target token without a link.
DIAGONAL, NO_LINK = 4.0, -100


@dataclass(frozen=True)
class LexicalTable:
    """The probability t(target | source) of all tokens that occur in the same pair.

    Attributes:
        sources, targets: `(entries,)` int64, token ids, sorted by source and then by target; -1 is the empty word.
        probabilities: `(entries,)` float64; those of a source have the sum 1.
        counts: `(entries,)` float64, how often each source is expected to be the origin of each target.
    """

    sources: np.ndarray
    targets: np.ndarray
    probabilities: np.ndarray
    counts: np.ndarray

    def best(self, size: int, least: float = 0.0) -> dict[int, list[int]]:
        """The most probable target tokens of each source token, best first.

        Args:
            size: how many of each, at most.
            least: their lowest probability.
        """
        kept = np.flatnonzero((self.probabilities >= least) & (self.sources >= 0))
        kept = kept[np.lexsort((-self.probabilities[kept], self.sources[kept]))]
        tokens, starts, counts = np.unique(self.sources[kept], return_index=True, return_counts=True)
        rows = zip(tokens.tolist(), starts.tolist(), np.minimum(counts, size).tolist())
        return {token: self.targets[kept[start : start + count]].tolist() for token, start, count in rows}


def learn_translations(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], iterations: int = ITERATIONS
) -> LexicalTable:
    """Fit IBM model 1 by expectation maximization, from uniform probabilities.

    Of a large corpus, a random sample is used; pairs with an empty or a very long side are left out.

    Args:
        sources, targets: the token ids of each sentence, without special tokens.
        iterations: number of iterations.
    """
    lengths = np.array([[len(source), len(target)] for source, target in zip(sources, targets)]).reshape(-1, 2)
    rows = np.flatnonzero((lengths.min(1) > 0) & (lengths.max(1) <= LONGEST))
    rows = np.random.default_rng(SEED).permutation(rows)
    positions = ((lengths[rows, 0] + 1) * lengths[rows, 1]).cumsum()
    rows = rows[positions <= MOST_POSITIONS]
    width = max((int(targets[row].max()) for row in rows), default=0) + 1
    bounds = np.searchsorted(positions[: len(rows)], np.arange(0, MOST_POSITIONS, CHUNK_POSITIONS))
    bounds = np.unique([*bounds, len(rows)])
    chunks = [_Chunk.of(sources, targets, rows[a:b], width) for a, b in zip(bounds, bounds[1:])]
    entries = np.zeros(0, np.int64)
    for chunk in chunks:
        # The stable sort merges two sorted parts; numpy's unions are much slower.
        both = np.sort(np.concatenate([entries, chunk.entries]), kind="stable")
        entries = both[np.diff(both, prepend=-1) > 0]
    of_source = entries // width
    probabilities, counts = np.ones(len(entries)), np.zeros(len(entries))
    # An entry's number in the whole table, for those of each chunk, which takes their place.
    numbers = []
    for place, chunk in enumerate(chunks):
        numbers.append(np.searchsorted(entries, chunk.entries).astype(np.int32))
        chunks[place] = replace(chunk, entries=chunk.entries[:0].copy())
    for _ in range(iterations):
        counts = np.zeros(len(entries))
        for chunk, own in zip(chunks, numbers):
            counts[own] += chunk.expected_counts(probabilities[own])
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    return LexicalTable(of_source - 1, entries % width, probabilities, counts)


@dataclass(frozen=True)
class _Chunk:
    """The pairs of positions in some sentence pairs, those of the same target position next to each other.

    Attributes:
        entries: `(entries,)` int64, sorted: (source + 1) * width + target for each pair of tokens, without repetition.
        which: `(positions,)` int32, the number of the entry of each pair of positions.
        starts: `(target positions,)` int64, where those of each target position begin.
    """

    entries: np.ndarray
    which: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(
        cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], rows: np.ndarray, width: int
    ) -> "_Chunk":
        # Each source begins with the empty word.
        source = np.concatenate([part for row in rows for part in ([EMPTY], np.asarray(sources[row], np.int64) + 1)])
        target = np.concatenate([np.asarray(targets[row], np.int64) for row in rows])
        source_lengths = np.array([len(sources[row]) + 1 for row in rows])
        target_lengths = np.array([len(targets[row]) for row in rows])
        # For each target position: the length of its source, and where that begins.
        lengths = np.repeat(source_lengths, target_lengths)
        begins = np.repeat(source_lengths.cumsum() - source_lengths, target_lengths)
        starts = lengths.cumsum() - lengths
        origins = np.arange(lengths.sum()) + np.repeat(begins - starts, lengths)
        entries, which = np.unique(source[origins] * width + np.repeat(target, lengths), return_inverse=True)
        return cls(entries, which.astype(np.int32), starts)

    def expected_counts(self, probabilities: np.ndarray) -> np.ndarray:
        """How often each entry is the origin of a target token, `(entries,)`, given the probabilities of all."""
        each = probabilities[self.which]
        sizes = np.diff(self.starts, append=len(each))
        each /= np.repeat(np.add.reduceat(each, self.starts), sizes)
        return np.bincount(self.which, each, len(probabilities))


class Lexicon:
    """Looks up the probabilities of a table."""

    def __init__(self, table: LexicalTable):
        self.width = int(table.targets.max(initial=0)) + 1
        known = table.sources >= 0  # without the empty word
        # What is beyond all entries is found at the end.
        self.entries = np.append(table.sources[known] * self.width + table.targets[known], np.iinfo(np.int64).max)
        self.probabilities = np.append(table.probabilities[known], 0.0)

    def __call__(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Token ids `(n,)` and `(m,)` → t(target | source), `(n, m)`; 0 for tokens that never occur together."""
        wanted = sources[:, None] * self.width + targets
        places = np.searchsorted(self.entries, wanted)
        is_found = (self.entries[places] == wanted) & (targets < self.width)
        return np.where(is_found, self.probabilities[places], 0.0)


@dataclass(frozen=True)
class TokenAligner:
    """Aligns the tokens of a pair.

    Attributes:
        forward, backward: t(target | source) and t(source | target).
        special: the special tokens of source and of target, which are never linked.
    """

    forward: Lexicon
    backward: Lexicon
    special: tuple[np.ndarray, np.ndarray]

    @classmethod
    def learn(
        cls, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], special: tuple[list[int], list[int]]
    ) -> "TokenAligner":
        """Learn from pairs, see [`learn_translations`].

        Args:
            sources, targets: the token ids of each sentence.
            special: the special tokens of source and of target.
        """
        ignored = np.array(special[0], np.int64), np.array(special[1], np.int64)
        sides = [[row[~np.isin(row, ids)] for row in rows] for rows, ids in zip((sources, targets), ignored)]
        forward, backward = learn_translations(*sides), learn_translations(*reversed(sides))
        return cls(Lexicon(forward), Lexicon(backward), ignored)

    def __call__(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """For each target token, the position of the source token that it is linked to, or -100."""
        ids = np.asarray(source, np.int64), np.asarray(target, np.int64)
        rows, columns = (np.flatnonzero(~np.isin(side, special)) for side, special in zip(ids, self.special))
        links = [NO_LINK] * len(target)
        sides = ids[0][rows], ids[1][columns]
        for origin, place in agreed_links(self.forward(*sides), self.backward(*reversed(sides)).T):
            links[int(columns[place])] = int(rows[origin])
        return links


def agreed_links(forward: np.ndarray, backward: np.ndarray) -> list[tuple[int, int]]:
    """The links (source, target) on which both directions agree, in the order of the target.

    Args:
        forward, backward: t(target | source) and t(source | target), `(source, target)`.
    """
    if not forward.size:
        return []
    at_source, at_target = ((np.arange(size) + 0.5) / size for size in forward.shape)
    nearness = np.exp(-DIAGONAL * np.abs(at_source[:, None] - at_target))
    of_target, of_source = forward * nearness, backward * nearness
    best, places = of_target.argmax(axis=0), np.arange(forward.shape[1])
    agrees = (of_source.argmax(axis=1)[best] == places) & (of_target[best, places] > 0)
    return list(zip(best[agrees].tolist(), places[agrees].tolist()))

"""Pairs that are nearly the same: MinHash (Broder 1997) of the sequences of two words of both sides."""

import zlib
from collections.abc import Sequence

import numpy as np

# Each pair has BANDS hashes of ROWS minima each. Pairs that share at least one of them count as nearly the same: about
# 80 % of those with nine tenths of their sequences in common, 20 % of those with eight tenths, 3 % with seven.
BANDS, ROWS = 8, 16
FEWEST_WORDS = 8
_factors, _offsets = np.random.default_rng(0).integers(0, 2**64, (2, BANDS * ROWS), np.uint64)
_factors |= np.uint64(1)
_weights = np.random.default_rng(1).integers(0, 2**64, ROWS, np.uint64) | np.uint64(1)


def band_hashes(sides: Sequence[Sequence[str]]) -> np.ndarray:
    """Hashes of a pair's words, `(BANDS,)` uint64; zeros for a pair with few words."""
    if sum(map(len, sides)) < FEWEST_WORDS:
        return np.zeros(BANDS, np.uint64)
    sequences = {
        zlib.crc32(f"{side} {one} {other}".encode("utf-8", "surrogatepass"))
        for side, words in enumerate(sides) for one, other in zip(words, words[1:])
    }  # fmt: skip
    hashes = np.fromiter(sequences, np.uint64, len(sequences))
    # Products wrap around, and only their upper halves are mixed well.
    minima = ((hashes[:, None] * _factors + _offsets) >> np.uint64(32)).min(0).reshape(BANDS, ROWS)
    return (minima * _weights).sum(1, dtype=np.uint64) ^ np.arange(1, BANDS + 1, dtype=np.uint64)

"""Which source token each target token is a translation of, by lexical tables of both directions.

Both sides are aligned by IBM model 1 with a preference for the diagonal, as in Dyer et al. 2013 (section 2), so that a
token that occurs several times is linked to the nearest one. Links on which both directions agree are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .lexical_translation import LexicalTable, learn_translations

# How strongly the diagonal is preferred (lambda), and what stands for a target token without a link.
DIAGONAL, NO_LINK = 4.0, -100


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

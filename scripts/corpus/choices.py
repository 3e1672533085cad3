"""Random choices that give the same results for the same seed in every Python version.

Only `Random.random` guarantees this; `choice`, `sample` and `shuffle` have changed their algorithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
Weighted = Sequence[tuple[float, T]]  # pairs of a weight and an item


def chance(rng: Random, probability: float) -> bool:
    """True with this probability."""
    return rng.random() < probability


def pick(rng: Random, items: Sequence[T]) -> T:
    """One of the items, all equally likely."""
    return items[int(rng.random() * len(items))]


def pick_weighted(rng: Random, weights: Weighted[T]) -> T:
    """One of the items, with a probability in proportion to its weight."""
    position = rng.random() * sum(weight for weight, _ in weights)
    for weight, item in weights:
        position -= weight
        if position < 0:
            return item
    return weights[-1][1]


def pick_number(rng: Random, low: int, high: int) -> int:
    """A whole number from `low` to `high`, both included."""
    return low + int(rng.random() * (high - low + 1))

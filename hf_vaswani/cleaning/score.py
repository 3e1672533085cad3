"""Whether a pair is a translation, from 0 to 1: learned from the text itself, without judgments.

First, pairs are told from mismatched ones: sources with other targets of similar length. What is surely above these is
mostly good. Then, these pairs are told from mismatched ones and from damaged copies of themselves, of which a part is
missing or comes from another pair; and again, with the pairs that are good by that. More of what speaks for a
translation never lowers the score. How many pairs score as low as mismatched ones bounds how many can be bad: in a
text without these, free translations stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..data.sources.text_files import Pair
from .measures import MEASURES, PairMeasures

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

SEED = 0
# Mismatched pairs for each pair, and how far apart in length, by rank.
MISMATCHED, NEIGHBORS = 4, 12
# The share of mismatched pairs that are below those that are taken for good, and how many damaged copies are made.
SURE, DAMAGED = 0.99, 2
FOLDS, ROUNDS = 3, 4
MOST_PAIRS = 10_000
# Steps of each measure that are told apart. To find them for each fit would take most of the time.
STEPS = 64
# The share of mismatched pairs that are below what counts as low, and how many bad pairs of all kinds there may be for
# each one that is low.
LOW, OTHER_KINDS = 0.5, 2.0


@dataclass(frozen=True)
class TranslationScore:
    """Scores the measures of pairs.

    Attributes:
        measures: examples, `(examples, measures)` float32.
        labels: 1 for a translation, `(examples,)`.
        weights: of each example, `(examples,)`.
        least: what counts as 0.5, as hardly more of the pairs can be bad than have less; at most 0.5.
    """

    measures: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    least: float = 0.5

    @classmethod
    def learn(cls, pairs: Sequence[Pair], measures: PairMeasures) -> "TranslationScore":
        """Learn from pairs, of which some are no translations; the same pairs give the same score.

        Args:
            measures: learned from the same or from other text.
        """
        generator = np.random.default_rng(SEED)
        pairs = [pairs[row] for row in np.sort(generator.permutation(len(pairs))[:MOST_PAIRS])]
        of_pairs, halves = measures(pairs), measures.halves(pairs)
        known = np.flatnonzero(~np.isnan(of_pairs[:, 0]))
        pairs, of_pairs, halves = [pairs[row] for row in known], of_pairs[known], halves[known]

        def measured(make: Callable[[list[Pair], np.random.Generator], list[Pair]], rows: np.ndarray) -> np.ndarray:
            """The measures of bad pairs that are made of others, by a lexicon that has seen neither."""
            parts = [np.zeros((0, len(MEASURES)), np.float32)]
            for half in np.unique(halves[rows]):
                made = make([pairs[row] for row in rows[halves[rows] == half]], generator)
                parts.append(measures(made, np.full(len(made), half)))
            parts = np.concatenate(parts)
            return parts[~np.isnan(parts[:, 0])]

        of_mismatched = measured(_mismatched, np.arange(len(pairs)))
        example = cls.of(of_pairs, of_mismatched)
        scores, of_others = example.held_out(of_pairs), example.held_out(of_mismatched, len(of_pairs))
        good, bad = scores >= 0, 1.0
        if len(of_others):
            low, sure = np.quantile(of_others, [LOW, SURE])
            # Most mismatched pairs have one of a few scores.
            bad = min(float((scores <= low).mean() / (of_others <= low).mean()) * OTHER_KINDS, 1.0)
            good = scores >= min(sure, np.quantile(scores, bad))
        least = 0.5
        for _ in range(ROUNDS):
            example = cls.of(of_pairs[good], of_mismatched, measured(_damaged, np.flatnonzero(good)))
            # A pair is scored without itself.
            scores[good], scores[~good] = example.held_out(of_pairs[good]), example.raw(of_pairs[~good])
            least = min(float(np.quantile(scores, bad)), 0.5)
            good = scores >= least
        return replace(example, least=least)

    @classmethod
    def of(cls, good: np.ndarray, *bad: np.ndarray) -> "TranslationScore":
        """A score that tells good examples from bad ones, all kinds of which together weigh as much."""
        parts, shares = (good, *bad), (1.0, *([1 / len(bad)] * len(bad)))
        weights = np.concatenate([np.full(len(part), share / max(len(part), 1)) for part, share in zip(parts, shares)])
        labels = np.repeat([1, 0], [len(good), sum(map(len, bad))]).astype(np.int8)
        return cls(np.concatenate(parts), labels, weights * len(labels) / weights.sum())

    def __post_init__(self):
        shares = np.linspace(0, 1, STEPS + 1)[1:-1]
        edges = [np.unique(np.quantile(column, shares)) for column in self.measures.T] if len(self.measures) else []
        object.__setattr__(self, "_edges", edges)

    def _steps(self, measures: np.ndarray) -> np.ndarray:
        columns = [np.searchsorted(edges, column, side="right") for edges, column in zip(self._edges, measures.T)]
        return np.column_stack(columns).astype(np.float32)

    def __call__(self, measures: np.ndarray) -> np.ndarray:
        """Scores `(pairs,)` float32 of pairs by their measures; 0 where a side has no words."""
        raw = self.raw(measures)
        good = raw * (1 - self.least)
        return good / np.maximum(good + (1 - raw) * self.least, 1e-12)

    def raw(self, measures: np.ndarray) -> np.ndarray:
        """Scores for a text half of which are translations, `(pairs,)` float32."""
        if not hasattr(self, "_classifier"):
            fitted = _classifier().fit(self._steps(self.measures), self.labels, self.weights)
            object.__setattr__(self, "_classifier", fitted)
        found = np.zeros(len(measures), np.float32)
        known = ~np.isnan(measures[:, 0])
        if known.any():
            found[known] = self._classifier.predict_proba(self._steps(measures[known]))[:, 1]
        return found

    def held_out(self, measures: np.ndarray, first: int = 0) -> np.ndarray:
        """Scores of examples, each by what is learned from others.

        Args:
            measures: of the examples from number `first` on.
        """
        folds, found = np.arange(len(self.labels)) % FOLDS, np.zeros(len(measures), np.float32)
        own = folds[first : first + len(measures)]
        examples, measures = self._steps(self.measures), self._steps(measures)
        for fold in range(FOLDS):
            rest = folds != fold
            fitted = _classifier().fit(examples[rest], self.labels[rest], self.weights[rest])
            if (own == fold).any():
                found[own == fold] = fitted.predict_proba(measures[own == fold])[:, 1]
        return found

    def save(self, folder: Path) -> None:
        """Write the examples into a folder: the score is learned from them again, in a second."""
        from safetensors.numpy import save_file

        arrays = {"measures": self.measures, "labels": self.labels, "weights": self.weights}
        arrays["least"] = np.array([self.least])
        save_file(arrays, folder / "examples.safetensors")

    @classmethod
    def load(cls, folder: Path) -> "TranslationScore":
        """Read what [`save`] has written."""
        from safetensors.numpy import load_file

        arrays = load_file(folder / "examples.safetensors")
        return cls(**{**arrays, "least": float(arrays["least"][0])})


def _classifier() -> "HistGradientBoostingClassifier":
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.06, max_leaf_nodes=8, early_stopping=False,
        monotonic_cst=list(MEASURES.values()), random_state=SEED,
    )  # fmt: skip


def _mismatched(pairs: Sequence[Pair], generator: np.random.Generator) -> list[Pair]:
    """Sources with the targets of other pairs, of similar length."""
    by_source = sorted(pairs, key=lambda pair: (len(pair[0]), pair))
    by_target = sorted(pairs, key=lambda pair: (len(pair[1]), pair))
    found = []
    for rank, (source, target) in enumerate(by_source):
        for step in generator.integers(-NEIGHBORS, NEIGHBORS + 1, MISMATCHED).tolist():
            other = by_target[min(max(rank + step, 0), len(pairs) - 1)]
            if other[0] != source and other[1] != target:
                found.append((source, other[1]))
    return found


def _damaged(pairs: Sequence[Pair], generator: np.random.Generator) -> list[Pair]:
    """Pairs of which a part of a side is missing, or comes from another pair."""
    found = []
    for source, target in pairs:
        # Of a side without spaces, characters are left out instead of words.
        joins = ["" if len(text.split()) < 2 and len(text) > 1 else " " for text in (source, target)]
        sides = [text.split() if join else list(text) for text, join in zip((source, target), joins)]
        for kind, share in zip(generator.random(DAMAGED), generator.uniform(0.3, 0.75, DAMAGED)):
            side = int(kind < 0.35)
            if kind < 0.7:
                count = max(1, int(len(sides[side]) * share))
                at_start = generator.random() < 0.5
                part = joins[side].join(sides[side][:count] if at_start else sides[side][-count:])
                damaged = (source, part) if side else (part, target)
            else:
                other = pairs[int(generator.integers(len(pairs)))][1]
                count = max(1, int(len(sides[1]) * share))
                rest = other[int(len(other) * share) :]
                damaged = source, joins[1].join([*sides[1][:count], rest.strip()])
            if damaged != (source, target):
                found.append(damaged)
    return found

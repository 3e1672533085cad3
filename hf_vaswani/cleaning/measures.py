"""What is measured of a pair: how well its words explain each other, and how well numbers, marks, and lengths agree.

Words are explained by the lexicons of `data/alignment.py` in both directions, learned from the text itself; words that
are the same on both sides, such as names, explain each other.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from ..data.alignment import LexicalTable, learn_translations
from ..data.sources.text_files import Pair
from .rules import hash_of

VOCABULARY = 16_000
# The lowest probabilities with which a word counts as explained, and that of equal words.
EXPLAINED = (0.02, 0.1, 0.3)
SAME, LEAST = 0.5, 1e-4
# Expected occurrences of an entry that are too few to count.
LEAST_COUNT = 0.05
# The probability from which words are linked, and how far links are from the diagonal where there are few.
LINKED, USUAL_DISTANCE = 0.2, 0.3
# Pairs, and combinations of their words, that are worked on at a time.
BATCH, MOST_CELLS = 2000, 2**20
# Words of a side that are looked at: of longer pairs, the beginning. The number of combinations grows with its square.
LONGEST = 1000
# Of equal words, how many letters make them alike by more than chance.
ALIKE = 3
NUMBER = re.compile(r"\d+")
UNKNOWN = "<unk>"
DIRECTIONS = ("forward", "backward")

# Name → whether more of it speaks for a translation (1) or against it (-1).
MEASURES = {
    **{f"source_explained_{least:g}": 1 for least in EXPLAINED}, "source_gap": -1, "source_tail": -1,
    **{f"target_explained_{least:g}": 1 for least in EXPLAINED}, "target_gap": -1, "target_tail": -1,
    "target_best": 1, "target_best_rare": 1, "source_best": 1, "source_best_rare": 1,
    "target_probability": 1, "source_probability": 1,
    "source_same": 1, "target_same": 1, "distance": -1,
    "numbers": 1, "other_numbers": -1, "length_difference": -1, "marks": 1, "ends": 1,
}  # fmt: skip


@dataclass(frozen=True)
class CellLexicon:
    """Looks up translation probabilities of many pairs at once.

    Attributes:
        entries: `(entries,)` int64, sorted: source * width + target.
        counts: how often each source becomes each target, `(entries,)`.
        totals: the sum of these of each source, those of rare targets included, `(width,)`.
    """

    entries: np.ndarray
    counts: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, table: LexicalTable, width: int) -> "CellLexicon":
        """A lexicon of a table, without the entries that explain nothing.

        Args:
            width: size of the vocabulary.
        """
        known = table.sources >= 0  # without the empty word
        totals = np.bincount(table.sources[known], table.counts[known], width)
        some = known & (table.probabilities >= LEAST) & (table.counts >= LEAST_COUNT)
        return cls(table.sources[some] * width + table.targets[some], table.counts[some], totals)

    def __post_init__(self):
        import pandas

        probabilities = self.counts / np.maximum(self.totals, 1e-12)[self.entries // len(self.totals)]
        # Its hash table takes a fraction of the time of a binary search. What it does not find is at the end.
        object.__setattr__(self, "_index", pandas.Index(self.entries))
        object.__setattr__(self, "_probabilities", np.append(probabilities, 0.0))

    def __add__(self, other: "CellLexicon") -> "CellLexicon":
        """A lexicon of both texts."""
        entries, places = np.unique(np.concatenate([self.entries, other.entries]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([self.counts, other.counts]))
        return CellLexicon(entries, counts, self.totals + other.totals)

    def __call__(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Token ids → t(target | source) for each two of them, all `(cells,)`."""
        return self._probabilities[self._index.get_indexer(sources * len(self.totals) + targets)]


@dataclass(frozen=True)
class Cells:
    """All combinations of a source and a target token of the same pair.

    Attributes:
        sources, targets: `(cells,)` int64, the number of the token of each side; the cells of a source are next to
            each other.
        starts: where the cells of each source begin, `(n,)`.
        by_target, target_starts: the same cells, those of a target next to each other, and where these begin, `(m,)`.
    """

    sources: np.ndarray
    targets: np.ndarray
    starts: np.ndarray
    by_target: np.ndarray
    target_starts: np.ndarray

    @classmethod
    def of(cls, lengths: np.ndarray) -> "Cells":
        """Cells of pairs whose sides have these many tokens, `(pairs, 2)`, none of them 0."""
        source_lengths, target_lengths = lengths.T
        of_sources, of_targets = np.repeat(target_lengths, source_lengths), np.repeat(source_lengths, target_lengths)
        starts, target_starts = _starts(of_sources), _starts(of_targets)
        sources, targets = np.arange(len(of_sources)).repeat(of_sources), np.arange(of_sources.sum())
        targets += (np.repeat(_starts(target_lengths), source_lengths) - starts).repeat(of_sources)
        # The cell of target j and source i of a pair is the one that is i * m + j after the first.
        within = np.arange(len(targets)) - target_starts.repeat(of_targets)
        firsts = np.repeat(_starts(source_lengths * target_lengths), target_lengths)
        firsts += np.arange(len(of_targets)) - np.repeat(_starts(target_lengths), target_lengths)
        by_target = firsts.repeat(of_targets) + within * np.repeat(target_lengths, target_lengths).repeat(of_targets)
        return cls(sources, targets, starts, by_target, target_starts)

    def best(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The greatest value of each source, `(n,)`, and of each target, `(m,)`."""
        return (
            np.maximum.reduceat(values, self.starts),
            np.maximum.reduceat(values[self.by_target], self.target_starts),
        )


def _starts(lengths: np.ndarray) -> np.ndarray:
    return lengths.cumsum() - lengths


@dataclass(frozen=True)
class PairMeasures:
    """Measures pairs.

    Words must be explained by other pairs: rare words of a pair always explain each other. So a pair is measured by
    what was learned from the half of the text that it is not in, and pairs of other texts by both halves.

    Attributes:
        tokenizer: of the subwords of both sides.
        lexicons: t(target | source) and t(source | target) of these, for the pairs of each half of the text; or one
            for all pairs.
        counts: how often each subword occurs, `(2, vocabulary)`.
        length_ratio: the usual length of a target in characters, divided by its source's.
    """

    tokenizer: Tokenizer
    lexicons: tuple[tuple[CellLexicon, CellLexicon], ...]
    counts: np.ndarray
    length_ratio: float

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> "PairMeasures":
        """Learn subwords and lexicons from pairs; the same pairs give the same measures."""
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[UNKNOWN], show_progress=False)
        tokenizer.train_from_iterator((text for pair in pairs for text in pair), trainer)
        sides, size = [_encoded(tokenizer, texts) for texts in zip(*pairs)], tokenizer.get_vocab_size()
        halves, lexicons = _halves(pairs), []
        for half in (0, 1):
            own = [[side[row] for row in np.flatnonzero(halves != half)] for side in sides]
            lexicons.append(tuple(CellLexicon.of(learn_translations(*one), size) for one in (own, own[::-1])))
        counts = np.array([np.bincount(np.concatenate(rows), minlength=size) for rows in sides])
        ratios = [math.log(len(target) / len(source)) for source, target in pairs if source and target]
        return cls(tokenizer, tuple(lexicons), counts, math.exp(float(np.median(ratios))))

    def for_other_text(self) -> "PairMeasures":
        """The same measures for pairs that were not learned from."""
        return replace(self, lexicons=(tuple(reduce(add, own) for own in zip(*self.lexicons)),))

    def halves(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Which lexicon measures each pair, `(pairs,)`."""
        return _halves(pairs) if len(self.lexicons) > 1 else np.zeros(len(pairs), int)

    def __post_init__(self):
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])
        alike = [text != UNKNOWN and (len(text) >= ALIKE or text.isdigit()) for text, _ in vocabulary]
        rarity = [np.log(max(own.sum(), 1) / np.maximum(own, 1)) for own in self.counts]
        object.__setattr__(self, "_is_word", np.array([any(map(str.isalnum, text)) for text, _ in vocabulary]))
        object.__setattr__(self, "_is_alike", np.array(alike))
        object.__setattr__(self, "_rarity", rarity)

    def __call__(self, pairs: Sequence[Pair], halves: np.ndarray | None = None) -> np.ndarray:
        """Measure pairs, `(pairs, measures)` float32; not-a-number where a side has no words.

        Args:
            halves: which lexicon measures each pair, if they were made of others; by default, that of the pair.
        """
        found = np.full((len(pairs), len(MEASURES)), np.nan, np.float32)
        halves = self.halves(pairs) if halves is None else halves
        for start in range(0, len(pairs), BATCH):
            some = pairs[start : start + BATCH]
            ids = [_encoded(self.tokenizer, texts) for texts in zip(*some)]
            words = _beginnings(*([own[self._is_word[own]] for own in side] for side in ids))
            sizes = np.array([len(one) * len(other) for one, other in zip(*words)])
            for half in np.unique(halves[start : start + BATCH]):
                rows = np.flatnonzero((halves[start : start + BATCH] == half) & (sizes > 0))
                cells = sizes[rows].cumsum() // MOST_CELLS
                for number in np.unique(cells):
                    part = rows[cells == number]
                    found[start + part] = self._measure(
                        [some[row] for row in part],
                        self.lexicons[half],
                        *([side[row] for row in part] for side in (*words, *ids)),
                    )
        return found

    def _measure(
        self,
        pairs: Sequence[Pair],
        lexicons: tuple[CellLexicon, CellLexicon],
        source_words: Sequence[np.ndarray],
        target_words: Sequence[np.ndarray],
        source_ids: Sequence[np.ndarray],
        target_ids: Sequence[np.ndarray],
    ) -> np.ndarray:
        """Measure pairs that have words on both sides, in the order of [`MEASURES`], `(pairs, measures)`."""
        lengths = np.array([list(map(len, side)) for side in (source_words, target_words)]).T
        source, target, cells = np.concatenate(source_words), np.concatenate(target_words), Cells.of(lengths)
        ids = source[cells.sources], target[cells.targets]
        same = (ids[0] == ids[1]) & self._is_alike[ids[0]]
        forward = np.maximum(lexicons[0](*ids), SAME * same)
        backward = np.maximum(lexicons[1](*ids[::-1]), SAME * same)
        either, rarity = np.maximum(forward, backward), (self._rarity[0][source], self._rarity[1][target])
        sides = [_Side(own, weights) for own, weights in zip(lengths.T, rarity)]
        values = []
        for side, best in zip(sides, cells.best(either)):
            values += [side.weighted_mean(best >= least) for least in EXPLAINED]
            values += [runs / side.lengths for runs in side.runs(best < EXPLAINED[1])]
        for side, best in ((sides[1], cells.best(forward)[1]), (sides[0], cells.best(backward)[0])):
            logs = np.log(np.maximum(best, LEAST))
            values += [side.mean(logs), side.weighted_mean(logs)]
        of_targets = np.bincount(cells.targets, forward) / np.repeat(lengths[:, 0], lengths[:, 1])
        of_sources = np.bincount(cells.sources, backward) / np.repeat(lengths[:, 1], lengths[:, 0])
        for side, share in ((sides[1], of_targets), (sides[0], of_sources)):
            values.append(side.mean(np.log(np.maximum(share, LEAST**2))))
        values += [side.mean(best) for side, best in zip(sides, cells.best(same))]
        values.append(_distance(cells, sides, either >= LINKED))
        numbers = [_agreement(*map(NUMBER.findall, pair)) for pair in pairs]
        values += [np.array([share for share, _ in numbers]), np.array([count for _, count in numbers])]
        characters = np.array([[len(text) for text in pair] for pair in pairs])
        values.append(np.abs(np.log(characters[:, 1] / characters[:, 0] / self.length_ratio)))
        marks = ([own[~self._is_word[own]].tolist() for own in side] for side in (source_ids, target_ids))
        values.append(np.array([_agreement(*own)[0] for own in zip(*marks)]))
        ends = ([text.rstrip()[-1:].isalnum() for text in pair] for pair in pairs)
        values.append(np.array([one == other for one, other in ends]))
        return np.column_stack(values)

    def save(self, folder: Path) -> None:
        """Write the measures into a folder."""
        from safetensors.numpy import save_file

        self.tokenizer.save(str(folder / "subwords.json"))
        arrays = {"counts": self.counts}
        for half, lexicons in enumerate(self.lexicons):
            for direction, lexicon in zip(DIRECTIONS, lexicons):
                arrays |= {f"{half}.{direction}.{own.name}": getattr(lexicon, own.name) for own in fields(lexicon)}
        save_file(arrays, folder / "lexicons.safetensors")
        values = {"length_ratio": self.length_ratio, "lexicons": len(self.lexicons)}
        (folder / "measures.json").write_text(json.dumps(values))

    @classmethod
    def load(cls, folder: Path) -> "PairMeasures":
        """Read what [`save`] has written."""
        from safetensors.numpy import load_file

        arrays, values = load_file(folder / "lexicons.safetensors"), json.loads((folder / "measures.json").read_text())
        lexicons = tuple(
            tuple(
                CellLexicon(**{own.name: arrays[f"{half}.{direction}.{own.name}"] for own in fields(CellLexicon)})
                for direction in DIRECTIONS
            )
            for half in range(values["lexicons"])
        )
        tokenizer = Tokenizer.from_file(str(folder / "subwords.json"))
        return cls(tokenizer, lexicons, arrays["counts"], values["length_ratio"])


def _halves(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([hash_of(*pair) % 2 for pair in pairs], int)


def _beginnings(*sides: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    """The same share of both sides of each pair, so that the longer one has no more than [`LONGEST`] words."""
    shares = [min(LONGEST / max(len(one), len(other), 1), 1.0) for one, other in zip(*sides)]
    return [[words[: math.ceil(share * len(words))] for words, share in zip(side, shares)] for side in sides]


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    return [np.array(one.ids, np.int64) for one in tokenizer.encode_batch_fast(list(texts))]


@dataclass(frozen=True)
class _Side:
    """The tokens of one side of some pairs, one pair after the other.

    Attributes:
        lengths: how many tokens each pair has, `(pairs,)`.
        weights: of the tokens.
    """

    lengths: np.ndarray
    weights: np.ndarray

    def __post_init__(self):
        object.__setattr__(self, "starts", _starts(self.lengths))

    def mean(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values.astype(float), self.starts) / self.lengths

    def weighted_mean(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values * self.weights, self.starts) / np.add.reduceat(self.weights, self.starts)

    def runs(self, are_part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lengths of the longest run in each pair, and of the one at its end."""
        places = np.arange(len(are_part))
        before = np.where(are_part, -1, places)
        before[self.starts] = np.where(are_part[self.starts], self.starts - 1, self.starts)
        runs = places - np.maximum.accumulate(before)
        return np.maximum.reduceat(runs, self.starts), runs[self.starts + self.lengths - 1]


def _distance(cells: Cells, sides: Sequence[_Side], are_linked: np.ndarray) -> np.ndarray:
    """How far from the diagonal the linked cells of each pair are, on average; a usual value for few of them."""
    linked = np.flatnonzero(are_linked)
    tokens = [own[linked] for own in (cells.sources, cells.targets)]
    numbers = [np.arange(len(side.lengths)).repeat(side.lengths)[own] for side, own in zip(sides, tokens)]
    shares = [(own - side.starts[of]) / side.lengths[of] for side, own, of in zip(sides, tokens, numbers)]
    counts, size = np.bincount(numbers[0], minlength=len(sides[0].lengths)), len(sides[0].lengths)
    sums = np.bincount(numbers[0], np.abs(shares[0] - shares[1]), size)
    return np.where(counts > 2, sums / np.maximum(counts, 1), USUAL_DISTANCE)


def _agreement(one: Sequence, other: Sequence) -> tuple[float, int]:
    """The share of items that two lists have in common, 1 if there are none; and the number of the others."""
    if one == other:
        return 1.0, 0
    counts = Counter(one), Counter(other)
    common, total = (counts[0] & counts[1]).total(), (counts[0] | counts[1]).total()
    return common / total, total - common

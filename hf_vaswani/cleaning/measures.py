"""What is measured of a pair: how well its words explain each other, and how well numbers, marks, and lengths agree.

Words are explained by the lexicons of `data/alignment.py` in both directions, learned from the text itself; words that
are the same on both sides, such as names, explain each other.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from ..data.alignment import LexicalTable, learn_translations
from ..data.sources.text_files import Pair

VOCABULARY = 16_000
# The lowest probabilities with which a word counts as explained, and that of equal words.
EXPLAINED = (0.02, 0.1, 0.3)
SAME, LEAST = 0.5, 1e-4
# Of equal words, how many letters make them alike by more than chance.
ALIKE = 3
NUMBER = re.compile(r"\d+")
UNKNOWN = "<unk>"

# Name → whether more of it speaks for a translation (1) or against it (-1).
MEASURES = {
    **{f"source_explained_{least:g}": 1 for least in EXPLAINED}, "source_gap": -1,
    **{f"target_explained_{least:g}": 1 for least in EXPLAINED}, "target_gap": -1,
    "target_best": 1, "target_best_rare": 1, "source_best": 1, "source_best_rare": 1,
    "target_probability": 1, "source_probability": 1,
    "source_same": 1, "target_same": 1, "distance": -1,
    "numbers": 1, "other_numbers": -1, "length_difference": -1, "marks": 1,
}  # fmt: skip


@dataclass(frozen=True)
class OthersLexicon:
    """Looks up the translation probabilities that a pair's words have by all other pairs.

    What the pair itself has added to the expected counts of IBM model 1 is taken away: otherwise, rare words of a pair
    would always explain each other. Of a pair that was not learned from, this takes too much, but only for rare words.

    Attributes:
        entries: `(entries,)` int64, sorted: source * width + target.
        probabilities, counts: of the entries, as in [`LexicalTable`].
        totals: the sum of the counts of each source, `(sources,)`.
        empty: the probability of each target as a translation of no word, `(width,)`.
    """

    entries: np.ndarray
    probabilities: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    empty: np.ndarray

    @classmethod
    def of(cls, table: LexicalTable) -> "OthersLexicon":
        """A lexicon of a table."""
        width, known = int(table.targets.max(initial=0)) + 1, table.sources >= 0
        empty = np.zeros(width)
        empty[table.targets[~known]] = table.probabilities[~known]
        sources, counts = table.sources[known], table.counts[known]
        totals = np.bincount(sources, counts) if len(sources) else np.zeros(0)
        # What is beyond all entries is found at the end.
        entries = np.append(sources * width + table.targets[known], np.iinfo(np.int64).max)
        return cls(entries, np.append(table.probabilities[known], 0.0), np.append(counts, 0.0), totals, empty)

    def __call__(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Token ids `(n,)` and `(m,)` of a pair → t(target | source), `(n, m)`, by other pairs."""
        width = len(self.empty)
        is_known = targets < width
        wanted = sources[:, None] * width + targets
        places = np.searchsorted(self.entries, wanted)
        is_found = (self.entries[places] == wanted) & is_known
        each = np.where(is_found, self.probabilities[places], 0.0)
        counts = np.where(is_found, self.counts[places], 0.0)
        empty = self.empty[np.where(is_known, targets, 0)] * is_known
        own = each / np.maximum(each.sum(0) + empty, 1e-12)
        totals = np.where(sources < len(self.totals), self.totals[np.minimum(sources, len(self.totals) - 1)], 0.0)
        others = totals - own.sum(1)
        return np.where(others[:, None] > 0.5, (counts - own).clip(0) / np.maximum(others[:, None], 0.5), 0.0)


@dataclass(frozen=True)
class PairMeasures:
    """Measures pairs.

    Attributes:
        tokenizer: of the subwords of both sides.
        forward, backward: t(target | source) and t(source | target) of these.
        counts: how often each subword occurs, `(2, vocabulary)`.
        length_ratio: the usual length of a target in characters, divided by its source's.
    """

    tokenizer: Tokenizer
    forward: "OthersLexicon"
    backward: "OthersLexicon"
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
        sides = [[np.array(one.ids, np.int64) for one in tokenizer.encode_batch(list(texts))] for texts in zip(*pairs)]
        forward, backward = (OthersLexicon.of(learn_translations(*one)) for one in (sides, list(reversed(sides))))
        size = tokenizer.get_vocab_size()
        counts = np.array([np.bincount(np.concatenate(rows), minlength=size) for rows in sides])
        ratios = [math.log(len(target) / len(source)) for source, target in pairs if source and target]
        return cls(tokenizer, forward, backward, counts, math.exp(float(np.median(ratios))))

    def __post_init__(self):
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])
        alike = [len(text) >= ALIKE or text.isdigit() for text, _ in vocabulary]
        rarity = [np.log(max(own.sum(), 1) / np.maximum(own, 1)) for own in self.counts]
        object.__setattr__(self, "_is_word", np.array([any(map(str.isalnum, text)) for text, _ in vocabulary]))
        object.__setattr__(self, "_is_alike", np.array(alike))
        object.__setattr__(self, "_rarity", rarity)

    def __call__(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Measure pairs, `(pairs, measures)` float32; not-a-number where a side has no words."""
        encoded = [self.tokenizer.encode_batch(list(texts)) for texts in zip(*pairs)] or ([], [])
        found = np.full((len(pairs), len(MEASURES)), np.nan, np.float32)
        for row, (pair, source, target) in enumerate(zip(pairs, *encoded)):
            values = self._measure(pair, np.array(source.ids, np.int64), np.array(target.ids, np.int64))
            if values:
                found[row] = values
        return found

    def _measure(self, pair: Pair, source: np.ndarray, target: np.ndarray) -> list[float]:
        are_words = self._is_word[source], self._is_word[target]
        marks = source[~are_words[0]], target[~are_words[1]]
        source, target = source[are_words[0]], target[are_words[1]]
        if not len(source) or not len(target):
            return []
        same = (source[:, None] == target) & self._is_alike[source][:, None]
        forward = np.maximum(self.forward(source, target), SAME * same)
        backward = np.maximum(self.backward(target, source).T, SAME * same)
        either, rarity = np.maximum(forward, backward), (self._rarity[0][source], self._rarity[1][target])
        values: list[float] = []
        for axis, weights in ((1, rarity[0]), (0, rarity[1])):
            best = either.max(axis)
            values += [float(((best >= least) * weights).sum() / weights.sum()) for least in EXPLAINED]
            values.append(_longest_run(best < EXPLAINED[1]) / len(best))
        for best, weights in ((forward.max(0), rarity[1]), (backward.max(1), rarity[0])):
            logs = np.log(np.maximum(best, LEAST))
            values += [float(logs.mean()), float((logs * weights).sum() / weights.sum())]
        values.append(float(np.log(np.maximum(forward.mean(0), LEAST**2)).mean()))
        values.append(float(np.log(np.maximum(backward.mean(1), LEAST**2)).mean()))
        values += [float(same.any(1).mean()), float(same.any(0).mean())]
        places = np.nonzero(either >= 0.2)
        distances = np.abs(places[0] / len(source) - places[1] / len(target))
        values.append(float(distances.mean()) if len(distances) > 2 else 0.3)
        numbers, others = _agreement(*(Counter(NUMBER.findall(text)) for text in pair))
        values += [numbers, float(others)]
        values.append(abs(math.log(len(pair[1]) / len(pair[0]) / self.length_ratio)))
        values.append(_agreement(*(Counter(row.tolist()) for row in marks))[0])
        return values

    def save(self, folder: Path) -> None:
        """Write the measures into a folder."""
        from safetensors.numpy import save_file

        self.tokenizer.save(str(folder / "subwords.json"))
        arrays = {"counts": self.counts}
        for name in ("forward", "backward"):
            arrays |= {f"{name}.{key}": values for key, values in vars(getattr(self, name)).items()}
        save_file(arrays, folder / "lexicons.safetensors")
        (folder / "measures.json").write_text(json.dumps({"length_ratio": self.length_ratio}))

    @classmethod
    def load(cls, folder: Path) -> "PairMeasures":
        """Read what [`save`] has written."""
        from safetensors.numpy import load_file

        arrays, values = load_file(folder / "lexicons.safetensors"), json.loads((folder / "measures.json").read_text())
        lexicons = [
            OthersLexicon(**{key: arrays[f"{name}.{key}"] for key in OthersLexicon.__dataclass_fields__})
            for name in ("forward", "backward")
        ]
        tokenizer = Tokenizer.from_file(str(folder / "subwords.json"))
        return cls(tokenizer, *lexicons, arrays["counts"], values["length_ratio"])


def _longest_run(values: np.ndarray) -> int:
    changes = np.flatnonzero(np.diff(np.concatenate([[0], values.astype(np.int8), [0]])))
    return int((changes[1::2] - changes[::2]).max(initial=0))


def _agreement(one: Counter, other: Counter) -> tuple[float, int]:
    """The share of items that two counts have in common, 1 if there are none; and the number of the others."""
    common, total = (one & other).total(), (one | other).total()
    return (common / total if total else 1.0), total - common

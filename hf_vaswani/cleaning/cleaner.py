"""What is learned of a text, to clean it or others in the same languages: kept in a folder."""

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ..data.sources.text_files import Pair
from ..errors import InputError, reason
from ..files import file_digest
from .measures import PairMeasures
from .rules import Limits, look_at, usual_scripts
from .score import TranslationScore
from .side_languages import SideLanguages

FILE = "cleaner.json"
FORMAT = 3  # of a cleaner, and of pairs that were measured by one: raised whenever either changes
# Pairs that are learned from, at most.
MOST_PAIRS = 150_000
# Fewer cannot tell a translation from another text.
FEWEST_PAIRS = 200
ROUNDS = 2


@dataclass(frozen=True)
class Cleaner:
    """Judges pairs.

    Attributes:
        measures, score: whether a pair is a translation; `None` if the text was too short to learn that.
        languages: tells the sides apart.
        scripts: the usual scripts of each side.
        limits: of what pairs may have.
        length_ratio: the usual length of a target in characters, divided by its source's.
        codes: of both languages, if the user has given them.
    """

    measures: PairMeasures | None
    score: TranslationScore | None
    languages: SideLanguages
    scripts: tuple[frozenset[str], frozenset[str]]
    limits: Limits
    length_ratio: float
    codes: tuple[str, str] | None = None

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> "Cleaner":
        """Learn from pairs without repetitions; the same pairs give the same cleaner.

        The lexicons are learned twice, the second time from the pairs that are good by the first.
        """
        scripts = tuple(usual_scripts(list(texts)) for texts in zip(*pairs)) if pairs else (frozenset(), frozenset())
        sides = SideLanguages.learn(pairs)
        if len(pairs) < FEWEST_PAIRS:
            looks = [look_at(pair, scripts) for pair in pairs or [("a", "a")]]
            lengths = np.array([look.values[:2] for look in looks])
            ratio = max(float(np.median(lengths[:, 1] / np.maximum(lengths[:, 0], 1))), 0.01)
            return cls(None, None, sides, scripts, Limits.of(looks, ratio), ratio)
        good, measures, score = list(pairs), None, None
        for _ in range(ROUNDS):
            measures = PairMeasures.learn(good)
            score = TranslationScore.learn(pairs, measures)
            good = _good(pairs, measures, score)
        limits = Limits.of([look_at(pair, scripts) for pair in good], measures.length_ratio)
        return cls(measures, score, SideLanguages.learn(good), scripts, limits, measures.length_ratio)

    def for_text(self, pairs: Sequence[Pair]) -> "Cleaner":
        """A cleaner with the same lexicons and languages, but with the score and limits for another text.

        What tells translations from others depends on the text: how long and how free they are. A short text is judged
        like the one that was learned from.
        """
        if not self.measures:
            return self
        measures = self.measures.for_other_text() if len(self.measures.lexicons) > 1 else self.measures
        if len(pairs) < FEWEST_PAIRS:
            return replace(self, measures=measures)
        scripts = tuple(usual_scripts(list(texts)) for texts in zip(*pairs))
        score = TranslationScore.learn(pairs, measures)
        looks = [look_at(pair, scripts) for pair in _good(pairs, measures, score)]
        limits = Limits.of(looks, self.length_ratio)
        return replace(self, measures=measures, score=score, scripts=scripts, limits=limits)

    def digest(self) -> str:
        """A hash of what was learned."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder))
            digests = [file_digest(path) for path in sorted(Path(folder).iterdir())]
        return hashlib.sha256("".join(digests).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the cleaner into an empty folder."""
        self.languages.save(folder)
        if self.measures and self.score:
            self.measures.save(folder)
            self.score.save(folder)
        values = {
            "format": FORMAT, "scripts": [sorted(own) for own in self.scripts], "limits": asdict(self.limits),
            "length_ratio": self.length_ratio, "codes": self.codes, "has_score": self.score is not None,
        }  # fmt: skip
        (folder / FILE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> "Cleaner":
        """Read what [`save`] has written.

        Raises:
            InputError: the folder has no cleaner.
        """
        folder = Path(folder)
        try:
            values = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if values["format"] == FORMAT:
                measures = PairMeasures.load(folder) if values["has_score"] else None
                score = TranslationScore.load(folder) if values["has_score"] else None
                scripts = tuple(map(frozenset, values["scripts"]))
                languages, limits = SideLanguages.load(folder), Limits(**values["limits"])
                codes = tuple(values["codes"]) if values["codes"] else None
                return cls(measures, score, languages, scripts, limits, float(values["length_ratio"]), codes)
        except Exception as error:  # tokenizers have no others
            raise InputError(
                f"{folder} is not a cleaner: name a folder that --save_cleaner has made ({reason(error)})."
            ) from None
        raise InputError(f"{folder} is a cleaner of another version: make it again with --save_cleaner.")


def _good(pairs: Sequence[Pair], measures: PairMeasures, score: TranslationScore) -> list[Pair]:
    """The pairs that are probably translations; all, if none is."""
    return [pair for pair, own in zip(pairs, score(measures(pairs))) if own >= 0.5] or list(pairs)

"""Words of one side's language within sentences of the other: passages that were not translated, and names."""

from collections.abc import Callable
from functools import lru_cache

from ..data.sources.text_files import Pair
from .side_languages import SideLanguages, sequences

# Words in a row that count, sequences of letters that they must have, and the mean of these sequences' log odds.
LEAST_WORDS, LEAST_SEQUENCES, LEAST_ODDS = 3, 12, 0.5
MOST_KEPT = 1 << 18


def passage_finder(languages: SideLanguages) -> Callable[[Pair], tuple[str, float]]:
    """A function that finds the longest passage of a pair that is in the language of the other side.

    It returns the passage after the name of its side, such as `"target: la casa blanca"`, and the share of the side's
    words that are in such passages; `""` and 0 if there are none.
    """

    @lru_cache(MOST_KEPT)
    def evidence(word: str) -> tuple[float, int]:
        """The sum of log odds that a word is of the target's language, and the number of its sequences."""
        known = [languages.odds[sequence] for sequence in sequences(word) if sequence in languages.odds]
        return sum(known), len(known)

    def passages(text: str, sign: int) -> list[list[str]]:
        found: list[list[str]] = []
        words: list[str] = []
        total, count = 0.0, 0
        for word in [*text.split(), ""]:
            own, number = evidence(word)
            if own * sign > 0:
                words, total, count = [*words, word], total + own * sign, count + number
            # Numbers and marks are in no language.
            elif number or not word:
                if len(words) >= LEAST_WORDS and count >= LEAST_SEQUENCES and total > LEAST_ODDS * count:
                    found.append(words)
                words, total, count = [], 0.0, 0
        return found

    def find(pair: Pair) -> tuple[str, float]:
        best, share = "", 0.0
        for side, text, sign in zip(("source", "target"), pair, (1, -1)):
            found = passages(text, sign)
            own = sum(map(len, found)) / max(len(text.split()), 1)
            if own > share:
                best, share = f"{side}: {' '.join(max(found, key=len))}", own
        return best, share

    return find

"""Guesses the language of a text with py3langid, among all languages that it knows, served or not."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from .catalog import public_code

# Characters of a text that are looked at.
ENOUGH = 5000


class Detected(NamedTuple):
    language: str
    probability: float

    @property
    def confidence(self) -> float:
        """The probability from 0 to 100."""
        return round(100 * self.probability, 1)


@cache
def identifier() -> Any:
    """What knows the languages; loading it takes half a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class Detector:
    """Guesses languages.

    Args:
        codes: the languages that are served; one that the library does not know is never guessed.
    """

    def __init__(self, codes: Sequence[str]):
        self.codes = list(codes)
        # Clients repeat themselves.
        self._cached_probabilities = lru_cache(256)(self._probabilities)

    def best(self, text: str) -> Detected:
        """The most probable of all languages, served or not."""
        probabilities = self._of(text)
        language = max(probabilities, key=lambda code: probabilities[code])
        return Detected(language, probabilities[language])

    def rank(self, text: str) -> list[Detected]:
        """The languages that are served, the most probable one first."""
        probabilities = self._of(text)
        chinese = [code for code in self.codes if code.partition("-")[0] == "zh"]
        shares = {}
        if len(chinese) > 1:
            traditional = _share_of_traditional(text[:ENOUGH])
            shares = {code: traditional if "Hant" in code else 1 - traditional for code in chinese}
        found = ((code, probabilities.get(code.partition("-")[0], 0.0) * shares.get(code, 1)) for code in self.codes)
        return [Detected(code, share) for code, share in sorted(found, key=lambda one: -one[1])]

    def _of(self, text: str) -> dict[str, float]:
        return self._cached_probabilities(text[:ENOUGH])

    def _probabilities(self, text: str) -> dict[str, float]:
        labels = identifier().labels
        if not any(map(str.isalpha, text)):
            return {public_code(str(label)): 0.0 for label in labels}
        return {public_code(str(label)): float(share) for label, share in identifier().rank(text)}


def _share_of_traditional(text: str) -> float:
    """The share of traditional characters in a Chinese text, among the characters that are not in both scripts.

    GB 2312 has the simplified ones only, Big5 the traditional ones.
    """
    counts = {"gb2312": 0, "big5": 0}
    for character in text:
        own = [encoding for encoding in counts if character.encode(encoding, "ignore")]
        if len(own) == 1 and not character.isascii():
            counts[own[0]] += 1
    return counts["big5"] / (sum(counts.values()) or 1)

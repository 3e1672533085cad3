"""Guesses the language of a text among those that are served, with py3langid."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .catalog import public_code


class Detected(NamedTuple):
    language: str
    confidence: float  # 0 to 100


class Detector:
    """Guesses languages.

    Args:
        codes: those that may be guessed; a language that the detector does not know is never guessed.
    """

    def __init__(self, codes: Sequence[str]):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = {public_code(str(label)): str(label) for label in identifier.labels}
        self._codes = {known[code.split("-")[0]]: code for code in codes if code.split("-")[0] in known}
        self._fallback = codes[0]
        if self._codes:
            identifier.set_languages(list(self._codes))
        # The identifier is cheap, but clients repeat themselves.
        self.rank = lru_cache(1024)(lambda text: self._rank(identifier, text))

    def detect(self, texts: Sequence[str]) -> list[Detected]:
        """The languages of texts taken together, the most probable one first."""
        return self.rank("\n".join(texts)[:5000])

    def _rank(self, identifier, text: str) -> list[Detected]:
        if not self._codes or not any(map(str.isalpha, text)):
            return [Detected(self._fallback, 0.0)]
        ranked = identifier.rank(text)
        return [Detected(self._codes[str(label)], round(100 * float(share), 1)) for label, share in ranked]

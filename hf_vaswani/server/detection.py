"""Guesses the language of a text among those that are served, with py3langid."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from .catalog import public_code

# Characters of a text that are looked at.
ENOUGH = 5000


class Detected(NamedTuple):
    language: str
    confidence: float  # 0 to 100


class Detector:
    """Guesses languages.

    Args:
        codes: those that may be guessed; a language that the library does not know is never guessed.
    """

    def __init__(self, codes: Sequence[str]):
        self.codes = list(codes)
        # Clients repeat themselves.
        self._cached_rank = lru_cache(1024)(self._rank)

    @cached_property
    def _identifier(self) -> "tuple[Any, dict[str, str]]":
        """What ranks languages, and the served code of each that it knows."""
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        labels = {public_code(str(label)): str(label) for label in identifier.labels}
        known = {labels[base]: code for code in self.codes if (base := code.split("-")[0]) in labels}
        if known:
            identifier.set_languages(list(known))
        return identifier, known

    def detect(self, texts: Sequence[str]) -> list[Detected]:
        """The languages of texts taken together, the most probable one first."""
        return self._cached_rank("\n".join(texts)[:ENOUGH])

    def _rank(self, text: str) -> list[Detected]:
        identifier, known = self._identifier
        if not known or not any(map(str.isalpha, text)):
            return [Detected(self.codes[0], 0.0)]
        return [Detected(known[str(label)], round(100 * float(share), 1)) for label, share in identifier.rank(text)]

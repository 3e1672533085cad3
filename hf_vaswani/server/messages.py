"""What travels between the process that clients reach and those that translate; importing it needs no torch."""

from dataclasses import dataclass

from ..text.glossary import Glossary
from ..text.languages import NO_LANGUAGES, Languages
from ..text.pivots import PivotSentence


@dataclass(frozen=True)
class Chunk:
    """Texts of one request.

    Attributes:
        texts: a line each.
        n_best: number of translations of each text.
        glossaries: the terms of each text; or none at all.
        split_sentences: as in the pipeline.
        is_first_step: whether the texts are to be translated on from a third language. Then the terms are of the
            final translations, and translations have `sentences`.
        kept: the spans to keep in each text, if it is the second step.
    """

    texts: tuple[str, ...]
    languages: Languages = NO_LANGUAGES
    n_best: int = 1
    glossaries: tuple[Glossary, ...] = ()
    split_sentences: bool | None = None
    is_first_step: bool = False
    kept: tuple[tuple[str, ...], ...] = ()

    @property
    def has_terms(self) -> bool:
        return any(glossary.entries for glossary in self.glossaries)


@dataclass(frozen=True)
class Pairs:
    """Texts of one request with their translations."""

    texts: tuple[str, ...]
    translations: tuple[str, ...]
    languages: Languages = NO_LANGUAGES


@dataclass(frozen=True)
class Translation:
    """The translations of a text.

    Attributes:
        hypotheses: the best one first.
        warnings: why they may be wrong.
        sentences: those of a text in a third language, as they are to be translated on.
    """

    hypotheses: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sentences: tuple[PivotSentence, ...] = ()


@dataclass(frozen=True)
class Translated:
    """The translations of a chunk.

    Attributes:
        translations: one for each text.
        tokens: source tokens of the chunk.
        batch_tokens: source tokens that were translated together with it.
        waited: seconds until it was begun.
    """

    translations: tuple[Translation, ...]
    tokens: int
    batch_tokens: int
    waited: float


class TextError(ValueError):
    """A text cannot be translated."""

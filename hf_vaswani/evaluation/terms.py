"""How many terms of a glossary translations use, out of those whose sources occur in the source text."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..text.glossary import Glossary


@dataclass(frozen=True)
class TermScore:
    """Terms that translations use; each occurrence of a source term counts.

    Attributes:
        found, occurrences: of all source terms.
        found_in_reference, in_reference: of those for which a reference has a term, too.
    """

    found: int
    occurrences: int
    found_in_reference: int
    in_reference: int

    @property
    def share(self) -> float | None:
        """The share of all source terms in percent; `None` without any."""
        return 100 * self.found / self.occurrences if self.occurrences else None

    @property
    def share_in_reference(self) -> float | None:
        """The share of those that a reference has, too."""
        return 100 * self.found_in_reference / self.in_reference if self.in_reference else None

    def __str__(self) -> str:
        if self.share is None:
            return "terms: none in the source"
        text = f"terms: {self.share:.1f}% of {self.occurrences:,}"
        if self.share_in_reference is not None:
            text += f"; {self.share_in_reference:.1f}% of the {self.in_reference:,} that a reference has"
        return text


def score_terms(
    glossary: Glossary, sources: Sequence[str], translations: Sequence[str], references: Sequence[Sequence[str]]
) -> TermScore:
    """Count the terms of a glossary in translations.

    Args:
        sources, translations: line by line.
        references: one list of lines for each reference.
    """
    found = occurrences = found_in_reference = in_reference = 0
    for source, translation, *own_references in zip(sources, translations, *references):
        for demand in glossary.demands(source):
            count = demand.count_in(translation)
            expected = max((demand.count_in(reference) for reference in own_references), default=0)
            found, occurrences = found + count, occurrences + demand.count
            found_in_reference, in_reference = found_in_reference + min(count, expected), in_reference + expected
    return TermScore(found, occurrences, found_in_reference, in_reference)

"""How many terms of a glossary translations use, out of those whose sources occur in the source text."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..text.glossary import Glossary
from ..translator.pairs import PairModel
from ..translator.segments import Occurrence, TermText
from ..translator.term_placement import are_placed


@dataclass(frozen=True)
class TermScore:
    """Terms that translations use; each occurrence of a source term counts.

    Attributes:
        found, occurrences: of all source terms.
        found_in_reference, in_reference: of those for which a reference has a term, too.
        placed: terms where their sources are translated, and not said again in other words; `None` if not counted.
    """

    found: int
    occurrences: int
    found_in_reference: int
    in_reference: int
    placed: int | None = None

    @property
    def share(self) -> float | None:
        """The share of all source terms in percent; `None` without any."""
        return 100 * self.found / self.occurrences if self.occurrences else None

    @property
    def share_in_reference(self) -> float | None:
        """The share of those that a reference has, too."""
        return 100 * self.found_in_reference / self.in_reference if self.in_reference else None

    @property
    def share_placed(self) -> float | None:
        """The share of all source terms whose terms are in their places."""
        return None if self.placed is None or not self.occurrences else 100 * self.placed / self.occurrences

    def __str__(self) -> str:
        if self.share is None:
            return "terms: none in the source"
        text = f"terms: {self.share:.1f}% of {self.occurrences:,}"
        if self.share_in_reference is not None:
            text += f"; {self.share_in_reference:.1f}% of the {self.in_reference:,} that a reference has"
        if self.share_placed is not None:
            text += f"; {self.share_placed:.1f}% in place of the words that translate them"
        return text


def score_terms(
    glossary: Glossary,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[Sequence[str]],
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    **languages: str,
) -> TermScore:
    """Count the terms of a glossary in translations.

    Args:
        sources, translations: line by line.
        references: one list of lines for each reference.
        model, tokenizer: if given, they tell which terms are in their places, by the words whose probability drops
            without the source term, and by attention.
        languages: `src_lang` and `tgt_lang`, for multilingual tokenizers.
    """
    found = occurrences = found_in_reference = in_reference = 0
    for source, translation, *own_references in zip(sources, translations, *references):
        for demand in glossary.demands(source):
            count = demand.count_in(translation)
            expected = max((demand.count_in(reference) for reference in own_references), default=0)
            found, occurrences = found + count, occurrences + demand.count
            found_in_reference, in_reference = found_in_reference + min(count, expected), in_reference + expected
    placed = None
    if model is not None and tokenizer is not None:
        placed = _count_placed(glossary, sources, translations, model, tokenizer, languages)
    return TermScore(found, occurrences, found_in_reference, in_reference, placed)


def _count_placed(
    glossary: Glossary,
    sources: Sequence[str],
    translations: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    languages: dict[str, str],
) -> int:
    texts = []
    for source, translation in zip(sources, translations):
        found = [Occurrence(start, end, entry.source, entry.terms) for start, end, entry in glossary.find(source)]
        texts += [TermText(source, translation, found)] if found else []

    return sum(map(sum, are_placed(texts, PairModel(model, tokenizer, **languages))))

"""Puts noise, terms and placeholders together: changes the texts of training pairs before they are encoded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...text.glossary import Glossary
from ...text.markers import rewrite, without_markers
from ...text.normalization import is_blank
from ..encoding import Encoder
from ..sources.text_files import Pair
from .arguments import AugmentationArguments
from .noise import uppercase, with_typos, without_punctuation
from .placeholders import place_keeps
from .terms import place_terms
from .word_alignment import WordAligner


@dataclass(frozen=True)
class Augmenter:
    """Changes pairs at random.

    Attributes:
        aligner: finds words that are translations of each other, for terms and placeholders.
        glossary: terms to use in place of these.
    """

    arguments: AugmentationArguments
    aligner: WordAligner | None = None
    glossary: Glossary | None = None

    def __call__(self, source: str, target: str, generator: np.random.Generator) -> Pair:
        """A pair, with markers for a tokenizer that reads them; the target is changed only by placeholders."""
        shares = self.arguments
        draws = generator.random(5) < [
            shares.uppercase, shares.no_punctuation, shares.typos, shares.terms, shares.placeholders
        ]  # fmt: skip
        is_upper, is_bare, is_mistyped, has_terms, has_keeps = draws.tolist()
        source, target = without_markers(source), without_markers(target)
        links = self.aligner(source, target) if self.aligner and (has_terms or has_keeps) else []
        certain = [link for link in links if link.is_certain]
        edits, of_target = place_keeps(source, target, certain, generator) if has_keeps else ([], [])
        if has_terms and self.aligner:
            # Where there is no placeholder yet.
            taken = [(edit.start, edit.end) for edit in edits]
            terms = place_terms(source, target, links, self.aligner, self.glossary, generator)
            edits += [e for e in terms if all(e.end <= start or end <= e.start for start, end in taken)]
        changes: list[Callable[[str], str]] = []
        if is_bare:
            changes.append(without_punctuation)
        if is_mistyped:
            changes.append(lambda text: with_typos(text, generator))
        if is_upper:
            changes.append(uppercase)

        def change(text: str) -> str:
            for each in changes:
                text = each(text)
            return text

        changed = rewrite(source, edits, change)
        return source if is_blank(changed) else changed, rewrite(target, of_target)


def augmenting_encoder(inner: Encoder, augment: Augmenter) -> Encoder:
    """An encoder that changes pairs first.

    Args:
        inner: the encoder of what comes out, for a tokenizer that reads markers.
    """

    def encode(sources: list[str], targets: list[str], generator: np.random.Generator):
        pairs = [augment(source, target, generator) for source, target in zip(sources, targets)]
        return inner([source for source, _ in pairs], [target for _, target in pairs], generator)

    return encode

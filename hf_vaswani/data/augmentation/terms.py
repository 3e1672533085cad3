"""Terms in the sources of training pairs: words, and the translations that they have in the target."""

from collections.abc import Iterator, Sequence

import numpy as np

from ...text.glossary import Glossary, words
from ...text.markers import Edit, term_edit
from .word_alignment import Link, WordAligner

# Of terms drawn at random, the share after which another one is drawn.
MORE = 0.65
# The share that has another word, of those with two the share that has a third.
LONGER = 0.3
SHORTEST = 3  # letters


def place_terms(
    source: str,
    target: str,
    links: Sequence[Link],
    aligner: WordAligner,
    glossary: Glossary | None,
    generator: np.random.Generator,
) -> list[Edit]:
    """Draw terms for a pair: those of the glossary that it has, else words that belong together.

    Args:
        links: words that are translations of each other.
    """
    terms = list(_of_glossary(source, target, glossary)) if glossary else []
    return [term_edit(source, *term) for term in terms or _drawn(target, links, aligner, generator)]


def _of_glossary(source: str, target: str, glossary: Glossary) -> Iterator[tuple[int, int, str]]:
    for start, end, entry in glossary.find(source):
        for term in entry.terms:
            if any(True for _ in term.spans(target)):
                yield start, end, term.text
                break


def _drawn(
    target: str, links: Sequence[Link], aligner: WordAligner, generator: np.random.Generator
) -> list[tuple[int, int, str]]:
    """One term, or several. Improbable translations are drawn more often than others: a model that is given only what
    it would write anyhow learns to ignore it."""
    by_number = {link.numbers: link for link in links}
    candidates = [link for link in links if all(end - start >= SHORTEST for start, end in link.spans)]
    keys = generator.exponential(size=len(candidates)) * [link.probability for link in candidates]
    order = np.argsort(keys)[: int(generator.geometric(1 - MORE))]
    terms, after = [], 0
    for link in sorted((candidates[number] for number in order.tolist()), key=lambda link: link.spans):
        last = link
        for draw in generator.random(2).tolist():
            following = by_number.get((last.numbers[0] + 1, last.numbers[1] + 1))
            if draw >= LONGER or following is None:
                break
            last = following
        (start, begin), end = (link.spans[0][0], link.spans[1][0]), last.spans[0][1]
        if start >= after:
            term = target[begin : last.spans[1][1]]
            # Glossaries have both "two" and "Two".
            if begin == 0 and generator.random() < 0.5:
                term = _as_within_sentences(term, aligner)
            terms.append((start, end, term))
            after = end
    return terms


def _as_within_sentences(term: str, aligner: WordAligner) -> str:
    """A term without the capital that it may have only because it begins its sentence."""
    first = words(term)[0]
    return term[:1].lower() + term[1:] if first.lower() in aligner.lowercase else term

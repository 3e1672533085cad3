"""Changes the texts of training pairs before they are encoded: noise of sources, terms, and placeholders."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from ...core.tokenization_vaswani import leading_marks
from ...errors import InputError
from ...text.glossary import Glossary, words
from ...text.markers import (
    KEEP_TOKENS,
    TERM_TOKENS,
    Edit,
    has_tokens,
    rewrite,
    term_edit,
    with_markers,
    without_markers,
)
from ...text.normalization import is_blank
from ..encoding import Encoder, dropout_encoder, plain_encoder
from ..sources.text_files import Pair
from .arguments import AugmentationArguments
from .placeholders import place_keeps
from .word_alignment import Link, WordAligner

# Punctuation, except within words and numbers: "don't", "3.5".
PUNCTUATION = re.compile(r"(?<!\w)[^\w\s]+|[^\w\s]+(?!\w)")
# Shorter words are left alone: an error often makes another word of them.
WORD = re.compile(r"[^\W\d_]{4,}")
# Of the words of a text with errors.
ERROR_RATE = 0.15
# Of terms drawn at random, the share after which another one is drawn.
MORE = 0.65
# The share that has another word, of those with two the share that has a third.
LONGER = 0.3
SHORTEST = 3  # letters


def uppercase(text: str) -> str:
    """The text in capitals."""
    return text.upper()


def without_punctuation(text: str) -> str:
    """The text without its punctuation marks, except those within words and numbers."""
    return re.sub(r" {2,}", " ", PUNCTUATION.sub("", text))


def with_typos(text: str, generator: np.random.Generator) -> str:
    """The text with errors in some of its words of four letters and more, one in each: letters that are swapped,
    missing, doubled, or replaced by another letter of the text."""
    letters = "".join(character for character in text if character.isalpha())

    def damaged(match: re.Match) -> str:
        word = match[0]
        if generator.random() >= ERROR_RATE:
            return word
        at, kind = int(generator.integers(len(word) - 1)), int(generator.integers(4))
        first, second = word[at], word[at + 1]
        new = (second + first, first, first + first + second, first + letters[generator.integers(len(letters))])[kind]
        return word[:at] + new + word[at + 2 :]

    return WORD.sub(damaged, text)


@dataclass(frozen=True)
class PartlyLowercase:
    """Pairs with a share of the sources in lower case, as which a tokenizer is to read capitals."""

    pairs: Iterable[Pair]
    share: float

    def __iter__(self) -> Iterator[Pair]:
        generator = np.random.default_rng(0)
        for source, target in self.pairs:
            yield (source.lower() if generator.random() < self.share else source), target


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


def augmented_encoder(
    arguments: AugmentationArguments,
    bpe_dropout: float,
    tokenizer: PreTrainedTokenizerBase,
    sample: Iterable[Pair],
    glossary: Glossary | None,
) -> Encoder:
    """An encoder that first changes pairs as a recipe says; the same in every process.

    Args:
        sample: pairs from which word translations are learned.
        glossary: the one that the recipe names, if any.
    """
    aligner = None
    if arguments.terms or arguments.placeholders:
        plain = ((source.removeprefix(leading_marks(tokenizer, source)), target) for source, target in sample)
        aligner = WordAligner.learn(plain)
    augment = Augmenter(arguments, aligner, glossary)
    marked = with_markers(tokenizer) if any(arguments.markers) else tokenizer
    inner = dropout_encoder(marked, bpe_dropout) if bpe_dropout else plain_encoder(marked)

    def encode(sources: list[str], targets: list[str], generator: np.random.Generator):
        rows = []
        for source, target in zip(sources, targets):
            mark = leading_marks(tokenizer, source)  # which stays
            changed, target = augment(source[len(mark) :], target, generator)
            rows.append((mark + changed, target))
        return inner([source for source, _ in rows], [target for _, target in rows], generator)

    return encode


def check_tokens(arguments: AugmentationArguments, tokenizer: PreTrainedTokenizerBase, source: str | None) -> None:
    """Reject an existing tokenizer without the tokens that augmentation needs.

    Args:
        source: the key and value that name the tokenizer.

    Raises:
        InputError: if it lacks them.
    """
    for key, tokens, sides in (
        ("placeholders", KEEP_TOKENS, ("source", "target")),
        ("terms", TERM_TOKENS, ("source",)),
    ):
        if getattr(arguments, key) and not has_tokens(tokenizer, tokens, sides):
            raise InputError(
                f"augmentation.{key} needs the tokens {tokens[0]} to {tokens[-1]}, which the tokenizer of {source} "
                f"lacks. Learn a new tokenizer, or use that of a model that was trained with augmentation.{key}"
            )

"""Keeps spans as they are: addresses, numbers, placeholders, code, any pattern. Imported for texts with patterns.

A model that has learned placeholders translates these in place of what they stand for, which is restored afterwards;
where one is missing, it is put in place like a term. A model that has not learned them, or a piece of a text with more
than it has learned, is translated without the spans, and these are inserted between the words that translate their
neighbors.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.sentence_splitting import Piece
from ...text.glossary import Term, TermConstraint, words
from ...text.keep_patterns import find_kept, literal_patterns
from ...text.markers import END, KEEPS, TERM, without_markers
from ...text.words import word_spans
from ..search import Search
from ..segments import MASK, Hypothesis, Segment

OPENING, CLOSING = "([{<«„“‚‘¿¡/\"'", ")]}>»”’.,;:!?…/\"'"
MARKER = re.compile(f" ?[{KEEPS[0]}-{END}]")


@dataclass(frozen=True)
class KeptSpan(TermConstraint):
    """A constraint for what is to be kept, or for its placeholder."""

    def __str__(self) -> str:
        return repr(self.source) + (f", {self.count} times" if self.count > 1 else "")


class KeptSpans:
    """Inserts placeholders into sources, and restores what they stand for in translations.

    Args:
        patterns: what is to be kept.
        is_learned: whether the model has learned placeholders.
        empty: hypotheses of a text with nothing to translate.
    """

    def __init__(self, patterns: Sequence[re.Pattern], is_learned: bool, empty: Callable[[], list[Hypothesis]]):
        self.patterns, self.placeholders, self.empty = patterns, KEEPS if is_learned else (), empty

    def check(self, search: Search) -> None:
        """Raise a `ValueError` if something cannot be kept with the arguments of a search."""
        if self.patterns and search.options.return_tensors:
            raise ValueError("keep needs translations as text, not as token ids: leave out return_tensors.")

    def mask(self, text: str, given: Sequence[str] | None = None) -> tuple[str, list[str]]:
        """A text with [`MASK`], which has no end of a sentence in it, for each span to be kept; and these spans.

        Args:
            given: the spans to be kept, in place of what the patterns find.
        """
        text = without_markers(text)
        spans = find_kept(text, self.patterns if given is None else literal_patterns(given))
        bounds = [0, *(place for span in spans for place in span), len(text)]
        masked = MASK.join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2]))
        return masked, [text[start:end] for start, end in spans]

    def before(self, segments: list[Segment]) -> list[Segment]:
        """Replace masks with placeholders as far as the model knows them, otherwise with the spans themselves."""
        for segment in segments:
            own, known = list(segment.contents), len(self.placeholders)
            segment.placeholders, spelled = own[:known], own[known:]
            constraints = [KeptSpan((Term(mark, True),), 1, span) for mark, span in zip(self.placeholders, own)]
            counts = Counter(span for span in spelled if words(span))
            constraints += [KeptSpan((Term(span, True),), count, span) for span, count in counts.items()]
            segment.constraints = constraints
            parts = segment.text_with_masks.split(MASK)
            filled = zip(parts, [*self.placeholders[: len(own)], *spelled, ""])
            text = "".join(part for pair in filled for part in pair)
            segment.piece = Piece(text, segment.piece.space)
            if own and not segment.prefix and not re.search(r"\w", segment.text_with_masks):
                segment.set_result(text, self.empty())
        return segments

    @staticmethod
    def drop_surplus(segment: Segment) -> None:
        """Remove repeated placeholders from translations, and markers that are not the source's."""
        for hypothesis in segment.hypotheses:
            seen = {*KEEPS[len(segment.placeholders) :], TERM, END}
            hypothesis["translation_text"] = MARKER.sub(
                lambda match, seen=seen: "" if match[0][-1] in seen else (seen.add(match[0][-1]) or match[0]),
                hypothesis["translation_text"],
            )

    def after(self, segments: list[Segment]) -> list[Segment]:
        """Put what was kept into translations: in place of its placeholder, or exactly as it was."""
        for segment in segments:
            stands_for = dict(zip(KEEPS, segment.placeholders))
            own = [each for each in segment.constraints if isinstance(each, KeptSpan)]
            spelled = {each.source for each in own if each.terms[0].text not in KEEPS}
            for hypothesis in segment.hypotheses:
                text = hypothesis["translation_text"]
                for span in spelled:
                    # Perhaps with other spaces, as the tokenizer has them.
                    loose = r"\s*".join(map(re.escape, words(span)))
                    text = re.sub(loose, lambda _, span=span: span, text)
                for placeholder in stands_for:
                    text = _spaced(text, placeholder, segment.piece.text)
                hypothesis["translation_text"] = _restored(text, stands_for).strip()
                for side in ("source_tokens", "target_tokens"):
                    if side in hypothesis:
                        hypothesis[side] = [_restored(token, stands_for) for token in hypothesis[side]]
        return segments


@dataclass(frozen=True)
class Gap:
    """Where a span was in a text without it, and the characters before and after it; "" at an end."""

    place: int
    before: str
    after: str


def without_spans(segment: Segment) -> tuple[str, list[Gap]]:
    """A segment's text without the spans that the model has no placeholders for, and where these were."""
    first, *parts = segment.text_with_masks.split(MASK)
    known, gaps, text = len(segment.placeholders), [], first
    for number, part in enumerate(parts):
        if number < known:
            text += KEEPS[number] + part
            continue
        gaps.append(Gap(len(text), text[-1:], part[:1]))
        text += part.lstrip() if not text or text[-1].isspace() else part
    return text, gaps


def insert_spans(
    source: str, gaps: Sequence[Gap], translation: str, links: set[tuple[int, int]] | None, spans: Sequence[str]
) -> str:
    """A translation with spans between the words that translate what is before and after them.

    Args:
        source: the text that was translated, without the spans.
        links: alignment of the words of both, or `None`; then the place is in proportion.
    """
    of_source, words = word_spans(source), word_spans(translation)
    bounds = [0, *(start for start, _ in words[1:]), len(translation)] if words else [0]
    found = []
    for gap, span in zip(gaps, spans):
        before = sum(start < gap.place for start, _ in of_source)

        def crossed(bound: int, before: int = before) -> tuple[int, float]:
            share = before / max(len(of_source), 1) * (len(bounds) - 1)
            return sum((s < before) != (t < bound) for s, t in links or ()), abs(bound - share)

        found.append((min(range(len(bounds)), key=crossed), len(found), gap, span))
    for bound, _, gap, span in sorted(found, key=lambda each: each[:2], reverse=True):
        left, right = translation[: bounds[bound]], translation[bounds[bound] :]
        left += " " * _is_apart(left[-1:], gap.before, OPENING)
        right = " " * _is_apart(right[:1], gap.after, CLOSING) + right
        translation = left + span + right
    return translation


def _is_apart(neighbor: str, before: str, joining: str) -> bool:
    """Whether a space goes between a span and its neighbor in a translation.

    Args:
        before: its neighbor in the source.
        joining: marks that join what is on this side of them.
    """
    if neighbor.isalnum():
        return not before.isalnum()
    return before.isspace() and bool(neighbor.strip(joining + " "))


def missing(segment: Segment, hypothesis: Hypothesis) -> list[TermConstraint]:
    """What a finished translation lacks: terms, and what was to be kept."""
    text = hypothesis["translation_text"]
    terms = [constraint for constraint in segment.constraints if not isinstance(constraint, KeptSpan)]
    return [each for each in terms if each.count_in(text) < each.count] + lost(segment.contents, text)


def lost(contents: Sequence[str], translation: str) -> list[KeptSpan]:
    """The spans to be kept that a translation lacks or has changed; each needs a place of its own."""
    missing: Counter[str] = Counter()
    for span in sorted(filter(str.strip, contents), key=len, reverse=True):
        before, found, after = translation.partition(span)
        missing[span] += not found
        translation = f"{before}{MASK}{after}" if found else translation
    return [KeptSpan((), missing[span], span) for span in dict.fromkeys(contents) if missing[span]]


def _spaced(text: str, placeholder: str, source: str) -> str:
    """A translation with spaces between a placeholder and words, or other placeholders, where its source has some."""
    at, near = source.index(placeholder), rf"[\w{KEEPS[0]}-{KEEPS[-1]}]"
    if at == 0 or source[at - 1].isspace():
        text = re.sub(f"(?<={near}){placeholder}", f" {placeholder}", text)
    if at + 1 == len(source) or source[at + 1].isspace():
        text = re.sub(f"{placeholder}(?={near})", f"{placeholder} ", text)
    return text


def _restored(text: str, stands_for: dict[str, str]) -> str:
    for placeholder, span in stands_for.items():
        text = text.replace(placeholder, span)
    return text


__all__ = ["KeptSpan", "KeptSpans", "lost", "missing"]

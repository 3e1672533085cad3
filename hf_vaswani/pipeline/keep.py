"""What the translation engine does about what is to stay as it is. Imported for texts with such patterns.

A model that has learned placeholders translates these in place of what they stand for, which is put back afterwards.
Translations that lack one are searched for again, like those that lack a term. So are the translations of a model that
has not learned placeholders, and of a piece of a text with more than it has learned.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.pipeline_sentences import Piece
from ..generation.output_scores import Hypothesis
from ..text.glossary import Demand, Term, words
from ..text.keep import find_kept
from ..text.markers import KEEPS, has_keep_tokens, without_markers
from .segments import Segment
from .terms import search_error

# Takes the place of each match while a text is divided into sentences.
HIDDEN = "\ufdef"
PLACEHOLDER = re.compile(f" ?[{KEEPS[0]}-{KEEPS[-1]}]")


@dataclass(frozen=True)
class Kept(Demand):
    """A demand for what is to be kept, or for its placeholder."""

    def __str__(self) -> str:
        return repr(self.source) + (f", {self.count} times" if self.count > 1 else "")


def check_keep(engine: Any) -> None:
    """Raise a `ValueError` if something cannot be kept with these arguments.

    Args:
        engine: a [`TranslationEngine`], here as below.
    """
    if engine.postprocess.get("as_tensors"):
        raise ValueError("keep needs translations as text, not as token ids: leave out return_tensors.")
    is_learned = has_keep_tokens(engine.pipeline.tokenizer)
    if not is_learned and (error := search_error(engine, "Patterns to keep, without learned placeholders,")):
        raise ValueError(error)


def hide(texts: Sequence[str], patterns: Sequence[re.Pattern]) -> tuple[list[str], list[str]]:
    """Texts without what is to be kept, which has no end of a sentence in it, and what that is, in its order."""
    hidden, contents = [], []
    for text in map(without_markers, texts):
        spans = find_kept(text, patterns)
        bounds = [0, *(place for span in spans for place in span), len(text)]
        hidden.append(HIDDEN.join(text[start:end] for start, end in zip(bounds[::2], bounds[1::2])))
        contents += [text[start:end] for start, end in spans]
    return hidden, contents


def place(engine: Any, segments: Sequence[Segment], contents: Sequence[str]) -> None:
    """Put placeholders where something is hidden in segments, as far as the model knows them, else what it is."""
    known = KEEPS if has_keep_tokens(engine.pipeline.tokenizer) else ()
    rest = iter(contents)
    for segment in segments:
        masked, own = segment.piece.text, [next(rest) for _ in range(segment.piece.text.count(HIDDEN))]
        segment.contents, segment.kept, spelled = own, own[: len(known)], own[len(known) :]
        demands = [Kept((Term(marker, True),), 1, content) for marker, content in zip(known, own)]
        counts = Counter(content for content in spelled if words(content))
        demands += [Kept((Term(content, True),), count, content) for content, count in counts.items()]
        segment.demands = [*segment.demands, *demands]
        segment.shown = _filled(masked, own)
        segment.piece = Piece(_filled(masked, [*known[: len(own)], *spelled]), segment.piece.space)
        if own and not segment.prefix and not re.search(r"\w", masked):
            segment.result = [{**each, "translation_text": segment.piece.text} for each in engine.nothing()]
            segment.target_lengths = [0] * engine.hypotheses


def _filled(text: str, contents: Sequence[str]) -> str:
    parts = text.split(HIDDEN)
    return "".join(part for pair in zip(parts, [*contents, ""]) for part in pair)


def drop_surplus(segment: Segment) -> None:
    """Remove placeholders that stand in a translation a second time, or that are not those of the source."""
    for hypothesis in _hypotheses(segment):
        seen = set(KEEPS[len(segment.kept) :])
        hypothesis["translation_text"] = PLACEHOLDER.sub(
            lambda match, seen=seen: "" if match[0][-1] in seen else (seen.add(match[0][-1]) or match[0]),
            hypothesis["translation_text"],
        )


def put_back(segments: Sequence[Segment]) -> None:
    """Put what was kept into translations: in place of its placeholder, or exactly as it was."""
    for segment in segments:
        stands_for = dict(zip(KEEPS, segment.kept))
        spelled = {
            each.source for each in segment.demands if isinstance(each, Kept) and each.terms[0].text not in KEEPS
        }
        for hypothesis in _hypotheses(segment):
            text = hypothesis["translation_text"]
            for content in spelled:
                # Perhaps with other spaces, as the tokenizer has them.
                loose = r"\s*".join(map(re.escape, words(content)))
                text = re.sub(loose, lambda _, content=content: content, text)
            for marker in stands_for:
                text = _spaced(text, marker, segment.piece.text)
            hypothesis["translation_text"] = _restored(text, stands_for)
            for side in ("source_tokens", "target_tokens"):
                if side in hypothesis:
                    hypothesis[side] = [_restored(token, stands_for) for token in hypothesis[side]]


def missing(segment: Segment, hypothesis: Hypothesis) -> list[Demand]:
    """What a finished translation lacks: terms, and what was to be kept."""
    text = hypothesis["translation_text"]
    terms = [demand for demand in segment.demands if not isinstance(demand, Kept)]
    return [demand for demand in terms if demand.count_in(text) < demand.count] + lost(segment.contents, text)


def lost(contents: Sequence[str], translation: str) -> list[Kept]:
    """What of the contents to be kept does not stand in a translation as it was, each in a place of its own."""
    missing: Counter[str] = Counter()
    for content in sorted(filter(str.strip, contents), key=len, reverse=True):
        before, found, after = translation.partition(content)
        missing[content] += not found
        translation = f"{before}{HIDDEN}{after}" if found else translation
    return [Kept((), missing[content], content) for content in dict.fromkeys(contents) if missing[content]]


def _spaced(text: str, marker: str, source: str) -> str:
    """A translation with spaces between a placeholder and words, or other placeholders, where its source has some."""
    at, near = source.index(marker), rf"[\w{KEEPS[0]}-{KEEPS[-1]}]"
    if at == 0 or source[at - 1].isspace():
        text = re.sub(f"(?<={near}){marker}", f" {marker}", text)
    if at + 1 == len(source) or source[at + 1].isspace():
        text = re.sub(f"{marker}(?={near})", f"{marker} ", text)
    return text


def _hypotheses(segment: Segment) -> Iterator[Hypothesis]:
    return iter(segment.result if isinstance(segment.result, list) else ())


def _restored(text: str, stands_for: dict[str, str]) -> str:
    for marker, content in stands_for.items():
        text = text.replace(marker, content)
    return text


__all__ = ["Kept", "check_keep", "drop_surplus", "hide", "lost", "missing", "place", "put_back"]

"""Finds translations that have the terms that they must have. Imported for texts with terms, or with spans to be kept.

A model that has learned to use terms reads them in its sources (Dinu et al. 2019); others translate all texts as
without terms. Most translations have theirs; for the others, PyTorch searches again.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial

import torch

from ...core.sentence_splitting import Piece
from ...generation.constrained_search import MOST_STATES, SearchSize
from ...generation.term_automaton import TermAutomata, TermAutomaton
from ...generation.term_spelling import TermSpeller
from ...text.glossary import Glossary, TermConstraint, shortened, shown_constraints
from ...text.markers import END, KEEPS, TERM, TERM_TOKENS, has_term_tokens, with_terms, without_markers
from ...text.source_warnings import translation_warning
from ..pairs import PairModel
from ..search import Search
from ..segments import Hypothesis, MissingTerm, Occurrence, Placement, Segment, TermText
from ..term_placement import place_terms

# Fewer hypotheses leave no choice of where the terms go.
LEAST_BEAMS = 4
# Of a text: the translation is scored once for each.
MOST_PLACED = 64
TOO_LARGE = "its terms are too many, or too long, for a search in one sentence. Leave some out"


class Terms:
    """Writes terms into sources if the model has learned that, and searches again for translations that lack some.

    Args:
        glossaries: the terms of each text; empty if only spans are to be kept.
        search: a search with the model itself.
        model: scores and aligns given translations.
        translate: encodes segments and searches for their translations.
        speller: makes what spells terms in target tokens, which is needed only where some are missing.
        source_tokens: returns the tokens of a text, as alignments have them.
        empty: hypotheses of a text with nothing to translate.
        keeps_spans: whether spans are to be kept, too.
        first: number of the first text, from which errors count.
    """

    def __init__(
        self,
        glossaries: Sequence[Glossary],
        search: Search,
        model: PairModel,
        translate: Callable[[list[Segment]], None],
        speller: Callable[[], TermSpeller],
        source_tokens: Callable[[str], list[str]],
        empty: Callable[[], list[Hypothesis]],
        keeps_spans: bool = False,
        first: int = 0,
    ):
        self.glossaries, self.search, self.model, self.translate = glossaries, search, model, translate
        self.speller, self.source_tokens = speller, source_tokens
        self.empty, self.keeps_spans, self.first = empty, keeps_spans, first
        self.options, self.is_learned = search.options, has_term_tokens(search.tokenizer)
        self.penalty = search.request.arguments.scoring().penalty

    def before(self, segments: list[Segment]) -> list[Segment]:
        if not self.glossaries:
            return segments
        for segment in segments:
            found = self.glossaries[segment.owner].demands(segment.text_with_masks or segment.piece.text)
            segment.constraints = [*found, *segment.constraints]
        if any(segment.constraints for segment in segments):
            self._translate_terms(segments)
            if self.is_learned:
                self._write_terms(segments)
        return segments

    def after(self, segments: list[Segment]) -> list[Segment]:
        if any(segment.constraints or segment.text_with_terms for segment in segments):
            self._search_again(segments)
            self._hide_terms(segments)
        return segments

    def missing(self, segment: Segment, hypothesis: Hypothesis) -> list[TermConstraint]:
        """The terms of a segment that a hypothesis lacks."""
        text = self._text(hypothesis) if segment.constraints else ""
        return [each for each in segment.constraints if each.count_in(text) < each.count]

    def _text(self, hypothesis: Hypothesis) -> str:
        text = hypothesis.get("translation_text")
        if text is None:
            text = self.search.tokenizer.decode(hypothesis["translation_token_ids"], skip_special_tokens=True)
        return text

    @staticmethod
    def repeated(segment: Segment, number: int) -> str | None:
        """What a hypothesis says besides a term that means the same, in words; or None."""
        placed = segment.placements.get(number)
        if placed is None or not placed.repeated:
            return None
        word, occurrence = placed.repeated[0]
        return f"has {word!r}, too, for {shortened(occurrence.source)}"

    def finally_missing(self, segment: Segment, hypothesis: Hypothesis) -> list[TermConstraint]:
        """What a finished translation lacks: terms, and what was to be kept."""
        if not self.keeps_spans:
            return self.missing(segment, hypothesis)
        from .kept_spans import missing

        return missing(segment, hypothesis)

    def _translate_terms(self, segments: Sequence[Segment]) -> None:
        """Set the result of segments that are nothing but a term, to its first translation."""
        request = self.search.request
        if self.options.return_tensors or request.return_alignments or request.hypotheses > 1:
            return
        for segment in segments:
            text = segment.piece.text.strip()
            for start, end, entry in self.glossaries[segment.owner].find(text) if not segment.prefix else ():
                if (start, end) == (0, len(text)):
                    segment.set_result(entry.targets[0], self.empty())

    def _write_terms(self, segments: Sequence[Segment]) -> None:
        """Replace source terms with their target terms; of several, the first."""
        for segment in segments:
            text = segment.piece.text if self.keeps_spans else without_markers(segment.piece.text)
            if found := list(self.glossaries[segment.owner].find(text)):
                segment.text_with_terms = with_terms(
                    text, [(*place, without_markers(e.targets[0])) for *place, e in found]
                )
            if self.options.on_missing_term == "accept":
                # Those for spans to be kept remain.
                segment.constraints = [each for each in segment.constraints if type(each) is not TermConstraint]

    def _hide_terms(self, segments: Sequence[Segment]) -> None:
        """Make alignments refer to the text itself: what is aligned with a target term in the source becomes aligned
        with the end of the words that it stands for."""
        for segment in segments:
            if not segment.text_with_terms or not segment.hypotheses or "alignment" not in segment.hypotheses[0]:
                continue
            tokens = self.source_tokens(segment.piece.text)
            # Capitals may have been read as lower case with the terms, but not without them.
            lowered = [token.lower() for token in tokens]
            for hypothesis in segment.hypotheses:
                read, places, is_term = [], [], False
                for token in hypothesis["source_tokens"]:
                    is_term |= token in (TERM_TOKENS[0], TERM)
                    read.append(None if is_term else token.lower())
                    is_term &= token not in (TERM_TOKENS[1], END)
                matcher = SequenceMatcher(None, read, lowered, autojunk=False)
                for kind, start, end, first, last in matcher.get_opcodes():
                    places += range(first, last) if kind == "equal" else [max(last - 1, 0)] * (end - start)
                hypothesis["source_tokens"] = tokens
                hypothesis["alignment"] = sorted({(places[source], t) for source, t in hypothesis["alignment"]})

    def _search_again(self, segments: Sequence[Segment]) -> None:
        """Put terms into the translations that lack some; where that does not do, search for the best ones with them.

        Raises:
            ValueError: a translation still lacks a term, and that is to be raised.
        """
        around = self._translate_around_spans(segments)
        lacking = [segment for segment in segments if any(self.missing(segment, each) for each in segment.hypotheses)]
        left = [segment for segment in self._place(lacking) if segment not in around]
        obstacle = self.search.constraint_error("terms") if left else None
        obstacles = {segment: obstacle or self._prepare(segment) for segment in left}
        again = [segment for segment in left if segment.automata]
        if again:
            placed = [replace(segment) for segment in again]
            for segment in again:
                segment.result = None
            self._search(again)
            self._choose(again, placed)
        for segment in lacking:
            self._rank(segment)
        for segment in lacking if self.options.on_missing_term == "error" else []:
            best = segment.hypotheses[0] if segment.hypotheses else None
            if best and (missing := self.missing(segment, best)):
                segment.result = _missing_term(missing, obstacles.get(segment))
                if self.options.on_error == "raise":
                    raise ValueError(f"inputs[{self.first + segment.owner}]: {segment.result}.")

    def _place(self, segments: Sequence[Segment]) -> list[Segment]:
        """Put terms where their source words are translated; return the segments to search again."""
        texts, owners = [], []
        for segment in segments:
            spelled = set(segment.contents[len(segment.placeholders) :])
            # A prefix is to stay as it is.
            for number, hypothesis in enumerate(segment.hypotheses if not segment.prefix else ()):
                missing = {each.terms for each in self.missing(segment, hypothesis)}
                occurrences = [each for each in self._occurrences(segment) if each.terms in missing]
                if 0 < len(occurrences) <= MOST_PLACED:
                    text = self._text(hypothesis)
                    fixed = [place for span in spelled for place in _places_of(span, text)]
                    texts.append(TermText(segment.piece.text, text, occurrences, fixed))
                    owners.append((segment, number))
        for (segment, number), placed in zip(owners, place_terms(texts, self.model)):
            self._set(segment, number, placed)
        return [
            segment for segment in segments
            if any(placed.is_probable for placed in segment.placements.values())
            or any(self.missing(segment, each) for each in segment.hypotheses)
        ]  # fmt: skip

    def _set(self, segment: Segment, number: int, placed: Placement) -> None:
        """Change a hypothesis of a segment into one with terms."""
        hypothesis = segment.hypotheses[number]
        segment.placements[number] = placed
        if "translation_text" in hypothesis:
            hypothesis["translation_text"] = placed.text
        if placed.score:
            length = placed.score.length
            segment.target_lengths = [*segment.target_lengths[:number], length, *segment.target_lengths[number + 1 :]]
            if "score" in hypothesis:
                hypothesis["score"] = placed.score.log_probability / self.penalty(length)
        if self.options.return_tensors or "alignment" in hypothesis:
            ids, alignment = self.model.encode(segment.piece.text, placed.text, "alignment" in hypothesis)
            hypothesis.update(alignment)
            if self.options.return_tensors:
                hypothesis["translation_token_ids"] = ids

    def _rank(self, segment: Segment) -> None:
        """Put the best hypotheses first again."""
        number = len(segment.hypotheses)
        if number < 2 or not all("score" in hypothesis for hypothesis in segment.hypotheses):
            return
        order = sorted(range(number), key=lambda each: -segment.hypotheses[each]["score"])
        segment.placements = {
            place: segment.placements[each] for place, each in enumerate(order) if each in segment.placements
        }
        segment.target_lengths = [segment.target_lengths[each] for each in order]
        segment.result = [segment.hypotheses[each] for each in order]

    def _occurrences(self, segment: Segment) -> list[Occurrence]:
        """The terms and placeholders of a segment."""
        text, found = segment.piece.text, []
        if self.glossaries:
            place = segment.place_in_piece
            terms = self.glossaries[segment.owner].find(segment.text_with_masks or text)
            found = [Occurrence(place(start), place(end), entry.source, entry.terms) for start, end, entry in terms]
        for each in segment.constraints if segment.placeholders else ():
            if each.terms[0].text in KEEPS:
                start = text.index(each.terms[0].text)
                found.append(Occurrence(start, start + 1, each.source, each.terms))
        return found

    def _translate_around_spans(self, segments: Sequence[Segment]) -> list[Segment]:
        """Translate segments that lack spans for which the model has no placeholders without these spans, and insert
        these between the words that translate their neighbors; return them."""
        if not self.keeps_spans or self.options.return_tensors:
            return []
        from .kept_spans import insert_spans, without_spans

        lacking = [
            segment for segment in segments
            if len(segment.contents) > len(segment.placeholders) and not segment.prefix
            and any(self._is_spoiled(segment, each) for each in segment.hypotheses)
        ]  # fmt: skip
        texts = [without_spans(segment) for segment in lacking]
        copies = [
            replace(segment, piece=Piece(text), text_with_terms="", row=None, result=None, constraints=())
            for segment, (text, _) in zip(lacking, texts)
        ]
        self.translate(copies)
        pairs = [(copy.piece.text, self._text(each)) for copy in copies for each in copy.hypotheses]
        links = iter(self.model.align(pairs))
        for segment, copy, (text, gaps) in zip(lacking, copies, texts):
            if isinstance(copy.result, Exception):
                continue
            spans = segment.contents[len(segment.placeholders) :]
            for hypothesis in copy.hypotheses:
                translation = insert_spans(text, gaps, self._text(hypothesis), next(links), spans)
                hypothesis["translation_text"] = translation
            segment.result, segment.target_lengths = copy.result, copy.target_lengths
            segment.constraints = [each for each in segment.constraints if each.terms[0].text not in spans]
        return lacking

    def _is_spoiled(self, segment: Segment, hypothesis: Hypothesis) -> bool:
        """Whether a hypothesis does not have the spans to be kept as they are, or these have spoiled it."""
        text, counts = hypothesis["translation_text"], Counter(segment.contents[len(segment.placeholders) :])
        ratio = getattr(self.search.model.config, "length_ratio", None)
        is_changed = any(text.count(span) != count for span, count in counts.items())
        return is_changed or translation_warning(segment.source, text, ratio) is not None

    def _choose(self, searched: Sequence[Segment], placed: Sequence[Segment]) -> None:
        """Keep translations into which terms were put unless those with terms that were searched for are better by the
        model's own judgment, and do not have the words that the terms replace."""
        best = [self._text(segment.hypotheses[0]) if segment.hypotheses else "" for segment in searched]
        scores = self.model.score([(segment.piece.text, text) for segment, text in zip(searched, best)])
        for segment, before, text, score in zip(searched, placed, best, scores):
            own = before.placements.get(0)
            if own and own.score and segment.hypotheses:
                is_worse = score is None or score.log_probability < own.score.log_probability
                lacks, lacked = (bool(self.missing(segment, each.hypotheses[0])) for each in (segment, before))
                if (lacks, is_worse or own.is_said_again_in(text)) <= (lacked, False):
                    segment.placements = {}
                    continue
            if own or not segment.hypotheses:
                segment.result, segment.target_lengths = before.result, before.target_lengths

    def _prepare(self, segment: Segment) -> str | None:
        """Make the automata of a segment, of the constraints that the tokenizer can spell; or say why some have
        none."""
        speller = self.speller()
        spellings_of = {constraint: speller.spellings(constraint.terms) for constraint in segment.constraints}
        spelled = {constraint: spellings for constraint, spellings in spellings_of.items() if spellings}
        if sum(each.count * sum(map(len, spellings)) for each, spellings in spelled.items()) <= MOST_STATES:
            automata = [_automaton(speller, constraint, spellings) for constraint, spellings in spelled.items()]
            if not automata or SearchSize.of(automata).is_possible():
                segment.automata = automata
                unknown = [constraint for constraint in segment.constraints if constraint not in spelled]
                return f"the tokenizer cannot spell {shown_constraints(unknown)}" if unknown else None
        return TOO_LARGE

    def _search(self, segments: Sequence[Segment]) -> None:
        """Search for translations of segments with the automata that they have."""
        beams = max(self.search.request.arguments.rows(), LEAST_BEAMS)
        constraints = partial(constraint_tables, self.speller(), self.search.model.device)
        search = replace(self.search.changed({"num_beams": beams}), constraints=constraints)
        sizes = {segment: SearchSize.of(segment.automata) for segment in segments}
        part: list[Segment] = []
        size = None
        for segment in sorted(segments, key=lambda segment: (sizes[segment].demands, sizes[segment].width)):
            together = size + sizes[segment] if size else sizes[segment]
            if part and not together.fits(beams):
                search(part)
                part, together = [], sizes[segment]
            part.append(segment)
            size = together
        search(part)


def check_terms(search: Search) -> None:
    """Raise a `ValueError` if the arguments of a search allow no terms.

    Args:
        search: a search with the model itself.
    """
    is_learned = has_term_tokens(search.tokenizer)
    # Other engines put terms into translations, but do not search for them.
    if not is_learned and search.backend.takes_constraints and (obstacle := search.constraint_error("terms")):
        raise ValueError(obstacle)
    if search.options.on_missing_term == "accept" and not is_learned:
        raise ValueError(
            'on_missing_term="accept" is for models that have learned to use terms, and this one was not trained with '
            "augmentation.terms. Leave it out."
        )


def constraint_tables(speller: TermSpeller, device: torch.device, segments: Sequence[Segment]) -> TermAutomata:
    """The automata of a batch, as a search reads them."""
    return TermAutomata([segment.automata for segment in segments], speller.token_kinds, device)


def _places_of(span: str, text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(re.escape(span), text)]


def _missing_term(missing: Sequence[TermConstraint], obstacle: str | None) -> MissingTerm:
    shown = shown_constraints(missing)
    if obstacle:
        return MissingTerm(f"the translation lacks {shown}: {obstacle.rstrip('.')}")
    return MissingTerm(
        f"no translation within the length limit has {shown}. Allow a longer one with max_new_tokens, or leave the "
        "term out"
    )


def _automaton(
    speller: TermSpeller, constraint: TermConstraint, spellings: Sequence[tuple[int, ...]]
) -> TermAutomaton:
    key = constraint.terms, constraint.count
    if key not in speller.automata:
        speller.automata[key] = TermAutomaton.of(spellings, constraint.count, speller.token_kinds)
        speller.remembered += len(speller.automata[key].missing)
    return speller.automata[key]


__all__ = ["Terms", "check_terms"]

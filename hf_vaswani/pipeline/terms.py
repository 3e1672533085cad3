"""What the translation engine does about terms. Imported for texts with terms.

A model that has learned to use terms reads them in its sources (Dinu et al. 2019); others translate all texts as
without terms. Most translations have theirs; for the others, PyTorch searches again.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any

from ..errors import listed
from ..generation.constrained_search import MOST_STATES, SearchSize, search_with_terms
from ..generation.term_automaton import TermAutomata, TermAutomaton
from ..generation.term_spelling import TermSpeller
from ..text.glossary import Demand, Glossary, Term, shown_demands
from ..text.markers import END, TERM, TERM_TOKENS, has_term_tokens, with_terms, without_markers
from .arguments import ONE_BY_ONE
from .segments import Segment, TermsUnmet

# Fewer hypotheses leave no choice of where the terms stand.
LEAST_BEAMS = 4
LEARNED_TOGETHER = 1000  # entries
# Why translations that lack terms are not searched for again.
NO_SEARCH = "an exported model cannot search for one. Use the original, or leave the term out"
TOO_LARGE = "its terms are too many, or too long, for a search in one sentence. Leave some out"


def check_terms(engine: Any, glossaries: Sequence[Glossary]) -> None:
    """Raise a `ValueError` if terms cannot be spelled, or not be searched for with these arguments.

    Args:
        engine: a [`TranslationEngine`], here as below.
    """
    is_learned, error = has_term_tokens(engine.pipeline.tokenizer), search_error(engine, "terms")
    if error and not is_learned:
        raise ValueError(error)
    if engine.on_unmet == "accept" and not is_learned:
        raise ValueError(
            'on_unmet="accept" is for models that have learned to use terms, and this one was not trained with '
            "augmentation.terms. Leave it out."
        )
    entries = list(dict.fromkeys(entry for own in glossaries for entry in own.entries))
    unknown: set[Term] = set()
    for start in range(0, len(entries), LEARNED_TOGETHER):
        some = entries[start : start + LEARNED_TOGETHER]
        unknown.update(_speller(engine).learn(term for entry in some for term in entry.terms))
    if wrong := {str(Demand(entry.terms, 1, entry.source)) for entry in entries if unknown.issuperset(entry.terms)}:
        raise ValueError(
            f"terms: the tokenizer cannot spell {listed(wrong)}, as it has no tokens for some of the characters or "
            "words. Use others, or leave them out."
        )


def search_error(engine: Any, what: str) -> str | None:
    """Why translations cannot be searched for again, which `what` may need; or None."""
    others = [name for name in ("do_sample", "custom_generate", *ONE_BY_ONE) if engine.arguments.get(name)]
    if others:
        return f"{what} need a beam search, which cannot be combined with {', '.join(others)}."
    model = engine.pipeline.model
    if getattr(model, "makes_batches", False):
        return (
            f"{what} need a search with PyTorch, and the model was exported for {model.engine_name}. Use the original "
            "model."
        )
    return None


def translate_terms(engine: Any, segments: Sequence[Segment], glossaries: Sequence[Glossary]) -> None:
    """Set the result of segments that are nothing but a term, to its first translation."""
    if engine.postprocess.get("as_tensors") or engine.forward.get("return_alignments") or engine.hypotheses > 1:
        return
    for segment in segments:
        text = segment.piece.text.strip()
        for start, end, entry in glossaries[segment.owner].find(text) if not segment.prefix else ():
            if (start, end) == (0, len(text)):
                segment.result = [{**each, "translation_text": entry.targets[0]} for each in engine.nothing()]
                segment.target_lengths = [0] * engine.hypotheses


def write_terms(engine: Any, segments: Sequence[Segment], glossaries: Sequence[Glossary]) -> None:
    """Put the target terms in the place of their source terms, of several the first, if the model has learned that."""
    if not has_term_tokens(engine.pipeline.tokenizer):
        return
    for segment in segments:
        text = segment.piece.text if engine.keep else without_markers(segment.piece.text)
        if found := list(glossaries[segment.owner].find(text)):
            segment.marked = with_terms(text, [(*place, without_markers(e.targets[0])) for *place, e in found])
        if engine.on_unmet == "accept":
            # Those of `keep` remain.
            segment.demands = [demand for demand in segment.demands if type(demand) is not Demand]


def hide_terms(engine: Any, segments: Sequence[Segment]) -> None:
    """Make alignments those of the text itself: what is aligned with a target term in the source becomes aligned with
    the end of the words that it stands for."""
    for segment in segments:
        if not segment.marked or not isinstance(segment.result, list) or "alignment" not in segment.result[0]:
            continue
        tokens = engine.source_tokens(segment.piece)
        # Capitals may have been read as lower case with the terms, but not without them.
        lowered = [token.lower() for token in tokens]
        for hypothesis in segment.result:
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


def search_again(engine: Any, segments: Sequence[Segment], first: int) -> None:
    """Search for translations of the segments that lack terms: for the best ones among those that have them.

    Args:
        first: number of the first text, from which errors count.

    Raises:
        ValueError: a translation still lacks a term, and the engine is to raise that.
    """
    lacking = [
        segment
        for segment in segments
        if isinstance(segment.result, list) and any(engine.unmet(segment, each) for each in segment.result)
    ]
    obstacle = NO_SEARCH if search_error(engine, "terms") else None
    obstacles = {segment: obstacle or _prepare(engine, segment) for segment in lacking}
    again = [segment for segment in lacking if segment.automata]
    for segment in again:
        segment.result = None
    _search(engine, again)
    for segment in lacking if engine.on_unmet == "error" else []:
        best = segment.result[0] if isinstance(segment.result, list) else None
        if best and (unmet := engine.unmet(segment, best)):
            segment.result = _unmet_error(unmet, obstacles[segment])
            if engine.on_error == "raise":
                raise ValueError(f"inputs[{first + segment.owner}]: {segment.result}.")


def _beams(engine: Any) -> int:
    return max(engine.arguments.rows(), LEAST_BEAMS)


def _prepare(engine: Any, segment: Segment) -> str | None:
    """Make the automata of a segment, of those demands that the tokenizer can spell; or say why there are none."""
    speller = _speller(engine)
    spelled = {demand: speller.spellings(demand.terms) for demand in segment.demands}
    spelled = {demand: spellings for demand, spellings in spelled.items() if spellings}
    if sum(demand.count * sum(map(len, spellings)) for demand, spellings in spelled.items()) <= MOST_STATES:
        automata = [_automaton(speller, demand, spellings) for demand, spellings in spelled.items()]
        if not automata or SearchSize.of(automata).is_possible():
            segment.automata = automata
            return None
    return TOO_LARGE


def _search(engine: Any, segments: Sequence[Segment]) -> None:
    """Search for translations of segments with the automata that they have."""
    if not segments:
        return
    searching = engine.for_another_search({"num_beams": _beams(engine)})
    sizes = {segment: SearchSize.of(segment.automata) for segment in segments}
    part: list[Segment] = []
    size = None
    for segment in sorted(segments, key=lambda segment: (sizes[segment].demands, sizes[segment].width)):
        together = size + sizes[segment] if size else sizes[segment]
        if part and not together.fits(_beams(engine)):
            searching.search_batches(part)
            part, together = [], sizes[segment]
        part.append(segment)
        size = together
    searching.search_batches(part)
    engine.pipeline.serving.used.add(getattr(engine.pipeline.model, "engine_key", "torch"))


def _unmet_error(unmet: Sequence[Demand], obstacle: str | None) -> TermsUnmet:
    missing = shown_demands(unmet)
    if obstacle:
        return TermsUnmet(f"the translation lacks {missing}, and {obstacle}")
    return TermsUnmet(
        f"no translation within the length limit has {missing}. Allow a longer one with max_new_tokens, or leave the "
        "term out"
    )


def term_search(engine: Any, segments: Sequence[Segment]) -> dict[str, Callable[..., Any]]:
    """Arguments of `generate()` that make it search for the terms of a batch."""
    automata = [segment.automata for segment in segments]
    tables = TermAutomata(automata, _speller(engine).token_kinds, engine.pipeline.model.device)
    return {"custom_generate": partial(search_with_terms, automata=tables)}


def _automaton(speller: TermSpeller, demand: Demand, spellings: Sequence[tuple[int, ...]]) -> TermAutomaton:
    key = demand.terms, demand.count
    if key not in speller.automata:
        speller.automata[key] = TermAutomaton.of(spellings, demand.count, speller.token_kinds)
        speller.remembered += len(speller.automata[key].missing)
    return speller.automata[key]


def _speller(engine: Any) -> TermSpeller:
    known, language = engine.pipeline.term_spellers, engine.preprocess.get("tgt_lang")
    if language not in known:
        known[language] = TermSpeller(engine.pipeline.tokenizer, language)
    return known[language]

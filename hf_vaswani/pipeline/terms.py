"""What the translation engine does about terms. Imported for texts with terms.

A model that has learned to use terms reads them in its sources (Dinu et al. 2019); others translate all texts as
without terms. Most translations have theirs; for the others, PyTorch searches again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..errors import listed
from ..generation.constrained_search import search_with_terms
from ..generation.term_automaton import TermAutomata, TermAutomaton
from ..generation.term_spelling import TermSpeller
from ..text.glossary import Demand, Glossary
from ..text.markers import TERM_TOKENS, annotate_terms, has_term_tokens, without_markers
from .arguments import ONE_BY_ONE
from .segments import Segment, TermsUnmet

# Fewer hypotheses leave no choice of where the terms stand.
LEAST_BEAMS = 4


def check_terms(engine: Any, glossaries: Sequence[Glossary]) -> None:
    """Raise a `ValueError` if terms cannot be spelled, or not be searched for with these arguments.

    Args:
        engine: a [`TranslationEngine`], here as below.
    """
    model, entries = engine.pipeline.model, dict.fromkeys(entry for own in glossaries for entry in own.entries)
    others = [name for name in ("do_sample", "custom_generate", *ONE_BY_ONE) if engine.arguments.get(name)]
    if others:
        raise ValueError(f"terms need a beam search, which cannot be combined with {', '.join(others)}.")
    is_learned = has_term_tokens(engine.pipeline.tokenizer)
    if getattr(model, "makes_batches", False) and not is_learned:
        raise ValueError(
            f"terms need a search with PyTorch, and the model was exported for {model.engine_name}. Use the original "
            "model, or one that was trained with augmentation.terms."
        )
    if engine.on_unmet == "accept" and not is_learned:
        raise ValueError(
            'on_unmet="accept" is for models that have learned to use terms, and this one was not trained with '
            "augmentation.terms. Leave it out."
        )
    unknown = set(_speller(engine).learn(term for entry in entries for term in entry.terms))
    if wrong := {str(Demand(entry.terms, 1, entry.source)) for entry in entries if unknown.issuperset(entry.terms)}:
        raise ValueError(
            f"terms: the tokenizer cannot spell {listed(wrong)}, as it has no tokens for some of the characters or "
            "words. Use others, or leave them out."
        )


def annotate(engine: Any, segments: Sequence[Segment], glossaries: Sequence[Glossary]) -> None:
    """Write the target terms into the sources, of several the first, if the model has learned to use them."""
    if not has_term_tokens(engine.pipeline.tokenizer):
        return
    for segment in segments:
        if segment.demands:
            found = glossaries[segment.owner].find(text := without_markers(segment.piece.text))
            segment.marked = annotate_terms(text, [(*place, without_markers(e.targets[0])) for *place, e in found])


def hide_annotations(segments: Sequence[Segment]) -> None:
    """Remove from alignments what was written into the sources: what is aligned with a target term there becomes
    aligned with the end of its source term."""
    for segment in segments:
        for hypothesis in segment.result if segment.marked and isinstance(segment.result, list) else ():
            if "alignment" in hypothesis:
                kept, places, is_target = [], [], False
                for token in hypothesis["source_tokens"]:
                    is_target = token == TERM_TOKENS[1] or (is_target and token != TERM_TOKENS[2])
                    if not (is_target or token in TERM_TOKENS):
                        kept.append(token)
                    # An opening marker belongs to what follows.
                    places.append(len(kept) - (token != TERM_TOKENS[0]))
                hypothesis["source_tokens"] = kept
                hypothesis["alignment"] = sorted({(places[source], t) for source, t in hypothesis["alignment"]})


def search_again(engine: Any, segments: Sequence[Segment], first: int) -> None:
    """Search for translations of the segments that lack terms: for the best ones among those that have them.

    Args:
        first: number of the first text, from which errors count.

    Raises:
        ValueError: a translation still lacks a term, and the engine is to raise that.
    """
    if engine.on_unmet == "accept":
        return
    lacking = [
        segment
        for segment in segments
        if isinstance(segment.result, list) and any(engine.unmet(segment, each) for each in segment.result)
    ]
    if not lacking:
        return
    can_search = not getattr(engine.pipeline.model, "makes_batches", False)
    if can_search:
        _search(engine, lacking)
    for segment in lacking if engine.on_unmet == "error" else []:
        best = segment.result[0] if isinstance(segment.result, list) else None
        if best and (unmet := engine.unmet(segment, best)):
            segment.result = TermsUnmet(unmet, can_search)
            if engine.on_error == "raise":
                raise ValueError(f"inputs[{first + segment.owner}]: {segment.result}.")


def _search(engine: Any, lacking: Sequence[Segment]) -> None:
    speller = _speller(engine)
    for segment in lacking:
        segment.automata = [_automaton(speller, demand) for demand in segment.demands]
        segment.result = None
    beams = {"num_beams": max(engine.arguments.rows(), LEAST_BEAMS)}
    arguments, forward = engine.arguments.of_batch(beams), {**engine.forward, **beams}
    searching = replace(engine, arguments=arguments, forward=forward, progress=None, glossary=None)
    searching.finish = lambda done: None  # reported already
    searching.search_batches(list(lacking))
    engine.pipeline.serving.used.add(getattr(engine.pipeline.model, "engine_key", "torch"))


def term_search(engine: Any, segments: Sequence[Segment]) -> dict[str, Callable[..., Any]]:
    """Arguments of `generate()` that make it search for the terms of a batch."""
    automata = [segment.automata for segment in segments]
    tables = TermAutomata(automata, _speller(engine).token_kinds, engine.pipeline.model.device)
    return {"custom_generate": partial(search_with_terms, automata=tables)}


def _automaton(speller: TermSpeller, demand: Demand) -> TermAutomaton:
    key = demand.terms, demand.count
    if key not in speller.automata:
        spellings = speller.spellings(demand.terms)
        speller.automata[key] = TermAutomaton.of(spellings, demand.count, speller.token_kinds)
    return speller.automata[key]


def _speller(engine: Any) -> TermSpeller:
    known, language = engine.pipeline.term_spellers, engine.preprocess.get("tgt_lang")
    if language not in known:
        known[language] = TermSpeller(engine.pipeline.tokenizer, language)
    return known[language]

"""What the translation engine asks about terms: whether it can search for them, and which a translation lacks."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..errors import listed
from ..generation.constrained_search import search_with_terms
from ..generation.output_scores import Hypothesis
from ..generation.term_automaton import TermAutomata, TermAutomaton
from ..generation.term_spelling import TermSpeller
from ..text.glossary import Demand, Glossary
from .arguments import ONE_BY_ONE, GenerateArguments

# Fewer hypotheses leave no choice of where the terms stand.
LEAST_BEAMS = 4


class TermsUnmet(ValueError):
    """A text of which no translation with all terms was found."""

    def __init__(self, unmet: list[Demand]):
        super().__init__(
            f"no translation within the length limit has {', '.join(map(str, unmet))}. Allow a longer one with "
            "max_new_tokens, or leave the term out"
        )


def check_terms(
    glossaries: Sequence[Glossary], speller: TermSpeller, model: PreTrainedModel, arguments: GenerateArguments
) -> None:
    """Raise a `ValueError` if the terms cannot be spelled, or not be searched for with these arguments."""
    entries = list(dict.fromkeys(entry for glossary in glossaries for entry in glossary.entries))
    others = [name for name in ("do_sample", "custom_generate", *ONE_BY_ONE) if arguments.get(name)]
    if entries and others:
        raise ValueError(f"terms need a beam search, which cannot be combined with {', '.join(others)}.")
    if entries and getattr(model, "makes_batches", False):
        raise ValueError(
            f"terms need a search with PyTorch, and the model was exported for {model.engine_name}. Use the original "
            "model."
        )
    unknown = set(speller.learn(term for entry in entries for term in entry.terms))
    if wrong := {repr(entry.source) for entry in entries if unknown.issuperset(entry.terms)}:
        raise ValueError(
            f"terms: the tokenizer cannot spell the target terms of {listed(wrong)}, as it has no tokens for some of "
            "their characters or words. Use others, or leave them out."
        )


def unmet_demands(
    demands: Sequence[Demand], hypothesis: Hypothesis, tokenizer: PreTrainedTokenizerBase
) -> list[Demand]:
    """The demands that a hypothesis does not meet."""
    if not demands:
        return []
    text = hypothesis.get("translation_text")
    if text is None:
        text = tokenizer.decode(hypothesis["translation_token_ids"], skip_special_tokens=True)
    return [demand for demand in demands if demand.count_in(text) < demand.count]


def terms_warning(demands: Sequence[Demand], hypothesis: Hypothesis, tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Which terms a hypothesis lacks, or `None`."""
    unmet = unmet_demands(demands, hypothesis, tokenizer)
    return f"lacks {', '.join(map(str, unmet))}" if unmet else None


def make_automaton(demand: Demand, speller: TermSpeller) -> TermAutomaton:
    """The automaton of a demand."""
    return TermAutomaton.of(speller.spellings(demand.terms), demand.count, speller.token_kinds)


def term_search(
    automata: Sequence[Sequence[TermAutomaton]], speller: TermSpeller, device: torch.device
) -> dict[str, Callable[..., Any]]:
    """Arguments of `generate()` that make it search for the terms of each sentence."""
    return {
        "custom_generate": partial(search_with_terms, automata=TermAutomata(automata, speller.token_kinds, device))
    }

"""Minimum Bayes risk decoding: of many candidates, the translation that the model finds best on average.

Beam search looks for the most probable translation; this looks for the one that is most like all that the model could
have said. Its samples stand for both: each candidate is compared with every sample as if that were the reference, and
the one with the highest mean utility is taken (Eikema & Aziz 2020; Freitag et al. 2022). Epsilon sampling (Freitag et
al. 2023) leaves out tokens that are too improbable to be meant.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from ..core.pipeline_engine import Result
from ..core.pipeline_inputs import check_many, check_number, check_text
from .utility import UTILITIES

Utility = Callable[[Sequence[str], Sequence[str]], np.ndarray]
DEFAULT_SAMPLES, DEFAULT_EPSILON = 32, 0.02
TEXTS_AT_ONCE, MOST_SAMPLES = 256, 10_000


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate and its expected utility: the mean over the pseudo-references, 0 to 100 for chrF2 and BLEU."""

    text: str
    utility: float


def rank_candidates(
    candidates: Sequence[str],
    utility: str | Utility = "chrf",
    weights: Sequence[float] | None = None,
    references: Sequence[str] | None = None,
) -> list[RankedCandidate]:
    """Rank the candidates of one sentence, best first.

    Args:
        candidates: samples or an n-best list. One that comes several times is ranked once, where it came first.
        utility: `"chrf"`, `"bleu"`, or a function of hypotheses and references that gives what each hypothesis is
            worth by each reference, `(hypotheses, references)`. All strings that it gets of one side differ.
        weights: of the references, in proportion, such as the probabilities of an n-best list; default: all the same.
        references: what the candidates are compared with; default: the candidates themselves.

    Raises:
        ValueError: no reference, another number of weights than of references, weights that are not proportions, an
            unknown utility, or one text where a list is wanted.
    """
    measure = utility_function(utility)
    candidates = _texts("candidates", candidates)
    references = candidates if references is None else _texts("references", references)
    try:
        weights = np.ones(len(references)) if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"weights must be numbers, one per reference, got {weights!r}.") from None
    if not references or len(weights) != len(references):
        raise ValueError(f"{len(references)} references and {len(weights)} weights: give as many of both, at least 1.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("weights must be finite, not negative, and not all zero.")
    share: dict[str, float] = {}
    for reference, weight in zip(references, weights / weights.sum()):
        share[reference] = share.get(reference, 0.0) + float(weight)
    hypotheses = list(dict.fromkeys(candidates))
    expected = np.asarray(measure(hypotheses, list(share))) @ np.array(list(share.values()))
    best_first = np.argsort(-expected, kind="stable")
    return [RankedCandidate(hypotheses[i], float(expected[i])) for i in best_first]


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    """An argument's texts as a list; anything else is refused."""
    check_many(name, texts)
    texts = list(texts)
    for text in texts:
        check_text(name, text)
    return texts


def translate_mbr(
    translator: Callable,
    texts: Iterable[str],
    samples: int = DEFAULT_SAMPLES,
    utility: str | Utility = "chrf",
    epsilon: float = DEFAULT_EPSILON,
    do_sample: bool = True,
    **options,
) -> Iterator[list[RankedCandidate]]:
    """Translate texts by minimum Bayes risk.

    Args:
        translator: a translation pipeline.
        texts: sentences, which are read as they are needed.
        samples: candidates a sentence, 2 or more.
        utility: as in [`rank_candidates`].
        epsilon: tokens less probable than this are not sampled; 0 samples from the model as it is.
        do_sample: draw samples; otherwise the candidates are the n-best list of a beam search with that many beams,
            weighted by the exponential of their scores.
        options: further arguments of the translator, such as `temperature=0.9` or `batch_tokens=1024`.

    Returns:
        An iterator over the ranked candidates of each text, in order: `ranking[0].text` is its translation. Samples
        follow torch's seed.

    Raises:
        ValueError: an unknown utility, one text instead of a list, invalid numbers; at once.
    """
    utility_function(utility)
    check_many("texts", texts)
    options = {**candidate_arguments(samples, epsilon, do_sample), **options}
    return rankings(partial(translator, **options), texts, utility, is_weighted=not do_sample)


def candidate_arguments(samples: int, epsilon: float = DEFAULT_EPSILON, do_sample: bool = True) -> dict[str, Any]:
    """What makes a translation pipeline give the candidates; arguments and errors as in [`translate_mbr`]."""
    check_number("samples", samples)
    if samples is None or samples < 2:
        raise ValueError(
            f"samples must be 2 or more, not {samples}: minimum Bayes risk decoding chooses among candidates."
        )
    if samples > MOST_SAMPLES:
        raise ValueError(f"samples must be at most {MOST_SAMPLES:,}, got {samples:,}.")
    if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0 <= epsilon < 1:
        raise ValueError(f"epsilon must be a probability below 1, got {epsilon!r}.")
    if not do_sample:
        return {"num_beams": samples, "n_best": samples}
    search = {"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 1.0, "epsilon_cutoff": epsilon}
    return {**search, "num_return_sequences": samples}


def rankings(
    translate: Callable[[list[str]], list[Result]],
    texts: Iterable[str],
    utility: str | Utility = "chrf",
    is_weighted: bool = False,
) -> Iterator[list[RankedCandidate] | Exception]:
    """Rank the candidates of each text.

    Args:
        translate: texts → the candidates of each, or its error, which takes the place of the ranking.
        texts: read as they are needed.
        is_weighted: weight candidates by the exponential of their scores.
    """
    texts = iter(texts)
    while window := list(islice(texts, TEXTS_AT_ONCE)):
        for candidates in translate(window):
            if isinstance(candidates, Exception):
                yield candidates
                continue
            scores = np.array([candidate["score"] for candidate in candidates]) if is_weighted else None
            weights = np.exp(scores - scores.max()) if is_weighted else None
            yield rank_candidates([candidate["translation_text"] for candidate in candidates], utility, weights)


def utility_function(utility: str | Utility) -> Utility:
    """A utility by its name, or itself; anything else is refused."""
    if callable(utility):
        return utility
    if not isinstance(utility, str) or utility not in UTILITIES:
        raise ValueError(f"utility must be one of {', '.join(UTILITIES)} or a function, got {utility!r}.")
    return UTILITIES[utility]

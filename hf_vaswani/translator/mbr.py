"""Minimum Bayes risk decoding: from many candidates, chooses the translation with the highest expected utility.

Beam search looks for the most probable translation; this looks for the one that is most similar to everything that the
model could have said. The model's samples are both candidates and references: each candidate is compared with every
sample as if the sample were the reference, and the one with the highest mean utility wins (Eikema & Aziz 2020; Freitag
et al. 2022). Epsilon sampling (Freitag et al. 2023) never draws very improbable tokens.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from numbers import Real

import numpy as np
from sacrebleu.metrics import BLEU

from ..errors import counted
from ..text.inputs import check_many, check_number, check_text
from ..text.words import SPACELESS
from .segments import Result

CHRF_ORDER, CHRF_BETA, BLEU_ORDER = 6, 2, 4
FEATURES_AT_ONCE = 1 << 16
# Characters of scripts without spaces, with their punctuation.
WITHOUT_SPACES = re.compile(f"[{SPACELESS}\uff01-\uff65]")
Utility = Callable[[Sequence[str], Sequence[str]], np.ndarray]
DEFAULT_SAMPLES, DEFAULT_EPSILON = 32, 0.02
TEXTS_AT_ONCE, MOST_SAMPLES = 256, 10_000


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """chrF2, 0 to 100, of each hypothesis against each reference: float64 `(hypotheses, references)`."""
    sides = [["".join(text.split()) for text in side] for side in (hypotheses, references)]
    precision, recall, orders = np.zeros((3, len(hypotheses), len(references)))
    for order in range(1, CHRF_ORDER + 1):
        grams = [[_grams(text, order) for text in side] for side in sides]
        shared = _shared(*grams)
        in_hypothesis, in_reference = _sizes(grams[0])[:, None], _sizes(grams[1])[None, :]
        # An order counts only if both strings are long enough for it.
        precision += shared / np.maximum(in_hypothesis, 1)
        recall += shared / np.maximum(in_reference, 1)
        orders += (in_hypothesis > 0) & (in_reference > 0)
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = CHRF_BETA**2 * precision + recall
    return 100 * (1 + CHRF_BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """BLEU, 0 to 100, of each hypothesis against each reference: float64 `(hypotheses, references)`.

    It equals sacreBLEU's `BLEU(effective_order=True)`: tokenized by 13a, with exponential smoothing, and with only the
    orders for which the hypothesis has n-grams. In scripts without spaces, each character is a token, since 13a would
    make a sentence one token.
    """
    tokenize = BLEU(effective_order=True).tokenizer
    spaced = [[WITHOUT_SPACES.sub(r" \g<0> ", text) for text in side] for side in (hypotheses, references)]
    sides = [[tuple(tokenize(text.rstrip()).split()) for text in side] for side in spaced]
    shape = len(hypotheses), len(references)
    smoothing, logarithms, matches = np.ones(shape), np.zeros(shape), np.zeros(shape)
    for order in range(1, BLEU_ORDER + 1):
        grams = [[_grams(tokens, order) for tokens in side] for side in sides]
        shared, total = _shared(*grams), _sizes(grams[0])[:, None]
        # Each order that has n-grams but no match halves the number that stands in for its matches.
        smoothing *= np.where((shared == 0) & (total > 0), 2, 1)
        precision = np.where(shared > 0, shared, 1 / smoothing) / np.maximum(total, 1)
        logarithms += np.where(total > 0, np.log(precision), 0)
        matches += shared
    lengths, reference_lengths = (np.array([len(tokens) for tokens in side], dtype=np.float64) for side in sides)
    orders = np.clip(lengths, 1, BLEU_ORDER)[:, None]
    brevity = np.minimum(0, 1 - reference_lengths[None, :] / np.maximum(lengths, 1)[:, None])
    return np.where(matches > 0, 100 * np.exp(brevity + logarithms / orders), 0)


UTILITIES: dict[str, Callable[[Sequence[str], Sequence[str]], np.ndarray]] = {
    "chrf": sentence_chrf,
    "bleu": sentence_bleu,
}


def _grams(text: Sequence, order: int) -> Counter:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def _sizes(side: Iterable[Counter]) -> np.ndarray:
    return np.array([counts.total() for counts in side], dtype=np.float64)


def _shared(hypotheses: list[Counter], references: list[Counter]) -> np.ndarray:
    """How many n-grams each hypothesis shares with each reference: float64 `(hypotheses, references)`."""
    columns: dict = {}
    rows, places = [], []
    for row, counts in enumerate([*hypotheses, *references]):
        for gram, count in counts.items():
            for occurrence in range(count):
                rows.append(row)
                places.append(columns.setdefault((gram, occurrence), len(columns)))
    rows, places = np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)
    # A feature in only one row is not shared; a string on both sides has two rows.
    common = np.bincount(places, minlength=len(columns)) > 1
    kept = common[places]
    rows, places = rows[kept], (np.cumsum(common) - 1)[places[kept]]
    shared = np.zeros((len(hypotheses), len(references)))
    for start in range(0, int(common.sum()), FEATURES_AT_ONCE):
        here = (places >= start) & (places < start + FEATURES_AT_ONCE)
        width = min(FEATURES_AT_ONCE, int(common.sum()) - start)
        present = np.zeros((len(hypotheses) + len(references), width), dtype=np.float32)
        present[rows[here], places[here] - start] = 1
        shared += present[: len(hypotheses)] @ present[len(hypotheses) :].T
    return shared


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
        candidates: samples or an n-best list. A repeated candidate is ranked once; ties keep the given order.
        utility: `"chrf"`, `"bleu"`, or a function of hypotheses and references that returns the utility of each
            hypothesis for each reference, `(hypotheses, references)`. Neither of its lists has duplicates.
        weights: relative weights of the references, such as the probabilities of an n-best list; default: equal.
        references: what the candidates are compared with; default: the candidates themselves.

    Raises:
        ValueError: there are no references, the numbers of weights and references differ, the weights are negative,
            not finite or all zero, the utility is unknown, or a single text is given instead of a list.
    """
    measure = utility_function(utility)
    candidates = _texts("candidates", candidates)
    references = candidates if references is None else _texts("references", references)
    try:
        weights = np.ones(len(references)) if weights is None else np.asarray(weights, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"weights must be numbers, one per reference, got {weights!r}.") from None
    if not references or len(weights) != len(references):
        raise ValueError(
            f"{counted(len(references), 'reference')} and {counted(len(weights), 'weight')}: "
            "the numbers must be equal and at least 1."
        )
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
    """An argument's texts as a list; raises a `ValueError` if it is anything else."""
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
    """Translate texts with minimum Bayes risk decoding.

    Args:
        translator: a translation pipeline.
        texts: sentences, read as needed.
        samples: candidates per sentence, 2 or more.
        utility: as in [`rank_candidates`].
        epsilon: tokens less probable than this are not sampled; 0 samples from the model's full distribution.
        do_sample: draw samples; otherwise the candidates are the n-best list of a beam search with `samples` beams,
            weighted by the exponential of their scores.
        options: further arguments of the translator, such as `temperature=0.9` or `batch_tokens=1024`.

    Returns:
        An iterator over the ranked candidates of each text, in order: `ranking[0].text` is its translation. Samples
        depend on torch's seed.

    Raises:
        ValueError: the utility is unknown, a single text is given instead of a list, or a number is invalid; raised
            by the call itself, before any text is read.
    """
    utility_function(utility)
    check_many("texts", texts)
    options = {**candidate_arguments(samples, epsilon, do_sample), **options}
    return rankings(partial(translator, **options), texts, utility, is_weighted=not do_sample)


def candidate_arguments(samples: int, epsilon: float = DEFAULT_EPSILON, do_sample: bool = True) -> dict[str, object]:
    """Arguments with which a translation pipeline returns candidates; arguments and errors as in [`translate_mbr`]."""
    check_number("samples", samples, least=2)
    if samples is None or samples > MOST_SAMPLES:
        raise ValueError(f"samples must be from 2 to {MOST_SAMPLES:,}, got {samples}.")
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
        texts: read as needed.
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
    """The utility of this name, or the given function; raises a `ValueError` for anything else."""
    if callable(utility):
        return utility
    if not isinstance(utility, str) or utility not in UTILITIES:
        raise ValueError(f"utility must be one of {', '.join(UTILITIES)} or a function, got {utility!r}.")
    return UTILITIES[utility]

"""Noisy-channel reranking: of a beam's translations, takes the one that also explains the source (Yee et al. 2019).

A beam search maximizes log p(y | x), which a translation y that leaves out a part of the source x lowers but little.
For a model of the other direction, such a translation makes the missing part improbable, so log p(x | y) is low.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..errors import InputError
from ..models.load import check_gives_probabilities, load
from ..text.language_marks import unmarked_warning
from ..text.languages import LanguagePair, choose_languages, fits_pair, language_pairs, pairs_in_words
from .pairs import PairScore, score_pairs
from .segments import Hypothesis, Result

DEFAULT_WEIGHT = 0.2


@dataclass(frozen=True)
class Reranker:
    """Sorts the translations of each text again, with a model of the other direction."""

    # That model, and its tokenizer
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    # Of the mean log-probability of a source token, which is added to the score of the search
    weight: float = DEFAULT_WEIGHT
    # `src_lang` and `tgt_lang` of this model, if it needs them
    languages: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, texts: Sequence[str], results: Sequence[Result]) -> list[Result]:
        """The translations of each text, best first.

        Args:
            texts: the sources.
            results: for each text, its translations with their scores, or the error in their place, which stays.

        Returns:
            The same translations, each with a `source_score`: the mean log-probability of a source token. It is `None`
            for those that are too long to be scored, which are last.
        """
        pairs = [
            (hypothesis["translation_text"], text)
            for text, result in zip(texts, results, strict=True)
            if not isinstance(result, Exception)
            for hypothesis in result
        ]
        scores = score_pairs(self.model, self.tokenizer, pairs, report=lambda number, why: None, **self.languages)
        return [
            result if isinstance(result, Exception) else self._sorted(result, list(islice(scores, len(result))))
            for result in results
        ]

    def _sorted(self, result: list[Hypothesis], scores: list[PairScore | None]) -> list[Hypothesis]:
        of_source = [score and score.log_probability / score.length for score in scores]
        scored = [{**hypothesis, "source_score": mean} for hypothesis, mean in zip(result, of_source)]

        def total(hypothesis: Mapping[str, Any]) -> float:
            mean = hypothesis["source_score"]
            return float("-inf") if mean is None else hypothesis["score"] + self.weight * mean

        return sorted(scored, key=total, reverse=True)


def open_reranker(
    path: str,
    weight: float | None,
    translated: Sequence[Sequence[LanguagePair]],
    languages: Mapping[str, str],
    dtype: str | None = None,
) -> Reranker:
    """Load a model that reranks the translations of others.

    Args:
        path: folder or Hub id of a model that translates in the other direction.
        weight: as in [`Reranker`]; `None` for its default.
        translated: for each model whose translations are reranked, the language pairs that it translates; empty if
            they are not known.
        languages: `src_lang` and `tgt_lang` of the translations, if given.
        dtype: as in [`load`].

    Raises:
        InputError: the model cannot be loaded, was exported to an engine that gives no probabilities, or translates
            another pair of languages.
    """
    other, other_tokenizer = load(path, dtype)
    check_gives_probabilities(path, other)
    requested, known = (languages.get("src_lang"), languages.get("tgt_lang")), language_pairs(other, other_tokenizer)
    for pairs in translated:
        needed = [pair[::-1] for pair in ([requested] if any(requested) else pairs)]
        if needed and known and not any(fits_pair(pair, own) for pair in needed for own in known):
            raise InputError(
                f"{path} translates {pairs_in_words(known)}. Reranking needs a model of the other direction: "
                f"{pairs_in_words(needed)}."
            )
    chosen = choose_languages(other, other_tokenizer, requested[::-1])
    if unmarked_warning(other_tokenizer, ["a"], chosen.target):
        raise InputError(f"{path} translates into several languages. Name the source language of the translations.")
    return Reranker(other, other_tokenizer, DEFAULT_WEIGHT if weight is None else weight, chosen.arguments())


def beam_candidates(model: PreTrainedModel, num_beams: int | None = None) -> dict[str, int | bool]:
    """Arguments with which a translation pipeline returns all translations of its beam, as reranking needs them.

    The search runs until no better translation can follow: with `early_stopping=True`, the first that are finished,
    which are short, would be the only ones to choose from.

    Args:
        num_beams: the call's; by default, the generation config's.

    Raises:
        ValueError: the search has a single beam.
    """
    beams = num_beams or model.generation_config.num_beams or 1
    if beams < 2:
        raise ValueError("num_beams must be 2 or more: reranking chooses among the translations of a beam.")
    return {"num_beams": beams, "n_best": beams, "early_stopping": False}

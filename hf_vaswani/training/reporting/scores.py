"""The scores of a run: those of its validations, and those of its final model on the test sets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ...data.sources.parallel_files import Pair
from ...errors import InputError
from ...evaluation.score import Score, scores
from ...evaluation.score_settings import ScoreSettings
from ...hub.run_report import TestScores
from ...text.languages import check_languages, language_code

if TYPE_CHECKING:
    from ...translation.reranking import Reranker
from ..recipe.arguments import COMPARED, RERANKER, EvaluationArguments
from ..recipe.recipe import Recipe
from ..setup.splits import model_languages
from ..setup.tokenizer_and_model import named

SAMPLING_SEED = 0


@dataclass(frozen=True)
class Translations:
    """Translations of a test set, with their BLEU and chrF2."""

    texts: list[str]
    scores: list[Score]

    def write(self, path: Path) -> None:
        """Write the translations to a file, one per line."""
        from ...translation.lines import write_translations

        write_translations(path, self.texts)


@dataclass(frozen=True)
class ScoredTest:
    """A test set and the final model's translations of it.

    Attributes:
        pairs: source and reference of each sentence.
        translations: those by the recipe's search, under `""`, and if requested, by greedy search, by minimum Bayes
            risk decoding, and by reranking, under `"greedy"`, `"mbr"`, and `"reranked"`.
    """

    pairs: list[Pair]
    translations: dict[str, Translations]

    @property
    def found(self) -> Translations:
        """The translations by the recipe's search."""
        return self.translations[""]

    def examples(self, number: int) -> list[tuple[str, str, str]]:
        """Source, translation and reference of its first sentences."""
        found = zip(self.pairs[:number], self.found.texts)
        return [(source, translation, reference) for (source, reference), translation in found]

    def scores(self) -> TestScores:
        """The scores, without the texts."""
        values: dict[str, Any] = {"sentences": len(self.pairs)}
        for search, translations in self.translations.items():
            for score in translations.scores:
                name = f"{search}_{score.name.lower()}" if search else score.name.lower()
                values |= {name: score.value, f"{name}_signature": score.signature}
        return TestScores(**values)


def score_test(
    translate: Callable[..., list[str]],
    pairs: list[Pair],
    evaluation: EvaluationArguments,
    num_beams: int,
    scoring: ScoreSettings,
    reranker: "Reranker | None" = None,
) -> ScoredTest:
    """Translate a test set and score it.

    Args:
        translate: translates texts; takes the options of `translation.translate`, which replace the recipe's search.
        num_beams: that of the recipe; if it is 1, its search is greedy already.
        scoring: how the translations are scored.
        reranker: that of `evaluation.rerank_with`.
    """
    sources, references = map(list, zip(*pairs))

    def scored(**search: Any) -> Translations:
        texts = translate(sources, **search)
        return Translations(texts, bleu_and_chrf(texts, references, scoring))

    found = {"": scored()}
    if evaluation.greedy:
        found["greedy"] = found[""] if num_beams == 1 else scored(num_beams=1)
    if evaluation.mbr:
        # The same samples whenever a run is evaluated.
        with torch.random.fork_rng():
            torch.manual_seed(SAMPLING_SEED)
            found["mbr"] = scored(utility=evaluation.mbr, samples=evaluation.samples)
    if reranker:
        penalty = evaluation.rerank_length_penalty
        search = {"num_beams": evaluation.rerank_beams, **({} if penalty is None else {"length_penalty": penalty})}
        found["reranked"] = scored(reranker=reranker, **search)
    return ScoredTest(pairs, found)


def load_reranker(recipe: Recipe) -> "Reranker | None":
    """The reranker of `evaluation.rerank_with`; `None` if the recipe names none.

    Raises:
        InputError: it cannot be loaded, does not translate in the other direction, or must be told the languages.
    """
    name = recipe.evaluation.rerank_with
    if not name:
        return None
    from ...translation.reranking import open_reranker

    source, target = map(language_code, model_languages(recipe.data))
    reranker = named(RERANKER, lambda: open_reranker(name, None, [[(source, target)]], {}))
    _check_languages(f"{RERANKER}={name}", reranker.model, reranker.tokenizer)
    return reranker


def load_compared(recipe: Recipe) -> tuple[PreTrainedModel, PreTrainedTokenizerBase] | None:
    """The model of `evaluation.compare_with`, several as an ensemble, and its tokenizer; `None` if none is named.

    Raises:
        InputError: it cannot be loaded, or must be told the languages.
    """
    if not (names := recipe.evaluation.compared):
        return None
    from ...translation.load import load_ensemble

    model, tokenizer = named(COMPARED, lambda: load_ensemble(names))
    _check_languages(f"{COMPARED}={', '.join(names)}", model, tokenizer)
    return model, tokenizer


def _check_languages(key: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    try:
        check_languages(tokenizer, None, None, model.generation_config.forced_bos_token_id is not None)
    except ValueError:
        raise InputError(
            f"{key} is multilingual, and a recipe has no key for its languages. Remove it, and use hf-vaswani evaluate"
        ) from None


def perplexity(loss: float) -> float:
    """The perplexity for a loss per token, bounded so that it does not overflow."""
    return math.exp(min(loss, 100))


def bleu_and_chrf(hypotheses: list[str], references: list[str], scoring: ScoreSettings) -> list[Score]:
    """The BLEU and chrF2 scores of translations, in this order."""
    return scores(hypotheses, references, ["bleu", "chrf"], **scoring.arguments())

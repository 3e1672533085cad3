"""Scores the final model on its test sets, and calibrates its confidence."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..data.sources.text_files import Pair
from ..errors import InputError
from ..evaluation.score import Score
from ..evaluation.score_settings import ScoreSettings
from ..records.run_report import TermShares, TestScores
from ..runtime.processes import print_main
from .build import TrainingSetup
from .recipe.arguments import EvaluationArguments
from .validation import ENGINE, bleu_and_chrf

if TYPE_CHECKING:
    from ..text.glossary import Glossary
    from ..translator.reranking import Reranker

SAMPLING_SEED = 0
# On which confidence is calibrated.
MOST_PAIRS = 2000


@dataclass(frozen=True)
class Translations:
    """Translations of a test set, with their BLEU and chrF2."""

    texts: list[str]
    scores: list[Score]

    def write(self, path: Path) -> None:
        """Write the translations to a file, one per line."""
        from ..translator.lines import write_translations

        write_translations(path, self.texts)


@dataclass(frozen=True)
class ScoredTest:
    """A test set and the final model's translations of it.

    Attributes:
        pairs: source and reference of each sentence.
        translations: those by the recipe's search, under `""`, and if requested, by greedy search, by minimum Bayes
            risk decoding, by reranking, and with a glossary, under `"greedy"`, `"mbr"`, `"reranked"`, and
            `"glossary"`.
        terms: if there are some with a glossary, how many of its terms these have, and those without it.
    """

    pairs: list[Pair]
    translations: dict[str, Translations]
    terms: TermShares | None = None

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
        values: dict[str, Any] = {"sentences": len(self.pairs), "engine": ENGINE}
        values |= {"terms": self.terms} if self.terms else {}
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
    glossary: "Glossary | None" = None,
) -> ScoredTest:
    """Translate a test set and score it.

    Args:
        translate: translates texts; takes the options of `translation.translate`, which replace the recipe's search.
        num_beams: that of the recipe; if it is 1, its search is greedy already.
        scoring: how the translations are scored.
        reranker: that of `evaluation.rerank_with`.
        glossary: that of `evaluation.glossary`.
    """
    sources, references = map(list, zip(*pairs))

    def scored(**search: object) -> Translations:
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
    terms = None
    if glossary:
        from ..evaluation.terms import score_terms

        try:
            found["glossary"] = scored(terms=glossary)
        except ValueError as error:  # the model itself must not be lost
            print_main(f"warning: evaluation.glossary: {error}")
        else:
            own, with_glossary = (
                score_terms(glossary, sources, found[search].texts, [references]) for search in ("", "glossary")
            )
            terms = TermShares(in_sources=own.occurrences, found=own.found, found_with_glossary=with_glossary.found)
    return ScoredTest(pairs, found, terms)


def calibrate_confidence(setup: TrainingSetup, model: VaswaniForConditionalGeneration) -> None:
    """Set `confidence` of the model's config from its translations of the validation set."""
    pairs = setup.splits.validation
    pairs = pairs[:: max(1, len(pairs) // MOST_PAIRS)]
    from ..evaluation.calibration import calibrate
    from ..translator.pipeline import TranslationPipeline

    translator = TranslationPipeline(model, tokenizer=setup.tokenizer, device=model.device)
    try:
        report = calibrate(translator, *zip(*pairs))
    except InputError as error:  # the model itself must not be lost
        print_main(f"warning: evaluation.confidence: {error}")
        return
    model.config.confidence = report.calibration.to_dict()
    print_main(str(report))

"""Measures a model on validation text: loss, perplexity, token accuracy, BLEU, chrF; and scores it on test sets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..core.modeling_vaswani import IGNORED_LABEL
from ..data.batches import TokenBudgetBatches
from ..data.encoding import Collator, EncodedPairs
from ..data.sources.text_files import Pair
from ..errors import InputError
from ..evaluation.score import Score, scores
from ..evaluation.score_settings import ScoreSettings
from ..records.run_report import TermShares, TestScores
from ..runtime.processes import say
from ..text.languages import check_languages, language_code
from ..translator.pipeline import translate
from .recipe.arguments import COMPARED, RERANKER, EvaluationArguments, TrainingArguments
from .recipe.recipe import Recipe
from .setup.splits import model_languages
from .setup.tokenizer_and_model import named

if TYPE_CHECKING:
    from ..text.glossary import Glossary
    from ..translator.reranking import Reranker

SAMPLING_SEED = 0
# What computes the translations that are scored, as the pipeline's `engine`.
ENGINE = "torch"


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
    terms = None
    if glossary:
        from ..evaluation.terms import score_terms

        try:
            found["glossary"] = scored(terms=glossary)
        except ValueError as error:  # the model itself must not be lost
            say(f"warning: evaluation.glossary: {error}")
        else:
            own, with_glossary = (
                score_terms(glossary, sources, found[search].texts, [references]) for search in ("", "glossary")
            )
            terms = TermShares(in_sources=own.occurrences, found=own.found, found_with_glossary=with_glossary.found)
    return ScoredTest(pairs, found, terms)


def load_reranker(recipe: Recipe) -> "Reranker | None":
    """The reranker of `evaluation.rerank_with`; `None` if the recipe names none.

    Raises:
        InputError: it cannot be loaded, does not translate in the other direction, or must be told the languages.
    """
    name = recipe.evaluation.rerank_with
    if not name:
        return None
    from ..translator.reranking import open_reranker

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
    from ..models.load import load_ensemble

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


class Validator:
    """Measures a model on validation text; the processes share the work, and all get the same result.

    Args:
        pairs: the encoded pairs.
        arguments: of these, `max_tokens` (in a forward pass) and `eval_sentences` are used.
        texts: the same pairs as text; the first `eval_sentences` are translated.
        scoring: how their translations are scored.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        tokenizer: PreTrainedTokenizerFast,
        pairs: EncodedPairs,
        arguments: TrainingArguments,
        texts: list[Pair],
        scoring: ScoreSettings,
    ):
        self.accelerator = accelerator
        self.tokenizer = tokenizer
        self.pairs = pairs
        self.texts = texts[: arguments.eval_sentences]
        self.scoring = scoring
        self.collate = Collator(tokenizer.pad_token_id)
        lengths = pairs.source_lengths, pairs.target_lengths
        budget = max(arguments.max_tokens, *(int(side.max()) for side in lengths))
        self.batches = TokenBudgetBatches(*lengths, budget).epoch(0)

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Scores by name: loss, perplexity, accuracy and, if texts are translated, bleu, chrf and sentences."""
        loss, accuracy = self.likelihood(model)
        values = {"loss": loss, "perplexity": perplexity(loss), "accuracy": accuracy}
        if self.texts:
            references = [target for _, target in self.texts]
            # A model whose loss is not finite has no translations either: the search would raise an error.
            hypotheses = [""] * len(self.texts)
            if math.isfinite(loss):
                sources = [source for source, _ in self.texts]
                # At the beginning of training, there would be too many of them.
                hypotheses = self.translate(model, sources, num_beams=1, return_warnings=False)
            bleu, chrf = bleu_and_chrf(hypotheses, references, self.scoring)
            values |= {"bleu": bleu.value, "chrf": chrf.value, "sentences": len(self.texts)}
        return values

    @torch.no_grad()
    def likelihood(self, model: nn.Module) -> tuple[float, float]:
        """Negative log-likelihood per target token, without label smoothing, and the share of tokens ranked first."""
        was_training = model.training
        model.eval()
        device = self.accelerator.device
        sums = torch.zeros(2, dtype=torch.float64)
        for batch in self.batches[self.accelerator.process_index :: self.accelerator.num_processes]:
            tensors = {name: tensor.to(device) for name, tensor in self.collate(self.pairs.rows(batch)).items()}
            with self.accelerator.autocast():
                output = model(**tensors, num_items_in_batch=1)
            labels = tensors["labels"]
            right = (output.logits.argmax(-1) == labels) & (labels != IGNORED_LABEL)
            sums += torch.tensor([output.loss.item(), right.sum().item()], dtype=torch.float64)
        model.train(was_training)
        loss, right = total(self.accelerator, sums.tolist())
        tokens = int(self.pairs.target_lengths.sum())
        return loss / tokens, right / tokens

    def translate(self, model: nn.Module, texts: list[str], **options) -> list[str]:
        """Translate texts, shared among the processes; `options` are those of `translation.translate`."""
        processes, rank = self.accelerator.num_processes, self.accelerator.process_index
        # Each process holds the whole model, and the number of batches may differ between processes.
        share = translate(model, self.tokenizer, texts[rank::processes], engine=ENGINE, synced_gpus=False, **options)
        translations = [""] * len(texts)
        for number, part in enumerate(gather_object([share])):
            translations[number::processes] = part
        return translations


def total(accelerator: Accelerator, values: list[float]) -> list[float]:
    """The sum of each value over all processes, in float64 if the device supports it."""
    if accelerator.num_processes == 1:
        return values
    dtype = torch.float32 if accelerator.device.type == "mps" else torch.float64
    return accelerator.reduce(torch.tensor(values, dtype=dtype, device=accelerator.device)).tolist()

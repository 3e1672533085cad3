"""Measures a model on validation text: loss, perplexity, token accuracy, BLEU, chrF."""

import math
from collections.abc import Mapping
from statistics import fmean

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from transformers import PreTrainedTokenizerFast

from ..core.modeling_vaswani import IGNORED_LABEL
from ..data.batches import TokenBudgetBatches
from ..data.encoding import Collator, EncodedPairs
from ..data.sources.text_files import Pair
from ..evaluation.score import Score, scores
from ..evaluation.score_settings import ScoreSettings
from ..text.languages import NO_LANGUAGES, Languages
from .optimization.step_loss import likelihood
from .recipe.arguments import METRICS, TrainingArguments

# What computes the translations that are scored, as the pipeline's `engine`.
ENGINE = "torch"


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
        languages: what the translations must name, see [`translated_languages`].
    """

    def __init__(
        self,
        accelerator: Accelerator,
        tokenizer: PreTrainedTokenizerFast,
        pairs: EncodedPairs,
        arguments: TrainingArguments,
        texts: list[Pair],
        scoring: ScoreSettings,
        languages: Languages = NO_LANGUAGES,
    ):
        self.accelerator = accelerator
        self.tokenizer = tokenizer
        self.pairs = pairs
        self.texts = texts[: arguments.eval_sentences]
        self.scoring, self.languages = scoring, languages
        self.collate = Collator(tokenizer.pad_token_id)
        lengths = pairs.source_lengths, pairs.target_lengths
        budget = max(arguments.max_tokens, *(int(side.max()) for side in lengths))
        self.batches = TokenBudgetBatches(*lengths, budget).epoch(0)

    @property
    def size(self) -> int:
        """The number of pairs."""
        return len(self.pairs)

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
                loss, logits = likelihood(model, tensors)
            labels = tensors["labels"]
            right = (logits.argmax(-1) == labels) & (labels != IGNORED_LABEL)
            sums += torch.tensor([loss.item(), right.sum().item()], dtype=torch.float64)
        model.train(was_training)
        loss, right = total(self.accelerator, sums.tolist())
        tokens = int(self.pairs.target_lengths.sum())
        return loss / tokens, right / tokens

    def translate(self, model: nn.Module, texts: list[str], **options) -> list[str]:
        """Translate texts, shared among the processes; `options` are those of `translation.translate`."""
        from ..translator.pipeline import translate

        processes, rank = self.accelerator.num_processes, self.accelerator.process_index
        options = {**self.languages.arguments(), **options}
        # Each process holds the whole model, and the number of batches may differ between processes.
        share = translate(model, self.tokenizer, texts[rank::processes], engine=ENGINE, synced_gpus=False, **options)
        translations = [""] * len(texts)
        for number, part in enumerate(gather_object([share])):
            translations[number::processes] = part
        return translations


class DirectionsValidator:
    """Measures a model for several directions on the validation text of each; all of them count the same.

    Args:
        parts: what measures it on each direction, by the direction's name: `"es-gn"`.
    """

    def __init__(self, parts: Mapping[str, Validator]):
        self.parts = parts
        self.scoring = next(iter(parts.values())).scoring
        self.translate = next(iter(parts.values())).translate

    @property
    def size(self) -> int:
        """The number of pairs."""
        return sum(part.size for part in self.parts.values())

    def measure(self, model: nn.Module) -> dict[str, float]:
        """The mean of each score, and by direction, `"es-gn_loss"`, those that the best weights may be chosen by."""
        measured = {name: part.measure(model) for name, part in self.parts.items()}
        names = [name for scores in measured.values() for name in scores]
        values = {name: fmean(scores[name] for scores in measured.values() if name in scores) for name in names}
        if "sentences" in values:
            values["sentences"] = sum(scores.get("sentences", 0) for scores in measured.values())
        return values | {
            f"{direction}_{name}": scores[name]
            for direction, scores in measured.items()
            for name in METRICS
            if name in scores
        }

    def likelihood(self, model: nn.Module) -> tuple[float, float]:
        """As of a [`Validator`]: the means over all directions."""
        loss, accuracy = zip(*(part.likelihood(model) for part in self.parts.values()))
        return fmean(loss), fmean(accuracy)


def total(accelerator: Accelerator, values: list[float]) -> list[float]:
    """The sum of each value over all processes, in float64 if the device supports it."""
    if accelerator.num_processes == 1:
        return values
    dtype = torch.float32 if accelerator.device.type == "mps" else torch.float64
    return accelerator.reduce(torch.tensor(values, dtype=dtype, device=accelerator.device)).tolist()

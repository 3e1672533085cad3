"""How translations by a model are scored: with the tokenizer of its target language, lowercased if the model is."""

from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..data.tokenizers.tokenizer import side_backends
from .bleu_tokenizers import default_tokenizer


@dataclass(frozen=True)
class ScoreSettings:
    """How scores of translations are computed.

    Attributes:
        tokenize: sacreBLEU's tokenizer for BLEU.
        lowercase: whether capitals count as the small letters; sacreBLEU's TER never tells them apart.
    """

    tokenize: str | None = None
    lowercase: bool = False

    def arguments(self) -> dict[str, dict[str, Any]]:
        """The settings as arguments of [`hf_vaswani.evaluation.score.scores`]."""
        # With "none", the text may be tokenized already, which sacreBLEU would warn about.
        bleu = {"tokenize": self.tokenize, "lowercase": self.lowercase, "force": self.tokenize == "none"}
        return {"bleu": bleu, "chrf": {"lowercase": self.lowercase}}


def lowercases_targets(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a tokenizer lowercases targets, so that its model writes no capitals."""
    if not tokenizer.is_fast:
        return bool(getattr(tokenizer, "do_lower_case", False))
    normalizer = side_backends(tokenizer)["target"].normalizer
    return normalizer is not None and "abc" in normalizer.normalize_str("ABC")


def score_settings(
    tokenizer: PreTrainedTokenizerBase, language: str | None, tokenize: str | None = None
) -> ScoreSettings:
    """How translations by a model are scored.

    Args:
        tokenizer: the model's tokenizer.
        language: the target language, if known.
        tokenize: sacreBLEU's tokenizer for BLEU; default: that of the language.
    """
    return ScoreSettings(tokenize or default_tokenizer(language), lowercases_targets(tokenizer))

"""Scores translations with sacreBLEU, always with the signature that says how."""

from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class Score:
    """A corpus score, 0 to 100, and the signature under which others can compute the same."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def bleu(hypotheses: list[str], references: list[str], **settings) -> Score:
    """Corpus BLEU of raw, detokenised text.

    Args:
        hypotheses, references: as many of the one as of the other.
        settings: arguments of `sacrebleu.metrics.BLEU`, such as `tokenize="none"`.
    """
    metric = BLEU(**settings)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("BLEU", value, str(metric.get_signature()))


def chrf(hypotheses: list[str], references: list[str], **settings) -> Score:
    """Corpus chrF2 (Popović 2015); arguments as of [`bleu`], `settings` those of `sacrebleu.metrics.CHRF`."""
    metric = CHRF(**settings)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("chrF2", value, str(metric.get_signature()))

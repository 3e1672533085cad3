"""Scores of translations, computed by sacreBLEU and reported with its signatures.

BLEU (Papineni et al. 2002), chrF2 (Popović 2015) and TER (Snover et al. 2006) of raw, detokenized text. Names, values
and signatures match the command `sacrebleu`.
"""

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from ..errors import InputError, counted, reason

METRICS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
TOKENIZERS = tuple(BLEU.TOKENIZERS)
# The extras of sacreBLEU that install what two of them need.
EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}

# A set of references for all sentences, or several such sets.
References = list[str] | list[list[str]]


@dataclass(frozen=True)
class Score:
    """A corpus score with the signature that makes it reproducible.

    Attributes:
        value: 0 to 100, higher is better; TER is edits per 100 reference words, lower is better.
        mean, ci: of bootstrap resamples, 95% of which lie within `mean ± ci`; `None` without a bootstrap.
        p_value: of the difference from the baseline; `None` without a baseline.
    """

    name: str
    value: float
    signature: str
    mean: float | None = None
    ci: float | None = None
    p_value: float | None = None

    def __str__(self) -> str:
        spread = "" if self.ci is None else f" ± {self.ci:.2f}"
        return f"{self.name} {self.value:.2f}{spread} ({self.signature})"


@dataclass(frozen=True)
class SentenceScores:
    """Sentence-level scores, in the order of the text."""

    name: str
    values: list[float]
    signature: str


def scores(
    hypotheses: list[str], references: References, metrics: Iterable[str] = tuple(METRICS), **settings: dict
) -> list[Score]:
    """Corpus scores, in the order of `metrics`.

    Args:
        references: one for each hypothesis; or several such lists, with `None` where a sentence has fewer references
            than others.
        metrics: names from `METRICS`.
        settings: arguments of each metric's class in sacreBLEU, such as `bleu={"tokenize": "none"}` and
            `chrf={"word_order": 2}` (chrF++).

    Raises:
        InputError: the numbers of lines differ, there are no lines, or sacreBLEU does not know or cannot load a
            metric, a tokenizer or a setting.
    """
    references = reference_sets(hypotheses, references)
    return [
        Score(score.name, score.score, str(metric.get_signature()))
        for metric in make_metrics(metrics, **settings)
        for score in [metric.corpus_score(hypotheses, references)]
    ]


def bleu(hypotheses: list[str], references: References, **settings) -> Score:
    """Corpus BLEU; `settings` are arguments of `sacrebleu.metrics.BLEU`, such as `tokenize="none"`."""
    return scores(hypotheses, references, ["bleu"], bleu=settings)[0]


def chrf(hypotheses: list[str], references: References, **settings) -> Score:
    """Corpus chrF2; `settings` are arguments of `sacrebleu.metrics.CHRF`, such as `word_order=2`."""
    return scores(hypotheses, references, ["chrf"], chrf=settings)[0]


def ter(hypotheses: list[str], references: References, **settings) -> Score:
    """Corpus TER; `settings` are arguments of `sacrebleu.metrics.TER`, such as `case_sensitive=True`."""
    return scores(hypotheses, references, ["ter"], ter=settings)[0]


def sentence_scores(
    hypotheses: list[str], references: References, metrics: Iterable[str] = tuple(METRICS), **settings: dict
) -> list[SentenceScores]:
    """Sentence-level scores, with the arguments and errors of [`scores`].

    BLEU ignores n-gram orders for which a sentence is too short, as `sacrebleu --sentence-level` does.
    """
    references = reference_sets(hypotheses, references)
    settings = {**settings, "bleu": {**settings.get("bleu", {}), "effective_order": True}}
    result = []
    for metric in make_metrics(metrics, **settings):
        each = [
            metric.sentence_score(hypothesis, [text for text in texts if text is not None])
            for hypothesis, *texts in zip(hypotheses, *references)
        ]
        result.append(SentenceScores(each[0].name, [score.score for score in each], str(metric.get_signature())))
    return result


def make_metrics(names: Iterable[str], **settings: dict) -> list[Metric]:
    """sacreBLEU's metrics with their settings; takes the arguments of [`scores`] and raises its errors."""
    metrics = []
    errors = [
        f"{name}={value!r} is not a setting. Pass a metric's settings as a dict, such as bleu={{'tokenize': 'zh'}}."
        for name, value in settings.items()
        if name not in METRICS or not isinstance(value, dict)
    ]
    if errors:
        raise InputError.of(errors)
    for name in dict.fromkeys(names):
        chosen = settings.get(name, {})
        if name not in METRICS:
            errors.append(f"{name!r} is not a metric. Choose from: {', '.join(METRICS)}.")
        elif name == "bleu" and chosen.get("tokenize") not in (None, *TOKENIZERS):
            errors.append(f"{chosen['tokenize']!r} is not a BLEU tokenizer. Choose from: {', '.join(TOKENIZERS)}.")
        else:
            try:
                metrics.append(METRICS[name](**chosen))
            except (TypeError, AssertionError) as error:
                errors.append(f"{name} cannot be computed with {chosen}: {reason(error).rstrip('.')}.")
            except (ImportError, RuntimeError, OSError) as error:  # a missing package or model
                tokenizer = chosen.get("tokenize", "")
                why = f"cannot be loaded: {reason(error).rstrip('.')}. Go online once for what it downloads"
                if extra := EXTRAS.get(tokenizer):
                    why = f'needs another package: pip install "sacrebleu[{extra}]"'
                errors.append(f"The tokenizer {tokenizer!r} {why}, or choose another tokenizer.")
    if errors:
        raise InputError.of(errors)
    return metrics


def reference_sets(hypotheses: list[str], references: References) -> list[list[str]]:
    """The sets of references, checked to have as many lines as the hypotheses; sacreBLEU would drop excess lines.

    Raises:
        InputError: a set has a different number of lines, there are no hypotheses, or something is not a text.
    """
    sets = [references] if not references or isinstance(references[0], str | None) else references
    allowed = str if len(sets) == 1 else str | None
    for name, texts, kind in [("hypotheses", hypotheses, str), *(("references", texts, allowed) for texts in sets)]:
        if isinstance(texts, str) or not all(isinstance(text, kind) for text in texts):
            raise InputError(f"{name} must be a list of texts, not {reprlib.repr(texts)}.")
    if not hypotheses:
        raise InputError("There are no translations to score.")
    if len(sets) == len(hypotheses) > 1 and all(len(texts) == len(sets[0]) < len(sets) for texts in sets):
        raise InputError(
            "references are lists of all references of a sentence. Pass lists of one reference for each sentence: "
            "list(zip(*references))"
        )
    errors = [
        f"{counted(len(hypotheses), 'translation')} and {counted(len(texts), 'reference')}: the numbers must be equal."
        for texts in sets
        if len(texts) != len(hypotheses)
    ]
    if errors:
        raise InputError.of(errors)
    return sets

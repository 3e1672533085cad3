"""Scores translations with sacreBLEU, always with the signature that says how.

BLEU (Papineni et al. 2002), chrF2 (Popović 2015) and TER (Snover et al. 2006) of raw, detokenised text: names, values
and signatures are those of the command `sacrebleu`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric

from ..errors import InputError, reason
from ..wording import counted

METRICS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
TOKENIZERS = tuple(BLEU.TOKENIZERS)

# A set of references for all sentences, or several such sets.
References = list[str] | list[list[str]]


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature under which others can compute the same.

    Attributes:
        value: 0 to 100, higher is better; TER counts edits for 100 words of reference: lower is better.
        mean, ci: of bootstrap resamples; 95 % of them lie within `mean ± ci`. `None` where there was no bootstrap.
        p_value: how often chance alone makes as large a difference to the baseline; `None` where there is none.
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
    """A score of each sentence by itself, in the order of the text."""

    name: str
    values: list[float]
    signature: str


def scores(
    hypotheses: list[str], references: References, metrics: Iterable[str] = tuple(METRICS), **settings: dict
) -> list[Score]:
    """Corpus scores, in the order of `metrics`.

    Args:
        references: as many as hypotheses; or several lists of so many, the sets of references of the same text. In
            these `None` stands where a sentence has fewer references than others.
        metrics: names out of `METRICS`.
        settings: for each metric the arguments of sacreBLEU's class, such as `bleu={"tokenize": "none"}` and
            `chrf={"word_order": 2}` (chrF++).

    Raises:
        InputError: the numbers of lines differ, there are none, or sacreBLEU does not know or cannot have a metric,
            a tokenizer or a setting.
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
    """Scores of single sentences; arguments and errors are those of [`scores`].

    BLEU leaves out the orders of n-gram that a sentence is too short for, as `sacrebleu --sentence-level` does.
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
    """sacreBLEU's metrics with their settings; arguments and errors are those of [`scores`]."""
    metrics = []
    faults = [
        f"{name}={value!r} is no setting. Give a metric's as a dict: bleu={{'tokenize': 'zh'}}, say."
        for name, value in settings.items()
        if name not in METRICS or not isinstance(value, dict)
    ]
    if faults:
        raise InputError.of(faults)
    for name in dict.fromkeys(names):
        chosen = settings.get(name, {})
        if name not in METRICS:
            faults.append(f"{name!r} is no metric. Choose from: {', '.join(METRICS)}.")
        elif name == "bleu" and chosen.get("tokenize") not in (None, *TOKENIZERS):
            faults.append(f"{chosen['tokenize']!r} is no tokenizer of BLEU. Choose from: {', '.join(TOKENIZERS)}.")
        else:
            try:
                metrics.append(METRICS[name](**chosen))
            except (TypeError, AssertionError) as error:
                faults.append(f"{name} cannot be computed with {chosen}: {reason(error).rstrip('.')}.")
            except (ImportError, RuntimeError, OSError) as error:  # a package or a model that is not there
                faults.append(
                    f"The tokenizer {chosen.get('tokenize')!r} cannot be had: {reason(error).rstrip('.')}. Install "
                    "what it needs, go online once for what it downloads, or choose another tokenizer."
                )
    if faults:
        raise InputError.of(faults)
    return metrics


def reference_sets(hypotheses: list[str], references: References) -> list[list[str]]:
    """The sets of references, checked: sacreBLEU itself drops what one side has more than the other.

    Raises:
        InputError: a set has more or fewer lines than there are hypotheses, or there are none.
    """
    sets = [references] if not references or isinstance(references[0], str) else references
    if not hypotheses:
        raise InputError("There are no translations to score.")
    faults = [
        f"{counted(len(hypotheses), 'translation')} and {counted(len(texts), 'reference')}: each needs the other."
        for texts in sets
        if len(texts) != len(hypotheses)
    ]
    if faults:
        raise InputError.of(faults)
    return sets

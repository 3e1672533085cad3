"""BLEU, chrF2 and TER as a metric for the library `evaluate`, which works offline.

`evaluate.load` copies this file to its cache and imports it there, so it imports this package by its full name.
"""

from itertools import zip_longest

import datasets
import evaluate

from hf_vaswani.evaluation.score import METRICS, scores

DESCRIPTION = "BLEU, chrF2 and TER of translations, computed by sacreBLEU, each with its signature."
CITATION = """\
@inproceedings{post-2018-call,
    title = "A Call for Clarity in Reporting {BLEU} Scores",
    author = "Post, Matt",
    booktitle = "Proceedings of the Third Conference on Machine Translation: Research Papers",
    year = "2018",
    url = "https://aclanthology.org/W18-6319",
}
"""
INPUTS = """
Args:
    predictions: list of translations, raw text.
    references: list with the reference, or the list of references, of each translation.
    metrics: one or more of "bleu", "chrf", "ter"; default: all.
    bleu, chrf, ter: dicts with the arguments of sacreBLEU's class for the metric, such as bleu={"tokenize": "zh"}.

Returns:
    dict: "bleu", "chrf2" and "ter", from 0 to 100, and their signatures: "bleu_signature" and so on.

Example:
    >>> import evaluate
    >>> from hf_vaswani.evaluation import METRIC
    >>> metric = evaluate.load(METRIC)
    >>> metric.compute(predictions=["A dog is running."], references=["A dog is running."], metrics=["bleu"])["bleu"]
    100.00000000000004
"""


class TranslationScores(evaluate.Metric):
    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=[
                datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
                datasets.Features({"predictions": text, "references": text}),
            ],
            codebase_urls=["https://github.com/mjpost/sacrebleu"],
        )

    def _compute(self, predictions, references, metrics=tuple(METRICS), **settings) -> dict[str, float | str]:
        metrics = [metrics] if isinstance(metrics, str) else metrics
        if not isinstance(references[0], str):
            references = [list(texts) for texts in zip_longest(*references)]
        result = {}
        for score in scores(predictions, references, metrics, **settings):
            name = score.name.lower()
            result |= {name: score.value, f"{name}_signature": score.signature}
        return result

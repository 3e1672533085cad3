"""Gives each translation its confidence. Imported if it is requested.

A model that is unsure translates differently each time that it samples: how similar a translation is to samples of the
model predicts its quality better than its probability alone (Fomicheva et al. 2020, section 4.2, with dropout).
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedTokenizerBase

from ...generation.confidence import Estimator, TranslationStatistics
from ..search import Search
from ..segments import Hypothesis, Segment

SAMPLING = {"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 1.0, "temperature": 1.0}


class Confidence:
    """Computes the `confidence` of translations, which have their scores.

    Args:
        estimator: from statistics of a translation to its confidence.
        search: a search with the model itself.
    """

    def __init__(self, estimator: Estimator, search: Search):
        self.estimator, self.tokenizer = estimator, search.tokenizer
        self.penalty = search.request.arguments.scoring().penalty
        settings = {**SAMPLING, "num_return_sequences": estimator.samples}
        sampling = search.changed(settings, n_best=None, return_scores=False, return_alignments=False)
        self.sampling = replace(sampling, options=replace(search.options, return_tensors=False))

    def before(self, segments: list[Segment]) -> list[Segment]:
        return segments

    def after(self, segments: list[Segment]) -> list[Segment]:
        # Not those with nothing to translate.
        rated = [segment for segment in segments if segment.hypotheses and any(segment.target_lengths)]
        texts = self._sample(rated) if self.estimator.samples else [[]] * len(rated)
        for segment, samples in zip(rated, texts):
            given = max(len(segment.prompt) - 1, 0)
            for hypothesis, length in zip(segment.hypotheses, segment.target_lengths):
                length = max(length - given, 1)
                known = TranslationStatistics(
                    hypothesis["score"] * self.penalty(length), length, segment.length,
                    _similarity(self.tokenizer, hypothesis, samples),
                )  # fmt: skip
                hypothesis["confidence"] = self.estimator(known)
        return segments

    def _sample(self, segments: Sequence[Segment]) -> list[list[str]]:
        """Samples of each segment, the same in each call with the same segments."""
        copies = [replace(each, result=None, constraints=(), automata=(), is_unfinished=False) for each in segments]
        device = self.sampling.model.device
        # The caller's random numbers are not used up.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            self.sampling(list(copies))  # which it sorts
        for segment, copy in zip(segments, copies):
            if isinstance(copy.result, Exception):  # too many hypotheses for the memory
                segment.result = copy.result
        return [[each["translation_text"] for each in copy.hypotheses] for copy in copies]


def _similarity(tokenizer: PreTrainedTokenizerBase, hypothesis: Hypothesis, samples: Sequence[str]) -> float:
    """Mean sentence chrF / 100 of a translation and samples."""
    if not samples:
        return 0.0
    from sacrebleu.metrics import CHRF

    text = hypothesis.get("translation_text")
    if text is None:
        text = tokenizer.decode(hypothesis["translation_token_ids"], skip_special_tokens=True)
    chrf = CHRF()
    return sum(chrf.sentence_score(text, [sample]).score for sample in samples) / (100 * len(samples))


__all__ = ["Confidence"]

"""What the translation engine does about confidence. Imported if it is requested.

A model that is unsure translates differently each time that it samples: how similar a translation is to samples of the
model predicts its quality better than its probability alone (Fomicheva et al. 2020, section 4.2, with dropout).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..generation.confidence import TranslationStatistics
from .segments import Segment

SAMPLING = {"do_sample": True, "num_beams": 1, "top_k": 0, "top_p": 1.0, "temperature": 1.0}


def add_confidence(engine: Any, segments: Sequence[Segment]) -> None:
    """Give each translation of segments its confidence.

    Args:
        engine: a [`TranslationEngine`].
    """
    penalty = engine.arguments.scoring().penalty
    # Not those with nothing to translate.
    rated = [segment for segment in segments if isinstance(segment.result, list) and any(segment.target_lengths)]
    texts = _sample(engine, rated, engine.confidence.samples) if engine.confidence.samples else [[]] * len(rated)
    for segment, samples in zip(rated, texts):
        given = max(len(segment.prompt) - 1, 0)
        hypotheses = segment.result if isinstance(segment.result, list) else []
        for hypothesis, length in zip(hypotheses, segment.target_lengths):
            length = max(length - given, 1)
            known = TranslationStatistics(
                hypothesis["score"] * penalty(length), length, segment.length, _similarity(engine, hypothesis, samples)
            )
            hypothesis["confidence"] = engine.confidence(known)


def _sample(engine: Any, segments: Sequence[Segment], number: int) -> list[list[str]]:
    """Samples of each segment, the same in each call with the same segments."""
    sampler = engine.for_another_search(
        {**SAMPLING, "num_return_sequences": number}, n_best=None, return_scores=False, return_alignments=False
    )
    sampler.postprocess = {name: value for name, value in engine.postprocess.items() if name != "as_tensors"}
    copies = [replace(each, result=None, demands=(), automata=(), is_straggler=False) for each in segments]
    device = engine.pipeline.model.device
    # The caller's random numbers are not used up.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        sampler.search_batches(list(copies))  # which it sorts
    samples = []
    for segment, copy in zip(segments, copies):
        if isinstance(copy.result, Exception):  # too many hypotheses for the memory
            segment.result = copy.result
        samples.append([each["translation_text"] for each in copy.result] if isinstance(copy.result, list) else [])
    return samples


def _similarity(engine: Any, hypothesis: Any, samples: Sequence[str]) -> float:
    """Mean sentence chrF / 100 of a translation and samples."""
    if not samples:
        return 0.0
    from sacrebleu.metrics import CHRF

    text = hypothesis.get("translation_text")
    if text is None:
        ids = hypothesis["translation_token_ids"]
        text = engine.pipeline.tokenizer.decode(ids, skip_special_tokens=True)
    chrf = CHRF()
    return sum(chrf.sentence_score(text, [sample]).score for sample in samples) / (100 * len(samples))

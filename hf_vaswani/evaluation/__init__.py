"""Scores of translations (BLEU, chrF2, TER, paired bootstrap), and figures of attention, beam search and learning.

`evaluate.load(hf_vaswani.evaluation.METRIC)` loads the scores without network access.
"""

from pathlib import Path

__all__ = ["METRIC"]

METRIC = str(Path(__file__).with_name("evaluate_metric.py"))

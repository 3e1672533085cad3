"""Scores of translations (BLEU, chrF2, TER, paired bootstrap), and figures of attention and of learning curves.

`evaluate.load(hf_vaswani.evaluation.METRIC)` loads these scores without a network.
"""

from pathlib import Path

__all__ = ["METRIC"]

METRIC = str(Path(__file__).with_name("translation_scores.py"))

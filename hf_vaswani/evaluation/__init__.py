"""Scoring translations (sacreBLEU, chrF2, TER, paired bootstrap), and figures of attention and of what runs logged.

`METRIC` is what `evaluate.load` takes to compute these scores without a network:
`evaluate.load(hf_vaswani.evaluation.METRIC)`.
"""

from pathlib import Path

__all__ = ["METRIC"]

METRIC = str(Path(__file__).with_name("translation_scores.py"))

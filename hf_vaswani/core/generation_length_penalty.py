"""The length penalty: how hypotheses of different lengths compare (section 6.1 of the paper; Wu et al. 2016).

The file travels with each checkpoint as remote code and therefore imports nothing but torch, transformers and its
siblings.
"""

from dataclasses import dataclass
from numbers import Real

import torch

from .generation_settings import LARGEST_PENALTY


@dataclass(frozen=True)
class Scoring:
    """How hypotheses of different lengths compare, and when a sentence is done.

    Args:
        length_penalty: exponent α; 0 compares plain log-probabilities.
        length_penalty_type: `"length"` divides the log-probability by length^α, as transformers does; `"gnmt"` by
            ((5 + length) / 6)^α, as the paper does (section 6.1; Wu et al. 2016, equation 14).
        early_stopping: as in transformers: True ends a sentence as soon as it has as many finished hypotheses as
            beams; False when no running one would beat the worst of them if it ended now; `"never"` when none can,
            however long it gets.

    Raises:
        ValueError: α is not between -10 and 10.
    """

    length_penalty: float = 1.0
    length_penalty_type: str = "length"
    early_stopping: bool | str = False

    def __post_init__(self):
        # Beyond this, powers of lengths become infinite or 0 in fp32, and comparisons with NaN are always false.
        is_number = isinstance(self.length_penalty, Real) and not isinstance(self.length_penalty, bool)
        if not (is_number and abs(self.length_penalty) <= LARGEST_PENALTY):
            raise ValueError(
                f"length_penalty must be a number from -{LARGEST_PENALTY} to {LARGEST_PENALTY}, "
                f"got {self.length_penalty!r}."
            )

    def penalty(self, length: int | torch.Tensor) -> float | torch.Tensor:
        """The divisor of the log-probability of a hypothesis of `length` tokens, end token included."""
        if self.length_penalty_type == "gnmt":
            length = (5 + length) / 6
        return length**self.length_penalty

    def best_penalty(self, length: int, limits: torch.Tensor) -> float | torch.Tensor:
        """The most favorable penalty that a running hypothesis of `length` tokens can get: log-probabilities fall."""
        return self.penalty(limits) if self.length_penalty > 0 else self.penalty(length)

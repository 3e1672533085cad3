"""Puts the fast paths into the classes of `core`, which by themselves are what travels with a checkpoint.

Tokens stay the same. What changes is in four places: attention, dropout, the loss, and the search.
"""

from ..core.modeling_base import VaswaniPreTrainedModel
from ..core.modeling_layers import ATTENTION_FUNCTIONS, VaswaniDropout
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..fast.attention import product_attention, sdpa_attention
from ..fast.dropout import dropout
from ..fast.label_smoothing import sequence_loss
from .mixin import FastGenerationMixin


def install() -> None:
    """Make models fast, those that exist already too. Calling it again changes nothing."""
    ATTENTION_FUNCTIONS["eager"] = product_attention
    ATTENTION_FUNCTIONS["sdpa"] = sdpa_attention
    VaswaniDropout.forward = dropout
    VaswaniForConditionalGeneration.sequence_loss = staticmethod(sequence_loss)
    VaswaniForConditionalGeneration.__bases__ = (FastGenerationMixin, VaswaniPreTrainedModel)

"""The model of `core`, which by itself is what travels with a checkpoint, in less time.

Each class overrides only what it makes faster, in four places: attention, dropout, the loss, and the search. Tokens
stay the same. The classes have the names of those they replace, since transformers saves and wraps models by name:
what is saved is the plain model.
"""

from ..core import modeling_layers, modeling_vaswani
from ..fast.label_smoothing import sequence_loss
from ..fast.layers import VaswaniAttention, VaswaniDropout
from .mixin import FastGenerationMixin


class VaswaniEncoderLayer(modeling_layers.VaswaniEncoderLayer):
    attention_class, dropout_class = VaswaniAttention, VaswaniDropout


class VaswaniDecoderLayer(modeling_layers.VaswaniDecoderLayer):
    attention_class, dropout_class = VaswaniAttention, VaswaniDropout


class VaswaniEncoder(modeling_vaswani.VaswaniEncoder):
    layer_class = VaswaniEncoderLayer


class VaswaniDecoder(modeling_vaswani.VaswaniDecoder):
    layer_class = VaswaniDecoderLayer


class VaswaniModel(modeling_vaswani.VaswaniModel):
    encoder_class, decoder_class = VaswaniEncoder, VaswaniDecoder


class VaswaniForConditionalGeneration(FastGenerationMixin, modeling_vaswani.VaswaniForConditionalGeneration):
    model_class = VaswaniModel
    sequence_loss = staticmethod(sequence_loss)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel"]

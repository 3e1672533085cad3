"""The model of `core`, which by itself is what travels with a checkpoint, in less time.

Each class overrides only what it makes faster, in four places: attention, dropout, the loss, and the search. Tokens
stay the same. The classes have the names of those they replace, by which transformers saves and wraps models: what is
saved is the plain model.
"""

from ..core import modeling_layers, modeling_vaswani
from ..fast.attention import VaswaniAttention
from ..fast.dropout import VaswaniDropout
from ..fast.label_smoothing import sequence_loss
from .mixin import FastGenerationMixin


class VaswaniEncoderLayer(modeling_layers.VaswaniEncoderLayer):
    __doc__ = modeling_layers.VaswaniEncoderLayer.__doc__
    attention_class, dropout_class = VaswaniAttention, VaswaniDropout


class VaswaniDecoderLayer(modeling_layers.VaswaniDecoderLayer):
    __doc__ = modeling_layers.VaswaniDecoderLayer.__doc__
    attention_class, dropout_class = VaswaniAttention, VaswaniDropout


class VaswaniEncoder(modeling_vaswani.VaswaniEncoder):
    __doc__ = modeling_vaswani.VaswaniEncoder.__doc__
    layer_class = VaswaniEncoderLayer


class VaswaniDecoder(modeling_vaswani.VaswaniDecoder):
    __doc__ = modeling_vaswani.VaswaniDecoder.__doc__
    layer_class = VaswaniDecoderLayer


class VaswaniModel(modeling_vaswani.VaswaniModel):
    __doc__ = modeling_vaswani.VaswaniModel.__doc__
    encoder_class, decoder_class = VaswaniEncoder, VaswaniDecoder


class VaswaniForConditionalGeneration(FastGenerationMixin, modeling_vaswani.VaswaniForConditionalGeneration):
    __doc__ = modeling_vaswani.VaswaniForConditionalGeneration.__doc__
    model_class = VaswaniModel
    sequence_loss = staticmethod(sequence_loss)


__all__ = ["VaswaniForConditionalGeneration", "VaswaniModel"]

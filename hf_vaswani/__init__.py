"""The Transformer of "Attention Is All You Need" for Hugging Face transformers: model, training and translation.

Importing the package registers config, models, tokenizer and translation pipeline with transformers, so that
`AutoModelForSeq2SeqLM`, `AutoTokenizer` and `pipeline("translation")` load them.
"""

from .runtime.cores import short_waits
from .runtime.interrupts import end_at_ctrl_c

with short_waits():
    end_at_ctrl_c()
    import torch  # noqa: F401

from .core.configuration_vaswani import VaswaniConfig
from .core.generation_vaswani import VaswaniGenerationMixin
from .core.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .core.pipeline_translation import TranslationPipeline
from .core.tokenization_vaswani import VaswaniTokenizer
from .presets import preset
from .registration import register

__version__ = "0.1.0"
__all__ = [
    "TranslationPipeline",
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniGenerationMixin",
    "VaswaniModel",
    "VaswaniTokenizer",
    "preset",
]

register()

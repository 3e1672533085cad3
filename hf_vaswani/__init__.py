"""The Transformer of "Attention Is All You Need" for Hugging Face transformers: model, training and translation.

Importing the package registers config, models, tokenizer and translation pipeline with transformers; after that
`AutoModelForSeq2SeqLM`, `AutoTokenizer` and `pipeline("translation")` know them.
"""

from .cores import short_waits
from .interrupts import end_at_ctrl_c

with short_waits():
    end_at_ctrl_c()
    import torch  # noqa: F401

from .configuration_vaswani import VaswaniConfig
from .generation_vaswani import VaswaniGenerationMixin
from .modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .pipeline_translation import TranslationPipeline
from .presets import preset
from .registration import register
from .tokenization_vaswani import VaswaniTokenizer

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

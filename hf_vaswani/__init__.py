"""The Transformer of "Attention Is All You Need" for Hugging Face transformers: model, training and translation.

Importing the package registers its config, models, tokenizer and translation pipeline with transformers, so that
`AutoModelForSeq2SeqLM`, `AutoTokenizer` and `pipeline("translation")` load them. The names below are imported lazily,
since the parts of transformers that they need take seconds to import. The `hf-vaswani` command even parses its command
line before it imports torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .runtime.cores import short_waits
from .runtime.signals import end_at_ctrl_c, is_own_command

if TYPE_CHECKING:
    from .core.configuration_vaswani import VaswaniConfig
    from .core.generation_vaswani import VaswaniGenerationMixin
    from .core.tokenization_vaswani import VaswaniTokenizer
    from .engines.ctranslate2_model import CTranslate2Model
    from .engines.onnx.onnx_model import OnnxModel
    from .generation.fast_model import VaswaniForConditionalGeneration, VaswaniModel
    from .presets import preset
    from .translator.pipeline import TranslationPipeline

__version__ = "0.1.0"
__all__ = [
    "CTranslate2Model",
    "OnnxModel",
    "TranslationPipeline",
    "VaswaniConfig",
    "VaswaniForConditionalGeneration",
    "VaswaniGenerationMixin",
    "VaswaniModel",
    "VaswaniTokenizer",
    "preset",
]
_MODULES = {
    "CTranslate2Model": ".engines.ctranslate2_model",
    "OnnxModel": ".engines.onnx.onnx_model",
    "TranslationPipeline": ".translator.pipeline",
    "VaswaniConfig": ".core.configuration_vaswani",
    "VaswaniForConditionalGeneration": ".generation.fast_model",
    "VaswaniGenerationMixin": ".core.generation_vaswani",
    "VaswaniModel": ".generation.fast_model",
    "VaswaniTokenizer": ".core.tokenization_vaswani",
    "preset": ".presets",
}


def load() -> None:
    """Import torch and register with transformers. Calling it again changes nothing."""
    with short_waits():
        importlib.import_module("torch")

    from .registration import register

    register()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


end_at_ctrl_c()
if not is_own_command():
    load()

"""The Transformer of "Attention Is All You Need" for Hugging Face transformers: model, training and translation.

Importing the package registers config, models, tokenizer and translation pipeline with transformers, so that
`AutoModelForSeq2SeqLM`, `AutoTokenizer` and `pipeline("translation")` load them. Only the process of the command
`hf-vaswani` reads its command line first: torch and transformers take seconds to import.
"""

import importlib
from typing import Any

from .runtime.cores import short_waits
from .runtime.interrupts import end_at_ctrl_c, is_own_command

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


def load() -> None:
    """Import torch and transformers, and register with transformers. Calling it again changes nothing."""
    with short_waits():
        importlib.import_module("torch")

    from .registration import register

    register()


end_at_ctrl_c()
if is_own_command():

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import presets, registration
        from .core import generation_vaswani

        return next(getattr(home, name) for home in (registration, presets, generation_vaswani) if hasattr(home, name))

else:
    load()

    from .core.configuration_vaswani import VaswaniConfig
    from .core.generation_vaswani import VaswaniGenerationMixin
    from .core.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
    from .core.pipeline_translation import TranslationPipeline
    from .core.tokenization_vaswani import VaswaniTokenizer
    from .presets import preset

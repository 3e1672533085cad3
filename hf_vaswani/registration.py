"""Registers config, models, tokenizer and translation pipeline with transformers' Auto classes and `pipeline()`."""

import sys

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipelines

from .core.configuration_vaswani import VaswaniConfig
from .core.modeling_vaswani import VaswaniForConditionalGeneration, VaswaniModel
from .core.pipeline_translation import TRANSLATION_TASK, TranslationPipeline
from .core.tokenization_vaswani import VaswaniTokenizer


class TaskAliases(dict):
    """Task aliases that also accept `translation_xx_to_yy`, which transformers 4 parsed and 5 does not."""

    def __contains__(self, task) -> bool:
        return super().__contains__(task) or bool(TRANSLATION_TASK.fullmatch(str(task)))

    def __missing__(self, task) -> str:
        if TRANSLATION_TASK.fullmatch(str(task)):
            return "translation"
        raise KeyError(task)


def register() -> None:
    """Register everything; calling it again changes nothing."""
    AutoConfig.register(VaswaniConfig.model_type, VaswaniConfig, exist_ok=True)
    AutoModel.register(VaswaniConfig, VaswaniModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(VaswaniConfig, VaswaniForConditionalGeneration, exist_ok=True)
    AutoTokenizer.register(VaswaniConfig, fast_tokenizer_class=VaswaniTokenizer, exist_ok=True)
    # Since 5.19, transformers rejects removed tasks before it looks at the registered ones.
    getattr(pipelines, "REMOVED_TASKS", {}).pop("translation", None)
    registry = pipelines.PIPELINE_REGISTRY
    # Not `register_pipeline`: it marks the class, so that a saved pipeline of another model (say, Marian) would
    # need `trust_remote_code`.
    registry.supported_tasks["translation"] = {
        "impl": TranslationPipeline,
        "pt": (AutoModelForSeq2SeqLM,),
        "default": {},  # no default model: `pipeline` raises an error
        "type": "text",
    }
    if not isinstance(registry.task_aliases, TaskAliases):
        registry.task_aliases = TaskAliases(registry.task_aliases)
    # `evaluate.evaluator` checks whether a pipeline's model is a TensorFlow one, by a class that transformers 5 no
    # longer has.
    library = sys.modules["transformers"]  # which importing one of its own modules may have replaced
    if not hasattr(library, "TFPreTrainedModel"):
        library.TFPreTrainedModel = type("TFPreTrainedModel", (), {})

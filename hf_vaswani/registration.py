"""Registers the config, models, tokenizer and translation pipeline with transformers' Auto classes and `pipeline()`.

Importing these takes seconds, so each is imported and registered only after the transformers module that looks it up.
"""

import importlib
import sys
import traceback
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path

from .runtime.imports import after_import

MODEL_TYPE, CTRANSLATE2, ONNX = "vaswani", "vaswani_ctranslate2", "vaswani_onnx"
# Model type → the module and the class of its config.
CONFIGS = {
    MODEL_TYPE: ("core.configuration_vaswani", "VaswaniConfig"),
    CTRANSLATE2: ("engines.ctranslate2_config", "CTranslate2Config"),
    ONNX: ("engines.onnx.onnx_config", "OnnxConfig"),
}


def register() -> None:
    """Register everything; calling it again changes nothing."""
    auto = "transformers.models.auto"
    after_import(f"{auto}.modeling_auto", _register_models)
    for looks_up, own, registers in (
        *((f"{auto}.configuration_auto", CONFIGS[kind][0], partial(_register_config, kind)) for kind in CONFIGS),
        (f"{auto}.tokenization_auto", "core.tokenization_vaswani", _register_tokenizer),
        ("transformers.pipelines", "translator.pipeline", _register_pipeline),
    ):
        own = f"{__package__}.{own}"
        # Two callbacks rather than one: if our own module is what imports the transformers module, it is not complete
        # yet when that import ends.
        after_import(own, registers)
        after_import(looks_up, partial(importlib.import_module, own))


def _register_config(model_type: str) -> None:
    from transformers import AutoConfig

    module, name = CONFIGS[model_type]
    config = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    AutoConfig.register(model_type, config, exist_ok=True)


def _register_models() -> None:
    from transformers import AutoModel, AutoModelForSeq2SeqLM

    # By name and module, as transformers registers its own models: `AutoModel.register` takes the classes themselves,
    # which are expensive to import.
    for auto_class, model_type, config_name, name in (
        (AutoModel, MODEL_TYPE, "VaswaniConfig", "VaswaniModel"),
        (AutoModelForSeq2SeqLM, MODEL_TYPE, "VaswaniConfig", "VaswaniForConditionalGeneration"),
        (AutoModelForSeq2SeqLM, CTRANSLATE2, "CTranslate2Config", "CTranslate2Model"),
        (AutoModelForSeq2SeqLM, ONNX, "OnnxConfig", "OnnxModel"),
    ):
        mapping = auto_class._model_mapping
        mapping._reverse_config_mapping[config_name] = model_type
        mapping._model_mapping[model_type] = name
        mapping._modules[model_type] = sys.modules[__package__]


def _register_tokenizer() -> None:
    from transformers import AutoTokenizer

    from .core.configuration_vaswani import VaswaniConfig
    from .core.tokenization_vaswani import VaswaniTokenizer

    AutoTokenizer.register(VaswaniConfig, fast_tokenizer_class=VaswaniTokenizer, exist_ok=True)


def _register_pipeline() -> None:
    from transformers import AutoModelForSeq2SeqLM, pipelines

    from .text.languages import TRANSLATION_TASK
    from .translator.pipeline import TranslationPipeline

    class TaskAliases(dict):
        """Task aliases that also accept `translation_xx_to_yy`, which transformers 4 parsed and 5 does not."""

        def __contains__(self, task) -> bool:
            return super().__contains__(task) or bool(TRANSLATION_TASK.fullmatch(str(task)))

        def __missing__(self, task) -> str:
            if TRANSLATION_TASK.fullmatch(str(task)):
                return "translation"
            raise KeyError(task)

    class NoDefault(dict):
        """What `pipeline` looks up if no model is named."""

        def __contains__(self, key) -> bool:
            raise ValueError('There is no default model. Name one: pipeline("translation", model="path-or-hub-id")')

    # Since 5.19, transformers rejects removed tasks before it looks at the registered ones.
    getattr(pipelines, "REMOVED_TASKS", {}).pop("translation", None)
    registry = pipelines.PIPELINE_REGISTRY
    # Not `register_pipeline`: it marks the class, so that a saved pipeline of another model (say, Marian) would
    # need `trust_remote_code`.
    registry.supported_tasks["translation"] = {
        "impl": TranslationPipeline,
        "pt": (AutoModelForSeq2SeqLM,),
        "default": NoDefault(),
        "type": "text",
    }
    registry.task_aliases = TaskAliases(registry.task_aliases)
    pipelines.pipeline = _names_missing_folder(pipelines.pipeline)
    # `evaluate.evaluator` checks whether a pipeline's model is a TensorFlow model, with a class that transformers 5
    # no longer has.
    library = sys.modules["transformers"]  # importing one of its modules may have replaced the entry
    if not hasattr(library, "TFPreTrainedModel"):
        library.TFPreTrainedModel = type("TFPreTrainedModel", (), {})


def _names_missing_folder(pipeline: Callable) -> Callable:
    """Let `pipeline()` say why a model cannot be loaded: there is no such folder, or its files are damaged."""

    @wraps(pipeline)
    def wrapper(task=None, model=None, *args, **kwargs):
        try:
            return pipeline(task, model, *args, **kwargs)
        except Exception as error:
            if not isinstance(model, str | Path) or _is_own(error):
                raise
            if Path(model).is_dir():
                _check_files(Path(model))
            if Path(model).exists() or not isinstance(error, OSError):
                raise
            from .files import where_not_found

            why = " ".join(str(error).split())
            raise OSError(f"{model}{where_not_found(model)} cannot be loaded from the Hub: {why}") from None

    return wrapper


def _is_own(error: Exception) -> bool:
    """Whether this package has raised an error, rather than a library."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return Path(__file__).parent in Path(last.filename).parents


def _check_files(folder: Path) -> None:
    """Raise an `InputError` if the files of a model are damaged, or those of its tokenizer missing."""
    from .data.tokenizers.tokenizer import load_tokenizer
    from .errors import InputError
    from .models.model_files import weight_file_errors

    if errors := weight_file_errors(folder):
        raise InputError.of(errors)
    load_tokenizer(str(folder))

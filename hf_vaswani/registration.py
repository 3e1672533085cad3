"""Registers the config, models, tokenizer and translation pipeline with transformers' Auto classes and `pipeline()`.

Importing these takes seconds, so each is imported and registered only after the transformers module that looks it up.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

from .backends import BACKENDS, BackendRecord
from .runtime.imports import after_import

MODEL_TYPE = "vaswani"
CONFIG, MODEL = ".core.configuration_vaswani:VaswaniConfig", ".generation.fast_model:VaswaniForConditionalGeneration"
AUTO = "transformers.models.auto"


def register() -> None:
    """Register everything; calling it again changes nothing."""
    _register_class(MODEL_TYPE, CONFIG, MODEL)
    for record in BACKENDS.values():
        register_backend(record)
    for looks_up, own, registers in (
        (f"{AUTO}.tokenization_auto", "core.tokenization_vaswani", _register_tokenizer),
        ("transformers.pipelines", "translator.pipeline", _register_pipeline),
    ):
        _register_after(looks_up, f"{__package__}.{own}", registers)


def register_backend(record: BackendRecord) -> None:
    """Make an engine known to this package, and the models in its folders to the Auto classes."""
    BACKENDS[record.name] = record
    _register_class(record.model_type, record.config, record.model)


def _register_class(model_type: str, config: str, model: str) -> None:
    (config_module, config_name), (model_module, model_name) = config.split(":"), model.split(":")
    after_import(f"{AUTO}.modeling_auto", partial(_register_model, model_type, config_name, model_module, model_name))
    own = importlib.util.resolve_name(config_module, __package__)
    _register_after(f"{AUTO}.configuration_auto", own, partial(_register_config, model_type, own, config_name))


def _register_after(looks_up: str, own: str, registers: Callable[[], object]) -> None:
    """Import our own module after a module of transformers, and register what it has after that."""
    # Two callbacks rather than one: if our own module is what imports the transformers module, it is not complete
    # yet when that import ends.
    after_import(own, registers)
    after_import(looks_up, partial(importlib.import_module, own))


def _register_config(model_type: str, module: str, name: str) -> None:
    from transformers import AutoConfig

    AutoConfig.register(model_type, getattr(importlib.import_module(module), name), exist_ok=True)


def _register_model(model_type: str, config_name: str, module: str, name: str) -> None:
    from transformers import AutoModel, AutoModelForSeq2SeqLM

    # By name and module, as transformers registers its own models: `AutoModel.register` takes the classes themselves,
    # which are expensive to import.
    names = {AutoModelForSeq2SeqLM: name} | ({AutoModel: "VaswaniModel"} if model_type == MODEL_TYPE else {})
    for auto_class, class_name in names.items():
        mapping = auto_class._model_mapping
        mapping._reverse_config_mapping[config_name] = model_type
        mapping._model_mapping[model_type] = class_name
        mapping._modules[model_type] = _LazyModule(importlib.util.resolve_name(module, __package__))


class _LazyModule:
    """A module that is imported once something in it is needed."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


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
    """Raise an `InputError` if a model's files are damaged or its tokenizer's are missing."""
    from .data.tokenizers.tokenizer import load_tokenizer
    from .errors import InputError
    from .models.model_files import weight_file_errors

    if errors := weight_file_errors(folder):
        raise InputError.of(errors)
    load_tokenizer(str(folder))

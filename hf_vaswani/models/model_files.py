"""Checks the files in a model's folder: what kind of model they hold, and which is damaged or missing.

transformers raises many types of exceptions for damaged files, mostly without the file name, and ignores some damage
silently. Commands and importers run these checks before loading, to catch what nothing else would notice, and after a
failure, to find the file that caused it.
"""

import copy
import json
import re
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM, PreTrainedConfig

from ..backends import BACKENDS
from ..core.configuration_vaswani import VaswaniConfig
from ..core.modeling_base import copy_remote_code
from ..core.modeling_vaswani import VaswaniForConditionalGeneration
from ..errors import InputError, reason
from ..files import AGAIN, atomic_write, collect_errors, model_path_error, read_json, unreadable, where_not_found
from ..generation.settings import check_generation_file
from ..runtime.machine import free_memory

CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
# CTranslate2's: which target tokens it chooses from, given the source tokens.
SHORTLIST_FILE = "vmap.txt"
# Bytes per parameter in float32.
FLOAT_BYTES = 4
# Every file of the code says this of itself, in this version and in earlier ones.
MARK = re.compile(r"travels\s+with\s+(each\s+checkpoint|such\s+checkpoints)")
# The files of a web page that its script and browsers read first.
PAGE_FILE, INDEX_FILE = "page.json", "index.html"


def model_kind(folder: Path) -> str:
    """The `model_type` of `config.json`, such as marian, t5 or vaswani.

    Raises:
        InputError: the file is damaged or has no model_type.
    """
    path = folder / CONFIG_FILE
    kind = read_json(path).get("model_type")
    if not isinstance(kind, str):
        got = "has no model_type" if kind is None else f"has the model_type {json.dumps(kind)}"
        raise InputError(f"{path} {got}, so the type of the model is unknown. {AGAIN}")
    return kind


def find_model_kind(name: str) -> str | None:
    """The `model_type` of a model in a folder or on the Hub.

    Raises:
        InputError: there is no such model, its config is damaged, or it cannot be reached.
    """
    if Path(name).is_dir():
        return model_kind(Path(name))
    if error := model_path_error(name):
        raise InputError(error)
    try:
        return PreTrainedConfig.get_config_dict(name)[0].get("model_type")
    except Exception as error:  # of many types, for what is missing, private, or no model
        raise InputError(f"{name}{where_not_found(name)} cannot be loaded: {reason(error)}") from None


def check_settings(folder: Path) -> None:
    """Check `config.json` and `generation_config.json` of a translation model.

    Raises:
        InputError: lists all errors: a damaged file, or the config of another kind of model.
    """
    errors: list[str] = []
    config = collect_errors(errors, lambda: _read_config(folder / CONFIG_FILE))
    if (folder / GENERATION_FILE).exists():
        collect_errors(errors, lambda: _check_generation(folder / GENERATION_FILE, config))
    if errors:
        raise InputError.of(errors)


def check_config_exists(folder: Path) -> None:
    """Raise an `InputError` for a folder without a config, which says how a checkpoint becomes a model."""
    if (folder / CONFIG_FILE).exists():
        return
    if has_weights(folder) or (folder / "checkpoints").is_dir():
        raise InputError(
            f"{folder} is not a finished model: it has no {CONFIG_FILE}. If it is a checkpoint or an unfinished run, "
            f"{finish_hint(folder)}"
        )
    raise InputError(f"{folder} is not the folder of a model: it has no {CONFIG_FILE}. Choose another one.")


def finish_hint(folder: Path) -> str:
    """What to do for a model of a checkpoint or an unfinished run."""
    from .families import FAMILIES

    runs = [run for run in (folder, folder.parent.parent) if (run / "architecture" / CONFIG_FILE).exists()]
    if runs and model_kind(runs[0] / "architecture") in FAMILIES:
        return "end the run: its hf-vaswani train command with --max_steps 1 saves the model that it has now"
    return f"make a model of it with: hf-vaswani average {folder} --output FOLDER"


def has_weights(folder: Path) -> bool:
    """Whether a folder holds weight files of any kind."""
    return any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin"))


def weight_file_errors(folder: Path) -> list[str]:
    """Errors for damaged or missing weight files; files written by `torch.save` are not checked."""
    if not has_weights(folder):
        kind = read_json(folder / CONFIG_FILE).get("model_type")
        if needs := [record.files_in_words for record in BACKENDS.values() if record.model_type == kind]:
            return [f"{folder} is an incomplete export: it needs {needs[0]}. {AGAIN}"]
        if any(folder.glob("onnx/*.onnx")):
            return [
                f"{folder} was exported for transformers.js, for browsers and Node. Use the original "
                "model, or export that with --to onnx."
            ]
        return [f"{folder} has no weights (model.safetensors). Let its training finish, or choose another folder."]
    errors: list[str] = []
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "pt"):
                pass
        except OSError as error:
            errors.append(f"{path} cannot be read: {reason(error)}")
        except SafetensorError as error:
            errors.append(str(unreadable(path, f"truncated or damaged ({reason(error)})")))
    return errors


def _read_config(path: Path) -> PreTrainedConfig:
    """Read and check the config of a translation model."""
    kind = model_kind(path.parent)
    if kind not in CONFIG_MAPPING:
        raise InputError(f"{path}: model_type {kind!r} is unknown to transformers. Choose a model that translates.")
    if CONFIG_MAPPING[kind] not in AutoModelForSeq2SeqLM._model_mapping:
        raise InputError(f"{path}: a model of type {kind!r} is not an encoder-decoder. Choose one that translates.")
    try:
        config = CONFIG_MAPPING[kind].from_pretrained(path.parent)
        errors = memory_errors(parameter_count(config)) if isinstance(config, VaswaniConfig) else []
    except Exception as error:  # values of the wrong type raise various exceptions
        raise InputError(f"{path}: {reason(error)}") from None
    if errors:
        raise InputError.of([f"{path}: {error}. {AGAIN}" for error in errors])
    return config


def _check_generation(path: Path, config: PreTrainedConfig | None) -> None:
    """Check a generation config; `config` is the model's, if it can be read."""
    sizes = [getattr(config, name, None) for name in ("decoder_vocab_size", "vocab_size")]
    check_generation_file(path, next((size for size in sizes if isinstance(size, int)), None))
    settings, start = read_json(path), getattr(config, "decoder_start_token_id", None)
    if start is not None and all(settings.get(name) is None for name in ("decoder_start_token_id", "bos_token_id")):
        raise InputError(f"{path} has no decoder_start_token_id, which config.json has. {AGAIN}")


def parameter_count(config: VaswaniConfig) -> int:
    """The number of parameters, counting tied ones once, without building all layers."""
    small = copy.deepcopy(config)
    small.encoder_layers = small.decoder_layers = 1
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(small)
    stacks = [(model.get_encoder(), config.encoder_layers), (model.get_decoder(), config.decoder_layers)]
    more = sum((layers - 1) * sum(p.numel() for p in stack.layers[0].parameters()) for stack, layers in stacks)
    return model.num_parameters() + more


def memory_errors(count: int) -> list[str]:
    """An error if this many parameters do not fit into free memory; empty if they do."""
    free = free_memory()
    if count * FLOAT_BYTES <= free:
        return []
    need = f"{count * FLOAT_BYTES / 1e9:,.0f} GB for its weights"
    return [f"the model has {count:,} parameters and needs {need}, but {free / 1e9:,.1f} GB are free"]


def renew_code(folder: Path) -> None:
    """Replace the code in the folder of a saved model with this version's.

    Models saved by an earlier version may not work with the newest transformers where only transformers is installed.
    Their tokenizers get the name of this version's class, without which special tokens that are added are split.

    Raises:
        InputError: the folder holds no Vaswani model, or cannot be written.
    """
    if not (folder / CONFIG_FILE).is_file() or model_kind(folder) != "vaswani":
        raise InputError(
            f"{folder} contains no Vaswani model, whose code could be renewed. Specify the folder of one."
        )
    try:
        for path in folder.glob("*.py"):
            if MARK.search(path.read_text(encoding="utf-8", errors="replace")):
                path.unlink()
        copy_remote_code(folder)
        _renew_tokenizer_class(folder / "tokenizer_config.json")
    except OSError as error:
        raise InputError(f"The code in {folder} cannot be written: {reason(error)}.") from None


def _renew_tokenizer_class(file: Path) -> None:
    """Name this version's class where an earlier version saved a joint vocabulary as a plain tokenizer."""
    settings = read_json(file) if file.exists() else {}
    if settings.get("tokenizer_class") == "TokenizersBackend" and settings.get("split_special_tokens"):
        settings["tokenizer_class"] = "VaswaniTokenizer"
        with atomic_write(file) as part:
            part.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def weight_patterns() -> list[str]:
    """Patterns of the weight files of transformers, of all engines, and of web pages."""
    engines = [pattern for record in BACKENDS.values() for pattern in record.weights]
    return ["*.safetensors", "pytorch_model*.bin", *engines, "model/onnx/*.onnx"]


def is_engine_folder(folder: Path) -> bool:
    """Whether a folder holds the weights of an engine whose models this package can open.

    Raises:
        InputError: the folder has such weights, but its config is damaged.
    """
    # transformers.js has graphs with the same names as ONNX Runtime.
    return any(record.is_folder(folder) and model_kind(folder) == record.model_type for record in BACKENDS.values())


def is_exported(folder: Path) -> bool:
    """Whether a folder holds the weights of any engine, including transformers.js."""
    return any(record.is_folder(folder) for record in BACKENDS.values())


def is_page(folder: Path) -> bool:
    """Whether a folder holds a web page with a model."""
    return (folder / PAGE_FILE).is_file() and (folder / INDEX_FILE).is_file()


def weights_size(folder: Path) -> int:
    """The total size in bytes of a folder's weight files, regardless of the engine."""
    return sum(path.stat().st_size for pattern in weight_patterns() for path in folder.glob(pattern))

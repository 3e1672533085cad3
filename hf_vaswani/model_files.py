"""What is wrong with the files of a model's folder, each told by its name and before anything is computed.

transformers raises many kinds of exceptions for files that are damaged, mostly without saying which file it is, and
passes over some damage silently. Commands and importers ask here: before loading, what nothing else would notice, and
after loading failed, which file it was.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM, PreTrainedConfig

from .configuration_vaswani import VaswaniConfig
from .errors import InputError, reason
from .model_size import WEIGHTS, memory_errors
from .search_settings import check_generation_file

CONFIG_FILE, GENERATION_FILE, TOKENIZER_SETTINGS = "config.json", "generation_config.json", "tokenizer_config.json"
INDEX_FILES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
TOKENIZER_FILES = ("tokenizer*.json", "vocab*.json", "vocab.txt", "*.spm", "spiece.model", "sentencepiece*.model")
TOKENIZER_JSON = ("tokenizer*.json", "vocab*.json", "special_tokens_map.json", "added_tokens.json")
GIT_LFS = b"version https://git-lfs"
AGAIN = "Copy it again from where it came from."


def read_json(path: Path) -> dict[str, Any]:
    """The keys and values of a JSON file.

    Raises:
        InputError: where it is damaged, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"not JSON ({reason(error)})") from None
    if not isinstance(values, dict):
        kinds = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
        raise InputError(
            f"{path} cannot be read: it holds {kinds.get(type(values), 'a number')}, not keys with values. {AGAIN}"
        )
    return values


def model_kind(folder: Path) -> str:
    """What `config.json` calls its kind of model: marian, t5, vaswani.

    Raises:
        InputError: where it is damaged or does not say.
    """
    path = folder / CONFIG_FILE
    kind = read_json(path).get("model_type")
    if not isinstance(kind, str):
        got = "has no model_type" if kind is None else f"has the model_type {json.dumps(kind)}"
        raise InputError(f"{path} {got}, so that nobody knows what model it is of. {AGAIN}")
    return kind


def check_settings(folder: Path) -> None:
    """Check `config.json` and `generation_config.json` of a model that translates.

    Raises:
        InputError: where one of them is damaged, or of no such model; all that is wrong.
    """
    errors: list[str] = []
    config = _try(errors, lambda: _read_config(folder / CONFIG_FILE))
    if (folder / GENERATION_FILE).exists():
        _try(errors, lambda: _check_generation(folder / GENERATION_FILE, config))
    if errors:
        raise InputError.of(errors)


def check_tokenizer_settings(folder: Path) -> None:
    """Check `tokenizer_config.json`, whose values tokenizers take whatever their types, and fail at them later.

    Raises:
        InputError: where it is damaged, or has values of a wrong type; all of them.
    """
    path, errors = folder / TOKENIZER_SETTINGS, []
    if not path.exists():
        return
    settings = read_json(path)
    longest, kind = settings.get("model_max_length"), settings.get("tokenizer_class")
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int | float)):
        errors.append(f"{path}: model_max_length must be a number, got {json.dumps(longest)}. {AGAIN}")
    if kind is not None and not isinstance(kind, str):
        errors.append(f"{path}: tokenizer_class must be a name, got {json.dumps(kind)}. {AGAIN}")
    if errors:
        raise InputError.of(errors)


def has_weights(folder: Path) -> bool:
    """Whether a folder holds files of weights, of whatever kind."""
    return any(any(folder.glob(pattern)) for pattern in ("*.safetensors", "pytorch_model*.bin"))


def weight_file_errors(folder: Path) -> list[str]:
    """Files of weights that are damaged or missing; those that `torch.save` wrote are not looked at."""
    if not has_weights(folder):
        return [f"{folder} has no weights (model.safetensors). Let its training finish, or name another folder."]
    errors: list[str] = []
    for path in sorted(folder.glob("*.safetensors")):
        _try(errors, lambda path=path: _check_safetensors(path))
    indices = [folder / name for name in INDEX_FILES if (folder / name).exists()]
    for path in indices:
        _try(errors, lambda path=path: _check_index(path))
    shards = len(list(folder.glob("model-*-of-*.safetensors")))
    if shards and not indices and not (folder / "model.safetensors").exists():
        errors.append(f"{folder / INDEX_FILES[0]} is missing, which says which of {shards} files has what. {AGAIN}")
    return errors


def tokenizer_file_errors(folder: Path) -> list[str]:
    """Files of a tokenizer that are damaged or missing."""
    errors: list[str] = []
    for pattern in TOKENIZER_JSON:
        for path in sorted(folder.glob(pattern)):
            _try(errors, lambda path=path: read_json(path))
    if not errors and (folder / "tokenizer.json").exists():
        _try(errors, lambda: _check_tokenizer(folder / "tokenizer.json"))
    files = {path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    if files == {folder / TOKENIZER_SETTINGS}:
        errors.append(f"{folder} has {TOKENIZER_SETTINGS}, but no vocabulary with it (tokenizer.json). {AGAIN}")
    return errors


def _read_config(path: Path) -> PreTrainedConfig:
    """The config of a model that translates."""
    kind, dtype = model_kind(path.parent), read_json(path).get("dtype")
    if not (dtype is None or isinstance(dtype, str | dict)):
        raise InputError(f"{path}: dtype must be the name of one, got {json.dumps(dtype)}. {AGAIN}")
    if kind not in CONFIG_MAPPING:
        raise InputError(f"{path}: model_type {kind!r} is unknown to transformers. Name a model that translates.")
    if CONFIG_MAPPING[kind] not in AutoModelForSeq2SeqLM._model_mapping:
        raise InputError(f"{path}: a model of the kind {kind!r} is no encoder-decoder. Name one that translates.")
    try:
        config = CONFIG_MAPPING[kind].from_pretrained(path.parent)
    except Exception as error:  # values of the wrong types raise kinds of their own
        raise InputError(f"{path}: {reason(error)}") from None
    if isinstance(config, VaswaniConfig) and (errors := memory_errors(config, WEIGHTS)):
        raise InputError.of([f"{path}: {error}. {AGAIN}" for error in errors])
    return config


def _check_generation(path: Path, config: PreTrainedConfig | None) -> None:
    """`config`: the model's, where it can be read."""
    sizes = [getattr(config, name, None) for name in ("decoder_vocab_size", "vocab_size")]
    check_generation_file(path, next((size for size in sizes if isinstance(size, int)), None))
    settings, start = read_json(path), getattr(config, "decoder_start_token_id", None)
    if start is not None and all(settings.get(name) is None for name in ("decoder_start_token_id", "bos_token_id")):
        raise InputError(f"{path} has no decoder_start_token_id, which config.json has. {AGAIN}")


def _check_safetensors(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path} is no file. {AGAIN}")
    try:
        with safe_open(path, "pt"):
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except SafetensorError as error:
        raise _unreadable(path, f"truncated or damaged ({reason(error)})") from None


def _check_index(path: Path) -> None:
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files or not all(isinstance(name, str) for name in files.values()):
        raise InputError(f"{path} cannot be read: it names no files of weights (weight_map). {AGAIN}")
    missing = sorted(name for name in set(files.values()) if not (path.parent / name).is_file())
    if missing:
        raise InputError(f"{path} names files that are missing: {', '.join(missing)}. {AGAIN}")


def _check_tokenizer(path: Path) -> None:
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no kind of its own
        raise InputError(f"{path} cannot be read: it holds no tokenizer ({reason(error)}). {AGAIN}") from None


def _unreadable(path: Path, why: str) -> InputError:
    with path.open("rb") as file:
        is_pointer = file.read(len(GIT_LFS)) == GIT_LFS
    if is_pointer:
        why, remedy = "a pointer of Git LFS in place of the file", "Fetch the file itself: git lfs pull."
    else:
        remedy = AGAIN
    return InputError(f"{path} cannot be read: it is {why}. {remedy}")


def _try(errors: list[str], work: Callable[[], Any]) -> Any:
    """What some work returns, or `None` after adding its complaints to the errors."""
    try:
        return work()
    except ValueError as error:
        errors += str(error).splitlines()
        return None

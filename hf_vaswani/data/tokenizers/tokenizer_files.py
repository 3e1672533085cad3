"""The files of a tokenizer, and checks for damaged or missing ones."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from ...errors import InputError, reason
from ...files import AGAIN, collect_errors, read_json

TOKENIZER_SETTINGS = "tokenizer_config.json"
TOKENIZER_FILES = ("tokenizer*.json", "vocab*.json", "vocab.txt", "*.spm", "spiece.model", "sentencepiece*.model")
TOKENIZER_JSON = ("tokenizer*.json", "vocab*.json", "special_tokens_map.json", "added_tokens.json")


def check_tokenizer_settings(folder: Path) -> None:
    """Check `tokenizer_config.json`, if it exists, since tokenizers accept values of any type and fail later.

    Raises:
        InputError: the file is damaged, or has values of the wrong type (lists all of them).
    """
    path, errors = folder / TOKENIZER_SETTINGS, []
    settings = read_json(path) if path.exists() else {}
    max_length, tokenizer_class = settings.get("model_max_length"), settings.get("tokenizer_class")
    if max_length is not None and (isinstance(max_length, bool) or not isinstance(max_length, int | float)):
        errors.append(f"{path}: model_max_length must be a number, got {json.dumps(max_length)}. {AGAIN}")
    if tokenizer_class is not None and not isinstance(tokenizer_class, str):
        errors.append(f"{path}: tokenizer_class must be a name, got {json.dumps(tokenizer_class)}. {AGAIN}")
    if errors:
        raise InputError.of(errors)


def tokenizer_file_errors(folder: Path) -> list[str]:
    """Return the errors in a tokenizer's files: those that are damaged or missing."""
    errors: list[str] = []
    for pattern in TOKENIZER_JSON:
        for path in sorted(folder.glob(pattern)):
            collect_errors(errors, lambda path=path: read_json(path))
    if not errors and (folder / "tokenizer.json").exists():
        collect_errors(errors, lambda: _check_tokenizer(folder / "tokenizer.json"))
    files = {path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)}
    if files == {folder / TOKENIZER_SETTINGS}:
        errors.append(f"{folder} has {TOKENIZER_SETTINGS}, but no vocabulary with it (tokenizer.json). {AGAIN}")
    return errors


def _check_tokenizer(path: Path) -> None:
    try:
        Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no exception type of its own
        raise InputError(f"{path} cannot be read: it is not a tokenizer ({reason(error)}). {AGAIN}") from None

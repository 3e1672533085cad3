"""Renews the code that a saved model carries, which loads it where this package is not installed."""

import json
import re
from pathlib import Path

from ..core.modeling_base import copy_remote_code
from ..errors import InputError, reason
from ..files import atomic_write, read_json
from ..models.model_files import CONFIG_FILE, model_kind

# Every file of the code says this of itself, in this version and in earlier ones.
MARK = re.compile(r"travels\s+with\s+(each\s+checkpoint|such\s+checkpoints)")


def renew_code(folder: Path) -> None:
    """Replace the code in the folder of a saved model with that of this version.

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

"""Imports other systems' models, detecting which system each one comes from, and exports to Marian."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .marian import export_checkpoint
    from .marian import write as export_marian
    from .sources import check_model_type, import_checkpoint, import_model, import_tokenizer

__all__ = [
    "check_model_type",
    "export_checkpoint",
    "export_marian",
    "import_checkpoint",
    "import_model",
    "import_tokenizer",
]
# The readers of all systems are imported only when one is needed.
HOMES = {
    "check_model_type": "sources", "export_checkpoint": "marian", "import_checkpoint": "sources",
    "import_model": "sources", "import_tokenizer": "sources",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "export_marian":
        from .marian import write

        return write
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{HOMES[name]}", __name__), name)
